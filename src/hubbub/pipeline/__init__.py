"""The data pipeline: from the journal's segments to tables that answer questions, on Spark.

`jobs/` brings the Delta tables of a warehouse (`catalogue.py`, `tables/`) up to date with the
journal, `views/` answer from them. Nothing of the hub imports this package: it needs PySpark and
Java, and a hub needs neither.
"""

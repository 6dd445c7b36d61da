"""The data pipeline: computes tables from the journal's segments, on Spark.

`jobs/` updates the Delta tables of a warehouse (`catalogue.py`, `tables/`) from the journal.
`models/` has the answers in SQL, whose tables `jobs/gold.py` makes. No module of the hub imports
this package: it needs PySpark and Java, which the hub does not need.
"""

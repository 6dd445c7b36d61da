"""The data pipeline: from the journal's segments to tables that answer questions, on Spark.

bronze (the journal's sealed segments) → silver (typed, deduplicated: `schemas.py`) → gold (`gold/`,
one module for each table). `warehouse.py` holds what is committed, `rounds.py` brings it forward.
Nothing of the hub imports this package: it needs PySpark and Java, and a hub needs neither.
"""

"""A connection's requests: subscribe, publish, queries, restore, and what runs beside them."""

"""The production store: a PostgreSQL server that several hubs share."""

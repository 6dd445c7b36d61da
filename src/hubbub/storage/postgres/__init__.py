"""The store for production: a PostgreSQL server that several hubs share."""

"""Requests of a connection: subscribe, publish, queries, restore, and concurrent requests."""

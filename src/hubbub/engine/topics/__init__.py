"""Exactly-once delivery: producers, durable subscriptions, acknowledgements, dead letters."""

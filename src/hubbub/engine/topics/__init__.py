"""Exactly-once: producers, durable subscriptions, acknowledgements, dead letters."""

"""Exactly once under measurement, beside JetStream that syncs every message to the same disk."""

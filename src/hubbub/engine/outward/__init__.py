"""Deliveries to what is outside of the hub: attempts, pauses between them, and when they end."""

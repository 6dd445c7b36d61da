"""Deliveries to receivers outside of the hub: attempts, pauses, and giving up."""

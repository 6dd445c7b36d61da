"""An outbox: messages reach the hub exactly once."""

"""An outbox: messages that reach the hub once."""

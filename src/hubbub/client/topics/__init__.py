"""Topics as a client uses them: put, get, acknowledge, durable subscriptions."""

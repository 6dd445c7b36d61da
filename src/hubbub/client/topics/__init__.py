"""The client side of topics: put, get, acknowledge, durable subscriptions."""

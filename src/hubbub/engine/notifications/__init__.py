"""Notification channels: the service that callers ask, and what the owner of a channel does."""

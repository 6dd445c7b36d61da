"""Notification channels: the service for callers, and the work at the owner of a channel."""

"""Calls of services behind a hub, and events for their streams."""

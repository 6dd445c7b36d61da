"""Webhooks: channels whose messages go out as HTTP requests, and the topics that they are about."""

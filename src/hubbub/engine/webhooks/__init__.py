"""Webhooks: deliver channels' messages as HTTP requests; also the topics of WebSub and Light."""

"""Connections to a hub: handshake, conversation, reconnection."""

"""One connection after the other: handshake, conversation, reconnection."""

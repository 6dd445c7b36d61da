"""Search in stored messages: the index at the owner of channels, and questions at the node."""

"""Search on the wire."""

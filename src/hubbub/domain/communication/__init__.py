"""Messages to people and tools: routing, delivery policies and privacy, without I/O."""

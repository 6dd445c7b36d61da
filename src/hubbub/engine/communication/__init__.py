"""Messages to people and tools: decided at the owner of a hub's log, delivered by adapters."""

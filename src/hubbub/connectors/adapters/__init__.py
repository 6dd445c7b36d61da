"""The hub's built-in adapters, which implement `ports.adapters`: a module per medium."""

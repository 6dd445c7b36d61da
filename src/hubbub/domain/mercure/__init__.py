"""Mercure: selectors of topics, updates, and the keys of tokens, without I/O."""

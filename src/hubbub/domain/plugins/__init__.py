"""Command plugins: the Python subset that they may use, and the static analysis that enforces
it."""

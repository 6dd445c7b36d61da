"""Command plugins: what their code may use, and the static analysis that holds them to it."""

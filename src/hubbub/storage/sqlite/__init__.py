"""The embedded store: SQLite, written by a process of its own."""

"""The embedded store: SQLite, written by a separate process."""

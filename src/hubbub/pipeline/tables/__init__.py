"""The warehouse: Delta tables at a location, the table of rounds, and snapshots across tables."""

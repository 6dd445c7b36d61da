"""The Mercure door."""

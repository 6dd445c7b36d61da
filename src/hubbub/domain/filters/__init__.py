"""Filters: which messages a subscriber wants. Compiled once when they are set, then evaluated for
each message. Pure: `now` comes with the message's view."""

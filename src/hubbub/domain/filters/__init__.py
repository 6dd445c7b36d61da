"""Filters: the messages that a subscriber wants. A filter is compiled once when it is set, then
evaluated for each message. Pure: `now` is part of the message's view."""

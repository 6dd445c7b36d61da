"""Channels at their owner: ordering, appends, presence, retained messages, history, retention."""

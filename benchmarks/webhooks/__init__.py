"""Webhooks under measurement: one receiver, many of them, and some that are dead."""

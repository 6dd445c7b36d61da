"""Hooks around storing: validators run before it, savers after it."""

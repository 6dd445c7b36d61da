"""Mercure: updates with topics in one ordered log of each hub."""

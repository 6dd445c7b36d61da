"""The journal: a log of what happened in a hub, for later analysis."""

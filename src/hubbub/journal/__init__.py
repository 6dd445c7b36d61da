"""The journal: what happened in a hub, written beside it for those who ask later."""

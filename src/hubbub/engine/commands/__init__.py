"""Hubiquitus commands: requests of users to the hub, and channels with an owner."""

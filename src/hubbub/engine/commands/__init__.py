"""Commands, after Hubiquitus: what users ask of the hub, and channels that have an owner."""

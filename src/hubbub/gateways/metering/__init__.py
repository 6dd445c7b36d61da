"""The doors of the counters that survive a restart."""

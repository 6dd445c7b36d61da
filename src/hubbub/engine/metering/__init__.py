"""Counters that survive a restart, by five minutes and in total."""

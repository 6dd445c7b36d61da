"""Devices: clients that are identified by an id of their own, and follow channels by filters."""

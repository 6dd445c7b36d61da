"""A webhook receiver for any web framework."""

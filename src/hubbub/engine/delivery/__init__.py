"""Delivery from a channel's owner to the subscribers on this node: feeds, fan-out, and tallies."""

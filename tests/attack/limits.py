"""What the shipped limits add up to."""

from __future__ import annotations


def sum_of_limits() -> str:
    """One sentence."""
    return "The sum of the limits is not computed yet."

"""Adapts the amount of work per turn of the event loop."""

from __future__ import annotations


def adapted(amount: int, seconds: float, aim: float, least: int, most: int) -> int:
    """The amount for the next turn, if the last turn allowed `amount` and took `seconds`: half of
    it if that exceeded `aim`, twice as much if it was less than half of `aim`."""
    if seconds > aim:
        return max(least, amount // 2)
    return min(most, amount * 2) if seconds < aim / 2 else amount

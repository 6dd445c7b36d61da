"""How much work fits into one turn of the event loop."""

from __future__ import annotations


def adapted(amount: int, seconds: float, aim: float, least: int, most: int) -> int:
    """What to do in the next turn where `amount` was allowed in the last one and the work took
    `seconds`: half of it if that was longer than `aim`, twice as much if it was less than half of
    `aim`."""
    if seconds > aim:
        return max(least, amount // 2)
    return min(most, amount * 2) if seconds < aim / 2 else amount

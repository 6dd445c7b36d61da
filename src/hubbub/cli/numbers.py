"""Numbers as values of options."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A number. Click takes `nan` and `inf` for numbers within every range."""

    def convert(self, value: Any, *context: Any) -> float:
        number: float = super().convert(value, *context)
        return number if math.isfinite(number) else self.fail(f"{value!r} is not a number.")

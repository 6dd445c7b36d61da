"""The load of the coming hours, the nodes that it calls for, and how well that was known before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.pipeline.gold.columns import (
    ALL_HUBS,
    FLAG,
    REAL,
    TEXT,
    TIME,
    WHOLE,
    recent_hours,
    schema,
    shaped,
)
from hubbub.pipeline.gold.seasonal_model import HELD_BACK_DAYS, TRAINING_DAYS, predicted
from hubbub.pipeline.tables import GoldTable

MEASURES = ("messages_in", "messages_out")
BUSIEST_HUBS = 20
"""Hubs with a forecast of their own, beside the sum of all."""
NINE_OF_TEN = 1.645
"""Deviations to each side between which nine of ten hours lie."""


@dataclass(frozen=True)
class Capacity:
    """What a node can take, as measured (docs/benchmarks.md): stored publishes that are
    acknowledged, and deliveries at one write each, which is the dearest way. `used` is how much
    of a node should be in use at most, so that one may fail or a peak may come."""

    publishes_per_second: float = 14_400
    deliveries_per_second: float = 300_000
    used: float = 0.6


SCHEMA = schema(
    hub=TEXT,
    time=TIME,
    held_back=FLAG,
    messages_in=REAL,
    messages_in_low=REAL,
    messages_in_high=REAL,
    messages_in_actual=WHOLE,
    messages_in_yesterday=WHOLE,
    messages_out=REAL,
    messages_out_low=REAL,
    messages_out_high=REAL,
    messages_out_actual=WHOLE,
    messages_out_yesterday=WHOLE,
    nodes=WHOLE,
)

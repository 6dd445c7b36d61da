"""Silver rows of events that stand for themselves: messages, deliveries, receipts, attempts, drops.

`sorting.py` makes them. Sessions and subscriptions are made of two events each: `pairing.py`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain import journal

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "messages": (journal.PUBLISHED,),
    "deliveries": (journal.DELIVERED,),
    "receipts": (journal.RECEIVED, journal.ACKNOWLEDGED, journal.DEAD_LETTERED),
    "attempts": (journal.WEBHOOK_ATTEMPT, journal.ADAPTER_ATTEMPT),
    "drops": (journal.DROPPED, journal.TELEMETRY_LOST),
}
"""The tables with one row for each event, and the events."""


def without_repeats(table: str, rows: DataFrame) -> DataFrame:
    """Each message once, each other event once. Of a message's copies the first one in the
    journal's order stays, whatever order they came in."""
    if table != "messages":
        return rows.dropDuplicates(["segment", "offset"])
    copies = Window.partitionBy("hour", "hub", "message_id").orderBy("at", "segment", "offset")
    return rows.withColumn("copy", F.row_number().over(copies)).where("copy = 1").drop("copy")

"""Silver rows that are made of two events or more: sessions and subscriptions, with their ends.

Rows keep the events that they were made of. So a row and later events give the same row as all the
events at once, in whatever order they come.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from hubbub.domain import journal
from hubbub.pipeline.schemas import SESSION_EVENT, SILVER
from hubbub.pipeline.tables import hour_of

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "sessions": (journal.SESSION_OPENED, journal.SESSION_CLOSED),
    "subscriptions": (journal.SUBSCRIBED, journal.UNSUBSCRIBED),
}
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "sessions": ("hub", "session"),
    "subscriptions": ("hub", "channel", "session"),
}
"""What says that events belong together."""

ASIDE: Final = StructType(
    [*(StructField(name, StringType()) for name in KEYS["subscriptions"]), *SESSION_EVENT.fields]
)
"""What is kept of an event until it is part of a row."""


def parts(table: str, events: DataFrame) -> DataFrame:
    """The events that concern this table, each as one value beside its key."""
    return events.select(*KEYS[table], F.struct(*SESSION_EVENT.names).alias("part"))


def parts_of_rows(table: str, rows: DataFrame) -> DataFrame:
    """What rows were made of."""
    return rows.select(*KEYS[table], F.explode("events").alias("part"))


def paired(table: str, parts: DataFrame) -> DataFrame:
    """The silver rows that these events make."""
    rows = _sessions(parts) if table == "sessions" else _subscriptions(parts)
    return rows.select(*SILVER[table].names)


def _sessions(parts: DataFrame) -> DataFrame:
    opened, closed = _of(journal.SESSION_OPENED), _of(journal.SESSION_CLOSED)
    rows = (
        parts.groupBy("hub", "session")
        .agg(F.sort_array(F.collect_list("part")).alias("events"))
        .withColumn("opened", F.filter("events", opened))
        .withColumn("closed", F.filter("events", closed))
        .withColumn("end", F.try_element_at(F.col("closed"), F.lit(-1)))
        .withColumn("opened_at", _first_known("opened", "closed"))
    )
    over = F.col("end.at") >= F.coalesce(F.array_max("opened.at"), F.col("end.at"))
    return (
        rows.withColumn("closed_at", F.when(over, F.col("end.at")))
        .withColumn("reason", F.when(over, F.col("end.reason")))
        .withColumn("duration", _between("opened_at", "closed_at"))
        .withColumn("hour", hour_of(F.col("opened_at")))
        .withColumns({name: _known(name) for name in ("user", "node", "technology")})
    )


def _of(kind: str) -> Any:
    return lambda event: event["kind"] == kind


def _first_known(opened: str, closed: str) -> Column:
    """When it began: as said, or else as its end says how long it took."""
    end = F.try_element_at(F.col(closed), F.lit(1))
    return F.coalesce(F.try_element_at(F.col(opened), F.lit(1))["at"], _began(end))


def _began(end: Column) -> Column:
    micros = F.unix_micros(end["at"]) - F.coalesce(end["duration"], F.lit(0))
    return F.timestamp_micros(micros)


def _known(name: str) -> Column:
    """The first that any event says."""
    said = F.filter(F.col(f"events.{name}"), lambda value: value.isNotNull())
    return F.try_element_at(said, F.lit(1))


def _between(start: str, end: str) -> Column:
    return F.unix_micros(end) - F.unix_micros(start)


def _subscriptions(parts: DataFrame) -> DataFrame:
    """A start takes the end that follows it. A start after a start ends the one before; an end
    without a start stands for itself. An event that was journalled twice counts once."""
    moment = F.struct(
        F.col("part.at").alias("at"),
        (F.col("part.kind") == journal.UNSUBSCRIBED).alias("ending"),
        F.col("part"),
    )
    rows = (
        parts.groupBy(*KEYS["subscriptions"])
        .agg(F.sort_array(F.collect_list(moment)).alias("all"))
        .withColumn("moments", F.array_distinct(F.transform("all", _when)))
        .withColumn("pair", F.explode(_pairs(F.col("moments"))))
    )
    begin, end = F.col("pair.begin"), F.col("pair.end")
    return (
        rows.withColumn("events", F.transform(F.filter("all", _either(begin, end)), _part))
        .withColumn("started_at", F.coalesce(begin["at"], _began(F.col("events")[0])))
        .withColumn("ended_at", F.coalesce(end["at"], F.col("pair.next_at")))
        .withColumn("duration", _between("started_at", "ended_at"))
        .withColumn("hour", hour_of(F.col("started_at")))
        .withColumns({name: _known(name) for name in ("user", "node")})
    )


def _when(moment: Column) -> Column:
    return F.struct(moment["at"].alias("at"), moment["ending"].alias("ending"))


def _part(moment: Column) -> Column:
    return moment["part"]


def _pairs(moments: Column) -> Column:
    """Beginnings with their ends, and ends that have no beginning."""

    def leads(moment: Column, index: Column) -> Column:
        before = F.get(moments, index - 1)["ending"]
        return ~moment["ending"] | F.coalesce(before, F.lit(True))

    def pair(moment: Column, index: Column) -> Column:
        after = F.get(moments, index + 1)
        alone = moment["ending"]
        return F.struct(
            F.when(~alone, moment).alias("begin"),
            F.when(alone, moment).when(after["ending"], after).alias("end"),
            F.when(~alone, after["at"]).alias("next_at"),
        )

    every = F.transform(
        moments, lambda moment, index: F.when(leads(moment, index), pair(moment, index))
    )
    return F.filter(every, lambda found: found.isNotNull())


def _either(begin: Column, end: Column) -> Any:
    def belongs(moment: Column) -> Column:
        when = _when(moment)
        return when.eqNullSafe(begin) | when.eqNullSafe(end)

    return belongs

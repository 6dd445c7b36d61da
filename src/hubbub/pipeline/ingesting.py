"""From bronze to silver: takes new segments in, once each, and takes replaced ones out again.

Rows of events that stand for themselves are appended to their hours. An hour is written again only
where it must be: a message may be there twice, or a segment that gave rows to it was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline import pairing, quarantine, silver
from hubbub.pipeline.bronze import HOUR_MICROSECONDS, hour_name, read_events, verdict
from hubbub.pipeline.parallel import parallel_jobs
from hubbub.pipeline.planning import DUPLICATE, Plan
from hubbub.pipeline.reading import no_rows, read_silver, read_table
from hubbub.pipeline.schemas import QUARANTINE, SILVER
from hubbub.pipeline.state import SegmentState, State
from hubbub.pipeline.survey import SegmentSurvey, duplicates, hours_of, survey
from hubbub.pipeline.warehouse import QUARANTINE_TABLE, Change, Warehouse

Said = Callable[[str], None]


class Ingestion:
    """One round's way to silver. It writes drafts; the caller commits them."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, plan: Plan) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._plan = plan
        self._kept = {
            name: known for name, known in plan.base.segments.items() if name not in plan.retracted
        }
        self._surveys: dict[str, SegmentSurvey] = {}
        self._doubles: dict[str, str] = {}

    @property
    def surveys(self) -> dict[str, SegmentSurvey]:
        """Of the segments that were taken."""
        return self._surveys

    @property
    def doubles(self) -> dict[str, str]:
        """Segments that hold the same as others, and which."""
        return self._doubles

    def run(self, said: Said) -> tuple[list[Change], State]:
        """The changes of silver tables and quarantine, and the state to commit with them."""
        said("looking at new segments")
        self._survey()
        jobs = {
            **dict.fromkeys(silver.KINDS, self._append),
            **dict.fromkeys(pairing.KINDS, self._pair),
            QUARANTINE_TABLE: self._quarantine,
        }
        changes: list[Change] = []
        with parallel_jobs(self._spark) as pool:
            started = {table: pool.submit(job, table) for table, job in jobs.items()}
            for table, job in started.items():
                said(f"silver: {table}")
                changes += self._replacing_all(table, job.result())
        return changes, self._state(changes)

    # -- what is there --------------------------------------------------------------------------

    def _survey(self) -> None:
        plan = self._plan
        if not plan.fresh:
            return
        surveys = survey(read_events(self._spark, plan.fresh.values()), {})
        early = {
            name: plan.limit(name) for name, one in surveys.items() if one.latest > plan.limit(name)
        }
        if early:
            suspects = read_events(self._spark, [plan.fresh[name] for name in early])
            surveys |= survey(suspects, early)
        known = {one.fingerprint: name for name, one in self._kept.items() if one.fingerprint}
        self._doubles = duplicates(surveys, known)
        self._surveys = {
            name: surveys.get(name, SegmentSurvey())
            for name in plan.fresh
            if name not in self._doubles
        }

    def _fit_events(self, names: Collection[str]) -> DataFrame:
        """The events of these segments without those that are refused."""
        events = read_events(self._spark, [self._plan.live[name] for name in names])
        if not any(self._unfit(name) for name in names):
            return events
        limits = {name: self._plan.limit(name) for name in names if self._unfit(name)}
        return events.where(verdict(limits).isNull())

    def _unfit(self, name: str) -> bool:
        if name in self._surveys:
            return bool(self._surveys[name].refused)
        return bool(self._kept[name].unfit)

    def _of_kinds(self, kinds: Collection[str]) -> list[str]:
        return [name for name, one in self._surveys.items() if kinds & one.hours.keys()]

    def _rows_kept(self, table: str, hours: Collection[str] | None = None) -> DataFrame:
        """What is committed, without what retracted segments gave."""
        if self._plan.full:
            return no_rows(self._spark, SILVER[table])
        return read_silver(self._spark, self._warehouse, table, hours)

    def _partitions(self, table: str) -> set[str]:
        return set() if self._plan.full else self._warehouse.partitions(table)

    # -- events that stand for themselves -------------------------------------------------------

    def _append(self, table: str) -> list[Change]:
        kinds = set(silver.KINDS[table])
        names = self._of_kinds(kinds)
        hours = hours_of(self._surveys.values(), kinds)
        again = self._hours_again(table, names, hours)
        changes = []
        if again:
            rows = silver.without_repeats(table, self._rows_again(table, again))
            changes.append(self._change(table, "again", rows.repartition("hour"), again))
        if hours - again:
            events = self._fit_events(names)
            if again:
                rows = silver.rows(table, events).where(~F.col("hour").isin(*again))
                changes.append(self._change(table, "new", rows))
            else:
                changes.append(self._change_by_index(table, silver.rows_by_index(table, events)))
        return changes

    def _hours_again(self, table: str, names: Collection[str], hours: set[str]) -> set[str]:
        """The hours that have to be written again as a whole."""
        gone = {hour for known in self._plan.retracted.values() for hour in known.hours}
        again = gone & (self._partitions(table) | hours)
        if table == "messages" and names:
            kept = self._rows_kept(table, hours)
            again |= set(silver.repeated_message_hours(self._fit_events(names), kept))
        return again

    def _rows_again(self, table: str, hours: set[str]) -> DataFrame:
        """All rows of these hours: what is kept, and again what segments that are still there
        gave. A message that was left out for its copy may take that copy's place now."""
        rows = self._rows_kept(table, hours)
        if self._plan.retracted:
            rows = rows.where(~F.col("segment").isin(*self._plan.retracted))
        known_or_new: dict[str, SegmentState | SegmentSurvey] = {**self._kept, **self._surveys}
        sources = [
            name
            for name, known in known_or_new.items()
            if name in self._plan.live and not self._is_refused(name) and hours & _hours(known)
        ]
        if sources:
            fresh = silver.rows(table, self._fit_events(sources))
            rows = rows.unionByName(fresh.where(F.col("hour").isin(*hours)))
        return rows

    def _is_refused(self, name: str) -> bool:
        return name in self._kept and bool(self._kept[name].refused)

    # -- events that make a row together --------------------------------------------------------

    def _pair(self, table: str) -> list[Change]:
        names = self._of_kinds(set(pairing.KINDS[table]))
        if not names and not self._plan.retracted:
            return []
        key = list(pairing.KEYS[table])
        parts = self._parts(table, names)
        if not self._partitions(table):
            return [self._change(table, "new", pairing.paired(table, parts).repartition("hour"))]
        kept = self._rows_kept(table)
        keys = parts.select(*key).distinct()
        if self._plan.retracted:
            keys = keys.unionByName(kept.where(self._has_retracted()).select(*key)).distinct()
        keys = F.broadcast(keys.cache())
        old = kept.join(keys, key, "left_semi").cache()
        still = pairing.parts_of_rows(table, old)
        if self._plan.retracted:
            still = still.where(~F.col("part.segment").isin(*self._plan.retracted))
        new = pairing.paired(table, still.unionByName(parts)).cache()
        hours = {
            row.hour for row in old.select("hour").union(new.select("hour")).distinct().collect()
        }
        others = self._rows_kept(table, hours).join(keys, key, "left_anti")
        return [self._change(table, "again", others.unionByName(new).repartition("hour"), hours)]

    def _parts(self, table: str, names: Collection[str]) -> DataFrame:
        if not names:
            return pairing.parts_of_rows(table, no_rows(self._spark, SILVER[table]))
        return pairing.parts(table, self._fit_events(names))

    def _has_retracted(self) -> Column:
        retracted = list(self._plan.retracted)
        return F.exists("events", lambda event: event["segment"].isin(*retracted))

    # -- what was refused -----------------------------------------------------------------------

    def _quarantine(self, table: str) -> list[Change]:
        plan = self._plan
        refused = [(name, word, said) for name, (_, word, said) in plan.refused.items()]
        refused += [
            (name, DUPLICATE, f"the same as {other}") for name, other in self._doubles.items()
        ]
        unfit = [name for name, one in self._surveys.items() if one.refused]
        changes = []
        if plan.retracted:
            changes += self._quarantine_again(table)
        if refused:
            rows = quarantine.refused_segments(self._spark, refused, plan.seen_at)
            changes.append(self._change(table, "segments", rows.coalesce(1)))
        if unfit:
            events = read_events(self._spark, [plan.fresh[name] for name in unfit])
            limits = {name: plan.limit(name) for name in unfit}
            rows = quarantine.unfit_records(
                events, limits, {name: plan.seen_at[name] for name in unfit}
            )
            changes.append(self._change(table, "records", rows.coalesce(1)))
        return changes

    def _quarantine_again(self, table: str) -> list[Change]:
        hours = {
            hour_name(known.seen_at // HOUR_MICROSECONDS) for known in self._plan.retracted.values()
        } & self._partitions(table)
        if not hours:
            return []
        rows = read_table(self._spark, self._warehouse, table, QUARANTINE, hours)
        rows = rows.where(~F.col("segment").isin(*self._plan.retracted))
        return [self._change(table, "again", rows.coalesce(1), hours)]

    # -- writing --------------------------------------------------------------------------------

    def _change(
        self, table: str, label: str, rows: DataFrame, replaced: Collection[str] = ()
    ) -> Change:
        draft = self._warehouse.draft(f"{table}-{label}")
        rows.write.partitionBy("hour").parquet(str(draft))
        return Change(table, draft, "hour", frozenset(replaced))

    def _change_by_index(self, table: str, rows: DataFrame) -> Change:
        draft = self._warehouse.draft(f"{table}-new")
        rows.write.partitionBy(silver.HOUR_INDEX).parquet(str(draft))
        for folder in draft.glob(f"{silver.HOUR_INDEX}=*"):
            index = int(folder.name.removeprefix(f"{silver.HOUR_INDEX}="))
            folder.rename(draft / f"hour={hour_name(index)}")
        return Change(table, draft, "hour")

    def _replacing_all(self, table: str, changes: list[Change]) -> list[Change]:
        """A rebuild leaves nothing of what was there, also of a table that has nothing new."""
        if not self._plan.full:
            return changes
        nothing = self._warehouse.draft(f"{table}-nothing")
        old = frozenset(self._warehouse.partitions(table))
        return [Change(table, nothing, "hour", old), *changes]

    def _state(self, changes: list[Change]) -> State:
        plan = self._plan
        segments = dict(self._kept)
        for name, one in self._surveys.items():
            segments[name] = self._segment_state(
                name,
                rows=one.rows,
                hours=sorted(hours_of([one], one.hours)),
                fingerprint=one.fingerprint if one.rows else "",
                unfit=dict(one.refused),
            )
        for name, other in self._doubles.items():
            segments[name] = self._segment_state(name, refused=DUPLICATE, duplicate_of=other)
        for name, (_, word, _said) in plan.refused.items():
            segments[name] = self._segment_state(name, refused=word)
        latest = max((one.latest for one in self._surveys.values()), default=0)
        pending = {table: set(hours) for table, hours in plan.base.pending.items()}
        for change in changes:
            if change.table in SILVER:
                touched = {path.name.removeprefix("hour=") for path in change.draft.glob("hour=*")}
                pending.setdefault(change.table, set()).update(touched | change.replaced)
        return State(
            watermark=max(plan.base.watermark, latest),
            segments=segments,
            pending={table: sorted(hours) for table, hours in pending.items()},
            rebuilding=plan.full or plan.base.rebuilding,
        )

    def _segment_state(self, name: str, **known: Any) -> SegmentState:
        segment = self._plan.live[name]
        return SegmentState(self._plan.seen_at[name], segment.size, segment.modified, **known)


def _hours(known: SegmentState | SegmentSurvey) -> set[str]:
    if isinstance(known, SegmentState):
        return set(known.hours)
    return hours_of([known], known.hours)

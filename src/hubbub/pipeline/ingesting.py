"""From bronze to silver: takes new segments in, once each, and takes replaced ones out again.

Rows of events that stand for themselves are appended to their hours. An hour is written again only
where it must be: a message may be there twice, or a segment that gave rows to it was replaced.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline import pairing, quarantine, silver
from hubbub.pipeline.bronze import HOUR_MICROSECONDS, Source, hour_name
from hubbub.pipeline.joining import Pairing, Parting, pair, retracted_keys, set_apart
from hubbub.pipeline.parallel import parallel_jobs
from hubbub.pipeline.planning import DUPLICATE, Plan
from hubbub.pipeline.reading import no_rows, read_files, read_silver, read_table
from hubbub.pipeline.scattering import in_groups, scattered
from hubbub.pipeline.schemas import QUARANTINE, SILVER
from hubbub.pipeline.sorting import UNFIT, Sorting, has_repeats, sort_segments
from hubbub.pipeline.state import SegmentState, State
from hubbub.pipeline.survey import SegmentSurvey, duplicates, hours_of, survey
from hubbub.pipeline.warehouse import QUARANTINE_TABLE, Change, Warehouse

Said = Callable[[str], None]

_SURVEYED_BYTES: Final = 32 * 2**20
_SORTED_BYTES: Final = 16 * 2**20
"""Of segments that one task takes. More would leave cores idle at the end, less would make many
small files."""
_BUCKET_ROWS: Final = 20_000_000
"""New events for each bucket of sessions and subscriptions, which are a small part of them."""


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
        self._token = secrets.token_hex(8)
        self._gone = frozenset(plan.retracted)
        self._buckets = 1

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
        said("silver: sorting")
        self._sort()
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
        fresh = [self._source(name) for name in plan.fresh]
        groups = in_groups(fresh, _size, _SURVEYED_BYTES)
        surveys: dict[str, SegmentSurvey] = {}
        for found in scattered(self._spark, survey, groups):
            surveys |= found
        known = {one.fingerprint: name for name, one in self._kept.items() if one.fingerprint}
        self._doubles = duplicates(surveys, known)
        self._surveys = {
            name: surveys.get(name, SegmentSurvey())
            for name in plan.fresh
            if name not in self._doubles
        }

    def _source(self, name: str) -> Source:
        segment = self._plan.live[name]
        return Source(name, segment.path, segment.size, self._plan.limit(name), self._fit(name))

    def _fit(self, name: str) -> bool:
        if name in self._surveys:
            return not self._surveys[name].refused
        return name in self._kept and not self._kept[name].unfit

    def _rows_kept(self, table: str, hours: Collection[str] | None = None) -> DataFrame:
        """What is committed, without what retracted segments gave."""
        if self._plan.full:
            return no_rows(self._spark, SILVER[table])
        return read_silver(self._spark, self._warehouse, table, hours)

    def _partitions(self, table: str) -> set[str]:
        return set() if self._plan.full else self._warehouse.partitions(table)

    # -- from events to rows ----------------------------------------------------------------------

    def _sort(self) -> None:
        """All new segments in one pass."""
        rows = sum(one.rows for one in self._surveys.values())
        self._buckets = 1 + rows // _BUCKET_ROWS
        names = sorted(self._surveys, key=lambda name: (sorted(_hours(self._surveys[name])), name))
        tables = (*silver.KINDS, *pairing.KINDS, UNFIT)
        self._sort_into({table: self._draft(table, "new") for table in tables}, names)

    def _sort_into(
        self, into: Mapping[str, Path], names: Iterable[str], hours: Collection[str] | None = None
    ) -> None:
        only = None if hours is None else frozenset(hours)
        groups = in_groups([self._source(name) for name in names], _size, _SORTED_BYTES)
        tasks = [
            Sorting(
                tuple(group), into, f"part-{number:05}-{self._token}.parquet", only, self._buckets
            )
            for number, group in enumerate(groups)
        ]
        scattered(self._spark, sort_segments, tasks)

    def _draft(self, table: str, label: str) -> Path:
        """Of this run alone: a task that outlived another one cannot write into it."""
        return self._warehouse.draft(f"{table}-{label}-{self._token}")

    # -- events that stand for themselves -------------------------------------------------------

    def _append(self, table: str) -> list[Change]:
        draft = self._draft(table, "new")
        again = self._hours_again(table, draft)
        changes = [Change(table, draft, "hour")]
        if again:
            aside = self._draft(table, "aside")
            aside.mkdir(mode=0o700)
            for hour in again:
                if (folder := draft / f"hour={hour}").exists():
                    folder.rename(aside / folder.name)
            rows = silver.without_repeats(table, self._rows_again(table, aside, again))
            changes.append(self._change(table, "again", rows.repartition("hour"), again))
        return changes

    def _hours_again(self, table: str, draft: Path) -> set[str]:
        """The hours that have to be written again as a whole."""
        hours = {path.name.removeprefix("hour=") for path in draft.glob("hour=*")}
        gone = {hour for known in self._plan.retracted.values() for hour in known.hours}
        again = gone & (self._partitions(table) | hours)
        if table == "messages":
            others = sorted(hours - again)
            files = [
                [*draft.glob(f"hour={hour}/*.parquet"), *self._files_kept(table, hour)]
                for hour in others
            ]
            found = scattered(self._spark, has_repeats, files)
            again |= {hour for hour, repeats in zip(others, found, strict=True) if repeats}
        return again

    def _files_kept(self, table: str, hour: str) -> list[Path]:
        return [] if self._plan.full else self._warehouse.files(table, [hour])

    def _rows_again(self, table: str, aside: Path, hours: set[str]) -> DataFrame:
        """All rows of these hours: what is kept, and again what segments that are still there
        gave. A message that was left out for its copy may take that copy's place now."""
        rows = self._rows_kept(table, hours)
        if self._plan.retracted:
            rows = rows.where(~F.col("segment").isin(*self._plan.retracted))
        names = [
            name
            for name, known in self._kept.items()
            if name in self._plan.live and not known.refused and hours & _hours(known)
        ]
        before = self._draft(table, "before")
        self._sort_into({table: before}, names, hours)
        for folder in (aside, before):
            if files := sorted(folder.rglob("*.parquet")):
                fresh = read_files(self._spark, folder, files, SILVER[table])
                rows = rows.unionByName(fresh)
        return rows

    # -- events that make a row together --------------------------------------------------------

    def _pair(self, table: str) -> list[Change]:
        """Rows that new events belong to, or to which retracted segments gave something, are made
        again from all their events. Others of their hours stay as they are."""
        events, into = self._draft(table, "new"), self._draft(table, "paired")
        hours = sorted(self._partitions(table))
        partings = [
            Parting(table, tuple(self._warehouse.files(table, [hour])), self._gone)
            for hour in hours
        ]
        keys: set[str] = set()
        if self._gone:
            keys = set().union(*scattered(self._spark, retracted_keys, partings, small=True))
        new = tuple(sorted(events.rglob("*.parquet")))
        if not new and not keys:
            return []
        tasks = [
            msgspec.structs.replace(
                parting,
                events=new,
                keys=frozenset(keys),
                staying=into / f"hour={hour}" / f"stay-{self._token}.parquet",
                parts=events,
                file=f"{hour}-{self._token}.parquet",
                buckets=self._buckets,
            )
            for hour, parting in zip(hours, partings, strict=True)
        ]
        found = scattered(self._spark, set_apart, tasks, small=True)
        again = {hour for hour, is_again in zip(hours, found, strict=True) if is_again}
        pairings = [
            Pairing(
                table,
                tuple(sorted(bucket.glob("*.parquet"))),
                into,
                f"{bucket.name.replace('=', '-')}-{self._token}.parquet",
            )
            for bucket in sorted(events.glob("bucket=*"))
        ]
        scattered(self._spark, pair, pairings)
        return [Change(table, into, "hour", frozenset(again))]

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
            events = self._spark.read.parquet(str(self._draft(UNFIT, "new")))
            seen_at = {name: plan.seen_at[name] for name in unfit}
            rows = quarantine.unfit_records(events, seen_at)
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
        draft = self._draft(table, label)
        rows.write.partitionBy("hour").parquet(str(draft))
        return Change(table, draft, "hour", frozenset(replaced))

    def _replacing_all(self, table: str, changes: list[Change]) -> list[Change]:
        """A rebuild leaves nothing of what was there, also of a table that has nothing new."""
        if not self._plan.full:
            return changes
        nothing = self._draft(table, "nothing")
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


def _size(source: Source) -> int:
    return source.size

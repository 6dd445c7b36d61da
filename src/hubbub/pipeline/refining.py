"""From silver to gold: computes again what changed, table by table, and nothing else."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.bronze import recent
from hubbub.pipeline.gold_tables import GoldTable, Grain
from hubbub.pipeline.history import SourceFiles
from hubbub.pipeline.ingesting import Said
from hubbub.pipeline.keeping import Keeping, keep_up
from hubbub.pipeline.making import Making, make
from hubbub.pipeline.parallel import parallel_jobs
from hubbub.pipeline.reading import read_table
from hubbub.pipeline.scattering import scattered
from hubbub.pipeline.schemas import SILVER
from hubbub.pipeline.state import Partition, State
from hubbub.pipeline.warehouse import Change, Warehouse

_COLUMNS: Mapping[Grain, str | None] = {"hour": "hour", "day": "day", "all": None}


def stale(state: State, tables: Sequence[GoldTable]) -> bool:
    """Is there anything to compute: changed sources, or a table that is new?"""
    new = any(table.name not in state.tables for table in tables)
    return bool(state.pending) or state.rebuilding or new


class Refinement:
    """One round's way to gold. It writes drafts; the caller commits them."""

    def __init__(
        self, spark: SparkSession, warehouse: Warehouse, tables: Sequence[GoldTable]
    ) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._tables = {table.name: table for table in in_order(tables)}
        self._made = {name: table for name, table in self._tables.items() if table.arrow}
        self._started: dict[str, Future[Change]] = {}
        self._kept: dict[str, Change] = {}

    def run(self, said: Said) -> list[Change]:
        said("gold: by the hour")
        self._make_hours()
        with parallel_jobs(self._spark) as pool:
            # In their order, so that whoever waits for a source waits for one that runs.
            for name, table in self._tables.items():
                if name not in self._started:
                    self._started[name] = pool.submit(self._refine, table)
            changes = []
            for name, job in self._started.items():
                said(f"gold: {name}")
                changes.append(job.result())
            return changes

    def _make_hours(self) -> None:
        """The tables that Arrow makes, all of an hour's at once."""
        tables = {
            name: table
            for name, table in self._made.items()
            if table.grain == "hour" and not _is_kept(table)
        }
        token = secrets.token_hex(8)
        wanted: dict[Partition, dict[str, Path]] = defaultdict(dict)
        replaced: dict[str, set[Partition]] = {}
        for name, table in tables.items():
            draft = self._warehouse.draft(f"gold-{name}-{token}")
            affected: set[Partition] = set()
            for source in table.sources:
                if source not in replaced:
                    affected |= self._changed(table, source)
                    continue
                affected |= replaced[source]
                if self._from_nothing(table):
                    affected |= self._warehouse.partitions(source)
            for hour in affected:
                wanted[hour][name] = draft / f"hour={hour}" / f"part-{token}.parquet"
            before = self._warehouse.partitions(name) if self._from_nothing(table) else set()
            replaced[name] = affected | before
            self._started[name] = Future()
        work = partial(make, known=self._made)
        scattered(self._spark, work, [self._hour(*each) for each in sorted(wanted.items())])
        for name in tables:
            draft = self._warehouse.draft(f"gold-{name}-{token}")
            change = Change(name, draft, "hour", frozenset(replaced[name]))
            self._started[name].set_result(change)

    def _hour(self, hour: Partition, tables: Mapping[str, Path]) -> Making:
        sources = {source for name in tables for source in self._tables[name].sources}
        files = {name: self._warehouse.files(name, [hour]) for name in sources - tables.keys()}
        return Making(hour, tables, files)

    def _make(self, table: GoldTable, draft: Path, affected: set[Partition]) -> None:
        """A table that Arrow makes by the day, or as a whole."""
        file = f"part-{secrets.token_hex(8)}.parquet"
        tasks = []
        for partition in sorted(affected):
            folder = draft / f"{table.grain}={partition}" if partition else draft
            files = {
                name: self._files(name, self._wanted(table, name, {partition}))
                for name in table.sources
            }
            tasks.append(Making(partition, {table.name: folder / file}, files))
        scattered(self._spark, partial(make, known=self._made), tasks)

    # -- tables that are kept up ----------------------------------------------------------------

    def _keep(self, table: GoldTable) -> Change:
        """From what was and what changed; as a whole only if there is nothing yet."""
        assert table.arrow is not None
        draft = self._warehouse.draft(f"gold-{table.name}")
        nothing = Change(table.name, draft, _COLUMNS[table.grain])
        keeper = self._tables[table.arrow.kept_with or table.name]
        if self._from_nothing(table) or self._from_nothing(keeper):
            if any(self._existing(source) for source in table.sources):
                self._make(table, draft, {""})
            before = self._warehouse.partitions(table.name)
            return replace(nothing, replaced=frozenset(before | _drafted(nothing)))
        if keeper is not table:
            self._started[keeper.name].result()
            return self._kept.get(table.name, nothing)
        sources = {name: self._history(table, name) for name in table.sources}
        if any(source.changed for source in sources.values()):
            self._keep_up(table, sources)
        return self._kept.get(table.name, nothing)

    def _keep_up(self, table: GoldTable, sources: Mapping[str, SourceFiles]) -> None:
        together = [
            each.name
            for each in self._made.values()
            if each is table or (each.arrow and each.arrow.kept_with == table.name)
        ]
        token = secrets.token_hex(8)
        into = {name: self._warehouse.draft(f"gold-{name}-{token}") for name in together}
        own = {name: self._by_partition(name) for name in together}
        task = Keeping(table.name, own, sources, into, f"part-{token}.parquet")
        (replaced,) = scattered(self._spark, partial(keep_up, known=self._made), [task])
        for name, partitions in replaced.items():
            column = _COLUMNS[self._made[name].grain]
            self._kept[name] = Change(name, into[name], column, partitions)

    def _history(self, table: GoldTable, source: str) -> SourceFiles:
        changed = frozenset(self._changed(table, source))
        now = {one: self._files(source, {one}) for one in self._existing(source)}
        if source in SILVER:
            return SourceFiles(now, changed)
        return SourceFiles(now, changed, self._by_partition(source, changed))

    def _by_partition(
        self, table: str, partitions: Iterable[Partition] | None = None
    ) -> dict[Partition, list[Path]]:
        """Committed files."""
        known = self._warehouse.partitions(table)
        wanted = known if partitions is None else known & set(partitions)
        return {one: self._warehouse.files(table, [one]) for one in wanted}

    def _refine(self, table: GoldTable) -> Change:
        if _is_kept(table):
            return self._keep(table)
        changed = {source: self._changed(table, source) for source in table.sources}
        affected = self._affected(table, changed)
        before = self._warehouse.partitions(table.name)
        replaced = affected | (before if self._from_nothing(table) else set())
        draft = self._warehouse.draft(f"gold-{table.name}")
        column = _COLUMNS[table.grain]
        if affected and table.arrow:
            self._make(table, draft, affected)
        elif affected:
            sources = {name: self._source(table, name, affected) for name in table.sources}
            rows = table.transform(sources)
            rows = rows.select(
                *(F.col(one.name).cast(one.dataType).alias(one.name) for one in table.schema.fields)
            )
            if column is None:
                rows.repartition(1).write.parquet(str(draft))
            else:
                rows.repartition(column).write.partitionBy(column).parquet(str(draft))
        return Change(table.name, draft, column, frozenset(replaced))

    # -- what has to be computed ----------------------------------------------------------------

    def _from_nothing(self, table: GoldTable) -> bool:
        state = self._warehouse.state
        return state.rebuilding or table.name not in state.tables

    def _grain(self, source: str) -> Grain:
        return self._tables[source].grain if source in self._tables else "hour"

    def _existing(self, source: str) -> set[Partition]:
        """Partitions as they are once this round is committed."""
        known = self._warehouse.partitions(source)
        if source in self._started:
            change = self._started[source].result()
            known = (known - change.replaced) | _drafted(change)
        return known

    def _changed(self, table: GoldTable, source: str) -> set[Partition]:
        if self._from_nothing(table):
            return self._existing(source)
        if source in self._started:
            return set(self._started[source].result().replaced)
        return set(self._warehouse.state.pending.get(source, ()))

    def _affected(
        self, table: GoldTable, changed: Mapping[str, Collection[Partition]]
    ) -> set[Partition]:
        affected: set[Partition] = set()
        for source, partitions in changed.items():
            if table.grain == "all":
                affected |= {""} if partitions else set()
            elif self._grain(source) == "all":
                affected |= self._reach(table) if partitions else set()
            elif table.grain == "day":
                affected |= {partition[:10] for partition in partitions}
            elif self._grain(source) == "day":
                affected |= {hour for hour in self._reach(table) if hour[:10] in partitions}
            else:
                affected |= set(partitions)
        return affected

    def _reach(self, table: GoldTable) -> set[Partition]:
        """All partitions that the table can have."""
        length = 10 if table.grain == "day" else None
        return {
            partition[:length]
            for source in table.sources
            if self._grain(source) == "hour" or table.grain == self._grain(source)
            for partition in self._existing(source)
        }

    # -- reading sources ------------------------------------------------------------------------

    def _source(self, table: GoldTable, name: str, affected: set[Partition]) -> DataFrame:
        wanted = self._wanted(table, name, affected)
        if name not in self._started:
            return read_table(self._spark, self._warehouse, name, SILVER[name], wanted)
        change = self._started[name].result()
        schema = self._tables[name].schema
        rows = read_table(self._spark, self._warehouse, name, schema, wanted - change.replaced)
        fresh = wanted & _drafted(change)
        if not fresh:
            return rows
        paths = [str(_draft_folder(change, one)) for one in sorted(fresh)]
        reader = self._spark.read.schema(schema).option("basePath", str(change.draft))
        return rows.unionByName(reader.parquet(*paths).select(*schema.names))

    def _files(self, name: str, wanted: set[Partition]) -> list[Path]:
        if name not in self._started:
            return self._warehouse.files(name, wanted)
        change = self._started[name].result()
        kept = self._warehouse.files(name, wanted - change.replaced)
        drafted = [
            path
            for one in sorted(wanted & _drafted(change))
            for path in sorted(_draft_folder(change, one).glob("*.parquet"))
        ]
        return [*kept, *drafted]

    def _wanted(self, table: GoldTable, source: str, affected: set[Partition]) -> set[Partition]:
        known = self._existing(source)
        if table.arrow and table.arrow.recent_hours and known:
            known = recent(known, table.arrow.recent_hours)
        if table.grain == "all" or self._grain(source) == "all" or _is_kept(table):
            return known
        days = {partition[:10] for partition in affected}
        if table.grain == "hour" and self._grain(source) == "hour":
            return known & affected
        return {partition for partition in known if partition[:10] in days}


def in_order(tables: Sequence[GoldTable]) -> list[GoldTable]:
    """Sources before those who read them. Raises `ValueError` if a source does not exist or two
    tables read each other."""
    waiting = {table.name: table for table in tables}
    done: dict[str, GoldTable] = {}
    while waiting:
        ready = [
            table
            for table in waiting.values()
            if all(source in SILVER or source in done for source in table.sources)
        ]
        if not ready:
            raise ValueError(f"gold tables without their sources: {', '.join(waiting)}")
        for table in ready:
            done[table.name] = waiting.pop(table.name)
    return list(done.values())


def _is_kept(table: GoldTable) -> bool:
    return table.arrow is not None and table.arrow.is_kept


def _draft_folder(change: Change, partition: Partition) -> Path:
    return change.draft / f"{change.column}={partition}" if partition else change.draft


def _drafted(change: Change) -> set[Partition]:
    if change.column is None:
        return {""} if change.draft.exists() else set()
    prefix = f"{change.column}="
    return {path.name.removeprefix(prefix) for path in change.draft.glob(f"{prefix}*")}

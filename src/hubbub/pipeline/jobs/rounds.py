"""A round: updates the tables from the journal, and commits all of them together.

plan → ingest → copies of segments and messages → intervals → threads → models → commit
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hubbub.pipeline.catalogue import BY_SEGMENT, TABLES
from hubbub.pipeline.columns import HOUR, hours, times
from hubbub.pipeline.errors import PipelineBusy
from hubbub.pipeline.jobs.gold import gold
from hubbub.pipeline.jobs.ingest import IngestRules, PartSummary, TaskResult, ingest
from hubbub.pipeline.jobs.intervals import intervals
from hubbub.pipeline.jobs.planning import (
    DUPLICATE,
    FUTURE_TOLERANCE,
    Known,
    RoundPlan,
    endings,
    make_plan,
)
from hubbub.pipeline.jobs.repeats import Repeat, find_repeats
from hubbub.pipeline.jobs.threads import threads
from hubbub.pipeline.jobs.upkeep import compact, piled_up
from hubbub.pipeline.jobs.work import Said, Work
from hubbub.pipeline.models import fingerprints, outdated
from hubbub.pipeline.sources.journal import Split
from hubbub.pipeline.sources.segments import SegmentRejection, unreadable
from hubbub.pipeline.tables.commits import commit
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.records import records_of, table_of
from hubbub.pipeline.tables.rounds import LAYOUT, RoundLock
from hubbub.pipeline.tables.snapshot import Snapshot, open_snapshot
from hubbub.pipeline.tables.staging import Stage, drop_old_tables, drop_scratch
from hubbub.pipeline.transforms.quarantine import refused_segments

_STEPS: Final = 7


@dataclass
class RoundReport:
    """The result of a round."""

    round: int = 0
    segments: int = 0
    events: int = 0
    """Valid events of all ingested segments."""
    late: int = 0
    """Events of an hour before the one that earlier rounds had reached."""
    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    retracted: int = 0
    tables: int = 0
    """The number of changed tables."""
    seconds: float = 0


def run_round(
    warehouse: Location,
    journal: Location,
    spark: Callable[[], SparkSession],
    *,
    full: bool = False,
    now: Callable[[], int] = lambda: time.time_ns() // 1000,
    said: Said = lambda _: None,
) -> RoundReport:
    """Ingests new segments. Calls `spark` only if there is work. Raises `PipelineBusy`, and errors
    of Spark; the round has no effect then."""
    report = RoundReport()
    started = time.monotonic()
    before = open_snapshot(warehouse)
    if make_plan(before, journal, now(), full).idle and not (
        before.round and outdated(before.round.models)
    ):
        return report
    rounds = RoundLock(warehouse)
    with rounds.running(now) as mine:
        snapshot = Snapshot(warehouse, rounds.done)

        def at_step(step: str) -> None:
            rounds.at_step(step)
            said(step)

        plan = make_plan(snapshot, journal, now(), full)
        jobs = _RoundJobs(spark(), snapshot, plan, mine.round, at_step)
        work = jobs.run(report)
        at_step(f"[{_STEPS}/{_STEPS}] committing {report.tables} tables")
        versions = dict(snapshot.round.versions) if snapshot.round else {}
        for table in work.changed:
            added, removed = work.added[table], work.removed[table]
            base = versions.get(table)
            versions[table] = commit(warehouse, table, mine.round, added, removed, base)
        taken = {"segments": report.segments, "events": report.events, "latest": jobs.latest}
        rounds.finish(finished=now(), versions=versions, models=fingerprints(), **taken)
        drop_scratch(warehouse)
        if snapshot.round and snapshot.round.layout < LAYOUT:
            drop_old_tables(warehouse)
        report.round = mine.round
    if piled := piled_up(open_snapshot(warehouse)):
        said(f"joining the small files of {len(piled)} tables")
        with contextlib.suppress(PipelineBusy):  # then the next round does it
            compact(warehouse, now, piled)
    report.seconds = time.monotonic() - started
    return report


class _RoundJobs:
    """The Spark jobs of one round. They stage files; the caller commits them."""

    def __init__(
        self, spark: SparkSession, snapshot: Snapshot, plan: RoundPlan, number: int, said: Said
    ) -> None:
        self.plan = plan
        self.latest: int | None = None
        """The time of the latest event of all rounds."""
        self._spark = spark
        self._snapshot = snapshot
        self._base = Snapshot(snapshot.location, None) if plan.full else snapshot
        self._name = f"{number:08}-{secrets.token_hex(4)}"
        self._said = said
        self._endings = endings(plan.known.values())
        self._repeats: dict[str, list[Repeat]] = defaultdict(list)

    def run(self, report: RoundReport) -> Work:
        try:
            return self._run(report)
        except (PySparkException, Py4JJavaError):
            # Damage inside of a segment shows only when it is read. Find it, and go on without.
            self._said("looking for damaged segments")
            bad = unreadable(self.plan.live[name] for name in sorted(self.plan.fresh))
            if not bad:
                raise
            for name, why in bad.items():
                self.plan.refuse(name, why)
            return self._run(report)

    def _run(self, report: RoundReport) -> Work:
        plan = self.plan
        answers = self._take_in()
        taken = _combined(answers)
        work = self._work(answers, sorted(plan.retracted))
        if plan.full:
            for table in TABLES:
                work.removed[table].update(file.path for file in self._snapshot.files(table))
        if plan.retracted:
            self._said(f"[3/{_STEPS}] taking out {len(plan.retracted):,} segments")
            _retract(work)
        self._said(f"[4/{_STEPS}] sessions and subscriptions")
        known = self._books(taken)
        over = endings(known.values())
        ended = {node for node, moments in over.items() if self._endings.get(node) != moments}
        intervals(work, over, ended | (self._endings.keys() - over.keys()))
        self._said(f"[5/{_STEPS}] threads")
        threads(work)
        self._summarize(report, taken)
        step = f"[6/{_STEPS}] answers"
        self._said(step)
        old = outdated(self._base.round.models if self._base.round else {})
        gold(work, old, self.latest, lambda name: self._said(f"{step}: {name}"))
        self._keep_books(work, known)
        report.tables = len(work.changed)
        return work

    def _work(self, answers: list[TaskResult], gone: Collection[str]) -> Work:
        work = Work(self._spark, self._base, self._name, gone)
        work.add(file for answer in answers for file in answer.files)
        return work

    # -- what counts ----------------------------------------------------------------------------

    def _take_in(self) -> list[TaskResult]:
        """Ingests segments. Duplicates are known only after all were read; the few segments
        affected by them are ingested again."""
        plan = self.plan
        before = records_of(self._base.read("repeats"), Repeat)
        if plan.retracted:
            plan.take_again(self._freed(before))
        size = sum(plan.live[name].size for name in plan.fresh)
        self._said(f"[1/{_STEPS}] taking in {len(plan.fresh):,} segments, {size / 1e6:,.1f} MB")
        answers = self._ingest(plan.splits)
        self._said(f"[2/{_STEPS}] looking for what came twice")
        taken = set(plan.fresh)
        self._set_duplicates_aside(_combined(answers))
        self._find_repeats(answers, before)
        changed = self._repeats.keys() | plan.duplicates
        wrong = [one for one in answers if any(each.segment in changed for each in one.splits)]
        again = [each for one in wrong for each in one.splits if each.segment in plan.fresh]
        again += [each for each in plan.splits if each.segment not in taken]
        return [one for one in answers if one not in wrong] + self._ingest(again)

    def _set_duplicates_aside(self, taken: dict[str, PartSummary]) -> None:
        """Skips segments with exactly the same events as another one."""
        first = {one.fingerprint: name for name, one in self.plan.kept.items() if one.fingerprint}
        for name, summary in sorted(taken.items()):
            other = first.setdefault(summary.fingerprint, name)
            if other != name and summary.rows:
                self.plan.refuse(name, SegmentRejection(DUPLICATE, f"the same as {other}", other))

    def _find_repeats(self, answers: list[TaskResult], before: list[Repeat]) -> None:
        plan = self.plan
        gone = plan.retracted | plan.fresh
        fixed = set(plan.kept) - gone - set(plan.live)
        found = find_repeats(self._work(answers, gone), plan.duplicates, plan.span, fixed)
        if again := {one.segment for one in found if one.segment not in plan.fresh}:
            # A copy that came before the one that counts was taken in as a message.
            plan.take_again(again)
            found += [one for one in before if one.segment in again]
        for one in found:
            self._repeats[one.segment].append(one)

    def _freed(self, repeats: list[Repeat]) -> set[str]:
        """Segments whose duplicates may count now, because the counted copies may be gone."""
        gone = [self.plan.known[name] for name in self.plan.retracted]
        spans = [
            range(one.earliest // HOUR, one.latest // HOUR + 1)
            for one in gone
            if one.earliest is not None and one.latest is not None
        ]
        return {one.segment for one in repeats if any(one.at // HOUR in span for span in spans)}

    # -- jobs -----------------------------------------------------------------------------------

    def _ingest(self, splits: list[Split]) -> list[TaskResult]:
        if not splits:
            return []
        reached = self._base.round.latest if self._base.round else None
        names = {split.segment for split in splits}
        rules = IngestRules(
            warehouse=str(self._snapshot.location),
            round_name=self._name,
            limits={name: self.plan.seen_at[name] + FUTURE_TOLERANCE for name in names},
            seen_hours={name: self._hour_seen(name) for name in names},
            repeats={name: [one.offset for one in some] for name, some in self._repeats.items()},
            reached=(reached or 0) // HOUR * HOUR,
        )
        return ingest(self._spark, splits, rules)

    def _hour_seen(self, name: str) -> str:
        found: str = hours(times([self.plan.seen_at[name]]))[0].as_py()
        return found

    # -- books ----------------------------------------------------------------------------------

    def _books(self, taken: dict[str, PartSummary]) -> dict[str, Known]:
        """The rows of the table `segments` after this round."""
        plan = self.plan
        known = dict(plan.kept)
        for name in plan.fresh:
            found = taken.get(name)
            more = (
                {"fingerprint": found.fingerprint, **msgspec.structs.asdict(found)} if found else {}
            )
            known[name] = self._known(name, **more)
        for name, why in plan.refused.items():
            known[name] = self._known(name, refused=why.word, duplicate_of=why.duplicate_of)
        return known

    def _keep_books(self, work: Work, known: dict[str, Known]) -> None:
        books = Stage(work.place, f"{work.name}-books")
        segments = sorted(known.values(), key=lambda one: one.segment)
        books.add("segments", table_of(segments, TABLES["segments"].schema))
        refused = [
            (name, why.word, why.sentence, self._hour_seen(name))
            for name, why in sorted(self.plan.refused.items())
        ]
        books.add("quarantine", refused_segments(refused))
        repeats = [one for some in self._repeats.values() for one in some]
        books.add("repeats", table_of(repeats, TABLES["repeats"].schema))
        work.removed["segments"].update(file.path for file in self._snapshot.files("segments"))
        work.add(books.close())

    def _known(self, name: str, **found: Any) -> Known:
        segment = self.plan.live[name]
        place = {"segment": name, "size": segment.size, "modified": segment.modified}
        return msgspec.convert({**found, **place, "seen_at": self.plan.seen_at[name]}, Known)

    def _summarize(self, report: RoundReport, taken: dict[str, PartSummary]) -> None:
        plan = self.plan
        report.segments = len(plan.fresh - plan.again)
        report.retracted = len(plan.retracted - plan.again)
        report.refused.update(why.word for why in plan.refused.values())
        for name, one in taken.items():
            if name not in plan.again:
                report.refused.update(one.unfit)
                report.kinds.update(one.kinds)
                report.late += one.late
        report.events = report.kinds.total()
        before = self._base.round.latest if self._base.round else None
        latest = [before, *(one.latest for one in taken.values())]
        self.latest = max((one for one in latest if one is not None), default=None)


def _retract(work: Work) -> None:
    """Rewrites files without the rows of removed segments."""
    for table in BY_SEGMENT:
        files = [file for file in work.base.files(table) if file.may_hold(work.gone)]
        work.keep(table, files, work.staying)


def _combined(answers: list[TaskResult]) -> dict[str, PartSummary]:
    """The summaries by segment; several tasks may have read parts of one."""
    found: dict[str, PartSummary] = {}
    for one in (each for answer in answers for each in answer.summaries):
        found[one.segment] = found[one.segment] + one if one.segment in found else one
    return found

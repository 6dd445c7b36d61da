"""A round: brings the tables up to date with the journal, and commits all of them as one.

plan → ingest → copies of segments and messages → intervals → threads → commit
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.catalogue import BY_SEGMENT, TABLES
from hubbub.pipeline.errors import PipelineBusy
from hubbub.pipeline.jobs.changes import Changes, drop_scratch
from hubbub.pipeline.jobs.ingest import Answer, Rules, Summary, ingest
from hubbub.pipeline.jobs.intervals import intervals
from hubbub.pipeline.jobs.planning import (
    DUPLICATE,
    FUTURE_TOLERANCE,
    Known,
    Plan,
    endings,
    make_plan,
)
from hubbub.pipeline.jobs.repeats import Repeat, find_repeats
from hubbub.pipeline.jobs.threads import threads
from hubbub.pipeline.jobs.upkeep import compact, piled_up
from hubbub.pipeline.jobs.work import Said, write
from hubbub.pipeline.sources.journal import Split
from hubbub.pipeline.sources.segments import unreadable
from hubbub.pipeline.sources.table import files_frame
from hubbub.pipeline.tables.commits import commit
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.records import records_of, table_of
from hubbub.pipeline.tables.rounds import DONE, Round, Rounds
from hubbub.pipeline.tables.snapshot import Snapshot, open_snapshot
from hubbub.pipeline.tables.staging import Stage
from hubbub.pipeline.transforms.quarantine import refused_segments
from hubbub.pipeline.views.columns import HOUR, hours, times

_STEPS: Final = 6


@dataclass
class Report:
    """What a round did."""

    round: int = 0
    segments: int = 0
    events: int = 0
    """Fit ones, of all segments that were taken in."""
    late: int = 0
    """Those for an hour before the one that earlier rounds had reached."""
    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    retracted: int = 0
    tables: int = 0
    """That changed."""
    seconds: float = 0


def run_round(
    warehouse: Location,
    journal: Location,
    spark: Callable[[], SparkSession],
    *,
    full: bool = False,
    now: Callable[[], int] = lambda: time.time_ns() // 1000,
    said: Said = lambda _: None,
) -> Report:
    """Takes in what is new. Calls `spark` only if there is work. Raises `PipelineBusy`, and what
    Spark raises; then nothing of the round counts."""
    report = Report()
    started = time.monotonic()
    if make_plan(open_snapshot(warehouse), journal, now(), full).idle:
        return report
    rounds = Rounds(warehouse)
    with rounds.running(now) as mine:
        snapshot = Snapshot(warehouse, rounds.done)
        work = _Work(spark(), snapshot, make_plan(snapshot, journal, now(), full), mine.round, said)
        changes = work.run(report)
        said(f"[{_STEPS}/{_STEPS}] committing {len(changes.tables())} tables")
        versions = dict(snapshot.round.versions) if snapshot.round else {}
        for table in changes.tables():
            added, removed = changes.added[table], changes.removed[table]
            base = versions.get(table)
            versions[table] = commit(warehouse, table, mine.round, added, removed, base)
        rounds.finish(_done(mine, report, work, versions, now()))
        drop_scratch(warehouse)
        report.round = mine.round
    if piled := piled_up(open_snapshot(warehouse)):
        said(f"joining the small files of {len(piled)} tables")
        with contextlib.suppress(PipelineBusy):  # then the next round does it
            compact(warehouse, now, piled)
    report.seconds = time.monotonic() - started
    return report


def _done(mine: Round, report: Report, work: _Work, versions: dict[str, int], now: int) -> Round:
    return msgspec.structs.replace(
        mine,
        state=DONE,
        finished=now,
        segments=report.segments,
        events=report.events,
        latest=work.latest,
        versions=versions,
    )


class _Work:
    """The plans of one round. It stages files; the caller commits them."""

    def __init__(
        self, spark: SparkSession, snapshot: Snapshot, plan: Plan, number: int, said: Said
    ) -> None:
        self.plan = plan
        self.latest: int | None = None
        """The time of the latest event of all rounds."""
        self._spark = spark
        self._snapshot = snapshot
        self._base = Snapshot(snapshot.location, None) if plan.full else snapshot
        self._place = str(snapshot.location)
        self._name = f"{number:08}-{secrets.token_hex(4)}"
        self._said = said
        self._endings = endings(plan.known.values())
        self._repeats: dict[str, list[Repeat]] = defaultdict(list)

    def run(self, report: Report) -> Changes:
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

    def _run(self, report: Report) -> Changes:
        plan = self.plan
        answers = self._take_in()
        changes = Changes()
        for answer in answers:
            changes.add(answer.files)
        if plan.full:
            for table in TABLES:
                changes.remove(table, (file.path for file in self._snapshot.files(table)))
        if plan.retracted:
            self._said(f"[3/{_STEPS}] taking out {len(plan.retracted):,} segments")
            self._retract(changes)
        self._said(f"[4/{_STEPS}] sessions and subscriptions")
        gone = sorted(plan.retracted)
        known = self._books(_combined(answers))
        over = endings(known.values())
        ended = {node for node, moments in over.items() if self._endings.get(node) != moments}
        ended |= self._endings.keys() - over.keys()
        intervals(self._spark, self._base, self._name, changes, gone, over, ended)
        self._said(f"[5/{_STEPS}] threads")
        threads(self._spark, self._base, self._name, changes, gone)
        self._keep_books(changes, known)
        self._summarize(report, _combined(answers), changes)
        return changes

    # -- what counts ----------------------------------------------------------------------------

    def _take_in(self) -> list[Answer]:
        """What counts shows once everything was read. Only what then turns out to count otherwise,
        which is seldom, is taken in again, by the task."""
        plan = self.plan
        before = self._known_repeats()
        if plan.retracted:
            plan.take_again(self._freed(before))
        size = sum(plan.live[name].size for name in plan.fresh)
        self._said(f"[1/{_STEPS}] taking in {len(plan.fresh):,} segments, {size / 1e6:,.1f} MB")
        answers = self._ingest(plan.splits)
        self._said(f"[2/{_STEPS}] looking for what came twice")
        taken = set(plan.fresh)
        self._set_duplicates_aside(_combined(answers))
        self._find_repeats(answers, before)
        changed = self._repeats.keys() | plan.duplicates.keys()
        wrong = [one for one in answers if any(each.segment in changed for each in one.splits)]
        again = [each for one in wrong for each in one.splits if each.segment in plan.fresh]
        again += [each for each in plan.splits if each.segment not in taken]
        return [one for one in answers if one not in wrong] + self._ingest(again)

    def _set_duplicates_aside(self, taken: dict[str, Summary]) -> None:
        """Segments with exactly the events of another one."""
        first = {one.fingerprint: name for name, one in self.plan.kept.items() if one.fingerprint}
        for name, summary in sorted(taken.items()):
            other = first.setdefault(summary.fingerprint, name)
            if other != name and summary.rows:
                self.plan.fresh.discard(name)
                self.plan.duplicates[name] = other

    def _find_repeats(self, answers: list[Answer], before: list[Repeat]) -> None:
        plan = self.plan
        staged = [file.path for one in answers for file in one.files if file.table == "messages"]
        if not staged:
            return
        gone = plan.retracted | plan.fresh
        fixed = set(plan.kept) - gone - set(plan.live)
        found = find_repeats(
            self._spark, staged, plan.duplicates, self._base, gone, plan.span, fixed
        )
        if again := {one.segment for one in found if one.segment not in plan.fresh}:
            # A copy that came before the one that counts was taken in as a message.
            plan.take_again(again)
            found += [one for one in before if one.segment in again]
        for one in found:
            self._repeats[one.segment].append(one)

    def _known_repeats(self) -> list[Repeat]:
        return records_of(self._base.read("repeats"), Repeat)

    def _freed(self, repeats: list[Repeat]) -> set[str]:
        """Segments with copies that may count now: the ones that counted may be gone."""
        gone = [self.plan.known[name] for name in self.plan.retracted]
        spans = [(one.earliest, one.latest) for one in gone if one.earliest is not None]
        return {
            one.segment
            for one in repeats
            for since, last in spans
            if since is not None
            and last is not None
            and since // HOUR <= one.at // HOUR <= last // HOUR
        }

    # -- plans ----------------------------------------------------------------------------------

    def _ingest(self, splits: list[Split]) -> list[Answer]:
        if not splits:
            return []
        reached = self._base.round.latest if self._base.round else None
        names = {split.segment for split in splits}
        rules = Rules(
            warehouse=self._place,
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

    def _retract(self, changes: Changes) -> None:
        """Files with rows of segments that go are written again without them."""
        gone = sorted(self.plan.retracted)
        for table in BY_SEGMENT:
            files = [file.path for file in self._base.files(table) if file.may_hold(gone)]
            if not files:
                continue
            rows = files_frame(self._spark, self._snapshot.location, table, files)
            rows = rows.where(~F.col("segment").isin(*gone))
            changes.remove(table, files)
            changes.add(write(rows, self._place, self._name, table))

    # -- books ----------------------------------------------------------------------------------

    def _books(self, taken: dict[str, Summary]) -> dict[str, Known]:
        """What is known of all segments after this round."""
        plan = self.plan
        known = dict(plan.kept)
        for name in plan.fresh:
            found = taken.get(name)
            more = (
                {"fingerprint": found.fingerprint, **msgspec.structs.asdict(found)} if found else {}
            )
            known[name] = self._known(name, **more)
        for name, other in plan.duplicates.items():
            known[name] = self._known(name, refused=DUPLICATE, duplicate_of=other)
        for name, why in plan.refused.items():
            known[name] = self._known(name, refused=why.word)
        return known

    def _keep_books(self, changes: Changes, known: dict[str, Known]) -> None:
        books = Stage(self._place, f"{self._name}-books")
        segments = sorted(known.values(), key=lambda one: one.segment)
        books.add("segments", table_of(segments, TABLES["segments"].schema))
        books.add("quarantine", refused_segments(self._refused()))
        repeats = [one for some in self._repeats.values() for one in some]
        books.add("repeats", table_of(repeats, TABLES["repeats"].schema))
        changes.remove("segments", (file.path for file in self._snapshot.files("segments")))
        changes.add(books.close())

    def _known(self, name: str, **found: Any) -> Known:
        segment = self.plan.live[name]
        place = {"segment": name, "size": segment.size, "modified": segment.modified}
        return msgspec.convert({**found, **place, "seen_at": self.plan.seen_at[name]}, Known)

    def _refused(self) -> list[tuple[str, str, str, str]]:
        plan = self.plan
        said = {name: (why.word, why.sentence) for name, why in plan.refused.items()}
        said |= {
            name: (DUPLICATE, f"the same as {other}") for name, other in plan.duplicates.items()
        }
        return [(name, *why, self._hour_seen(name)) for name, why in sorted(said.items())]

    def _summarize(self, report: Report, taken: dict[str, Summary], changes: Changes) -> None:
        plan = self.plan
        report.segments = len(plan.fresh - plan.again)
        report.retracted = len(plan.retracted - plan.again)
        report.refused.update(why.word for why in plan.refused.values())
        report.refused.update(DUPLICATE for _ in plan.duplicates)
        for name, one in taken.items():
            if name not in plan.again:
                report.refused.update(one.unfit)
                report.kinds.update(one.kinds)
                report.late += one.late
        report.events = report.kinds.total()
        report.tables = len(changes.tables())
        before = self._base.round.latest if self._base.round else None
        latest = [before, *(one.latest for one in taken.values())]
        self.latest = max((one for one in latest if one is not None), default=None)


def _combined(answers: list[Answer]) -> dict[str, Summary]:
    """By segment, of which several tasks may have read parts."""
    found: dict[str, Summary] = {}
    for one in (each for answer in answers for each in answer.summaries):
        found[one.segment] = found[one.segment] + one if one.segment in found else one
    return found

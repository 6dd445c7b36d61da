"""The table of rounds: the running round, completed rounds, and the version of every table.

Each change overwrites the table in one commit without retries, a conditional put of its log entry.
That serves as lock and as commit of a round, on disks and object stores alike.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.columns import schema
from hubbub.pipeline.errors import (
    PipelineBusy,
    PipelineError,
    WarehouseUnreachable,
    WarehouseUnreadable,
    in_one_line,
)
from hubbub.pipeline.tables.commits import restore, version_of
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.records import records_of, table_of

TABLE: Final = "rounds"
LAYOUT: Final = 2
"""The version of the table layout. A warehouse with a later one is rejected."""
LEASE_SECONDS: Final = 120.0
_RENEWED_SECONDS: Final = 20.0
_KEPT: Final = 1000
_LEASE: Final = "_lease.json"
_HOST: Final = socket.gethostname()
_at_work: Final[set[str]] = set()
"""Tokens of the rounds that run in this process."""
RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
"""The round's commits were reverted. Its number stays used: tables record it as a transaction."""

SCHEMA: Final = schema(
    "whole round, text state owner, time began finished, whole layout segments events",
    "time latest, counts versions models",
)


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Times are microseconds since 1970."""

    round: int
    state: str
    owner: str
    began: int
    finished: int | None = None
    layout: int = LAYOUT
    segments: int = 0
    """The number of ingested segments."""
    events: int = 0
    latest: int | None = None
    """The time of the latest event of all rounds."""
    versions: dict[str, int] = {}
    models: dict[str, int] = {}
    """The fingerprints of the models whose tables are complete."""


class RoundLease(msgspec.Struct, frozen=True):
    """The heartbeat of the running process, written every 20 seconds and at each step."""

    round: int
    at: float
    """Seconds since 1970."""
    step: str = ""


def last_done(warehouse: Location) -> Round | None:
    """Raises `WarehouseUnreadable` for a warehouse of a later version, or a damaged one."""
    return last_of(_read(warehouse)[1])


def last_of(rounds: list[Round]) -> Round | None:
    """The last completed round."""
    return next((one for one in reversed(rounds) if one.state == DONE), None)


def all_rounds(warehouse: Location) -> list[Round]:
    """The last thousand rounds, in order; the last one may be running."""
    return _read(warehouse)[1]


def rounds_table(warehouse: Location) -> pa.Table:
    return table_of(all_rounds(warehouse), SCHEMA)


def read_lease(warehouse: Location) -> RoundLease | None:
    """The lease of the last started round; None if it cannot be read."""
    files, folder = warehouse.open()
    try:
        with files.open_input_stream(f"{folder}/{_LEASE}") as stream:
            return msgspec.json.decode(stream.read(), type=RoundLease)
    except (OSError, msgspec.DecodeError):
        return None


def _read(warehouse: Location) -> tuple[DeltaTable | None, list[Round]]:
    try:
        delta = DeltaTable(str(warehouse / TABLE))
        rows = _completed(delta.to_pyarrow_table())
    except TableNotFoundError:
        return None, []
    except OSError as error:
        raise WarehouseUnreachable(
            f"{warehouse} cannot be reached ({in_one_line(error)}); what was committed before is"
            " as it was. Try again"
        ) from error
    except (DeltaError, pa.ArrowException) as error:
        raise WarehouseUnreadable(
            f"the table of rounds in {warehouse} cannot be read ({error}); make the tables again"
            " with `hubbub pipeline run --full` in an empty folder"
        ) from error
    rounds = records_of(rows.sort_by("round"), Round)
    if rounds and rounds[-1].layout > LAYOUT:
        raise WarehouseUnreadable(
            f"{warehouse} was written by a newer Hubbub (layout {rounds[-1].layout}, this one knows"
            f" {LAYOUT}); upgrade Hubbub, or give another --warehouse"
        )
    return delta, rounds


def _completed(rows: pa.Table) -> pa.Table:
    """Adds the columns that tables of an earlier version lack."""
    for field in SCHEMA:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(SCHEMA.names).cast(SCHEMA)


class RoundLock:
    """Runs one round at a time. The process that holds the round may commit tables."""

    def __init__(self, warehouse: Location) -> None:
        self.warehouse = warehouse
        self._token = secrets.token_hex(4)
        self._owner = f"{_HOST} {os.getpid()} {started(os.getpid())} {self._token}"
        self._delta: DeltaTable | None = None
        self._rounds: list[Round] = []
        self._step = ""
        self._wake = threading.Event()

    @property
    def done(self) -> Round | None:
        """The last completed round, on whose tables a new round is based."""
        return last_of(self._rounds)

    @contextlib.contextmanager
    def running(self, now: Callable[[], int]) -> Iterator[Round]:
        """Starts a round. Only `finish` completes it; otherwise its commits are reverted, by the
        next round at the latest. Raises `PipelineBusy` while another process runs one."""
        self._delta, rounds = _read(self.warehouse)
        other = rounds[-1] if rounds else None
        if other is not None and other.state == RUNNING:
            self._refuse_if_alive(other)
            rounds[-1] = msgspec.structs.replace(other, state=FAILED)
        number = other.round + 1 if other else 1
        mine = Round(round=number, state=RUNNING, owner=self._owner, began=now())
        _at_work.add(self._token)
        try:
            self._put([*rounds, mine])
            self._take_back()
            with self._leased():
                yield mine
        except BaseException:
            with contextlib.suppress(Exception):
                self._abandon()
            raise
        finally:
            _at_work.discard(self._token)

    def at_step(self, step: str) -> None:
        """Publishes the progress of the round, without waiting for the store."""
        self._step = step
        self._wake.set()

    def finish(self, **found: Any) -> Round:
        """Completes the round with these fields. Raises `PipelineBusy` if another process took
        over; the round has no effect then."""
        models = self.done.models if self.done else {}
        found = {"models": models, **found}
        done = msgspec.structs.replace(self._rounds[-1], state=DONE, **found)
        self._put([*self._rounds[:-1], done])
        return done

    def _abandon(self) -> None:
        """Either another process has taken over, or the round is complete and only the response to
        the commit was lost."""
        self._delta, rounds = _read(self.warehouse)
        if rounds and rounds[-1].owner == self._owner and rounds[-1].state == RUNNING:
            self._rounds = rounds
            self._take_back()
            self._put([*self._rounds[:-1], msgspec.structs.replace(rounds[-1], state=FAILED)])

    def _take_back(self) -> None:
        """Restores the tables of the last completed round. The next change of the table of rounds
        records the resulting versions."""
        last, versions = self.done, {}
        for table in TABLES:
            before = last.versions.get(table) if last else None
            if (now := restore(self.warehouse, table, before)) is not None:
                versions[table] = now
        if last is not None and versions != last.versions:
            place = self._rounds.index(last)
            self._rounds[place] = msgspec.structs.replace(last, versions=versions)

    def _put(self, rounds: list[Round]) -> None:
        """Raises `PipelineBusy` if another process has changed the table since it was read."""
        rounds = rounds[-_KEPT:]
        try:
            self._write(rounds)
        except (DeltaError, OSError) as error:
            # An object store may have written the log entry although its answer was lost.
            self._delta, there = _read(self.warehouse)
            if there != rounds:
                if not isinstance(error, CommitFailedError | FileExistsError):
                    raise
                raise PipelineBusy(
                    f"another pipeline took over {self.warehouse}; wait for it, or stop it"
                ) from error
        self._rounds = rounds

    def _write(self, rounds: list[Round]) -> None:
        data = table_of(rounds, SCHEMA)
        if self._delta is None:
            place = self.warehouse / TABLE
            if place.is_local:
                place.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_deltalake(str(place), data, mode="error", name=TABLE)
            self._delta = DeltaTable(str(place))
        else:
            once = CommitProperties(max_commit_retries=0)
            known = {field.name for field in self._delta.schema().fields}
            new = None if known.issuperset(SCHEMA.names) else "overwrite"
            write_deltalake(
                self._delta, data, mode="overwrite", schema_mode=new, commit_properties=once
            )  # type: ignore[call-overload]
            self._delta.update_incremental()

    # -- who is alive ---------------------------------------------------------------------------

    def _refuse_if_alive(self, other: Round) -> None:
        if is_alive(self.warehouse, other):
            host, process, *_ = other.owner.split(" ")
            raise PipelineBusy(
                f"process {process} on {host} works on {self.warehouse} since round {other.round};"
                " wait for it, or stop it"
            )

    @contextlib.contextmanager
    def _leased(self) -> Iterator[None]:
        """Renews the lease until the end of the block."""
        ended = False

        def renew() -> None:
            while not ended:
                with contextlib.suppress(OSError, PipelineError):  # the next time may succeed
                    self._renew()
                self._wake.wait(_RENEWED_SECONDS)
                self._wake.clear()

        thread = threading.Thread(target=renew, name="hubbub-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended = True
            self._wake.set()
            thread.join()

    def _renew(self) -> None:
        lease = RoundLease(self._rounds[-1].round, time.time(), self._step)
        files, folder = self.warehouse.open()
        path = f"{folder}/{_LEASE}"
        # In a folder others could read half of it; an object store shows whole objects only.
        draft = f"{path}.draft" if self.warehouse.is_local else path
        with files.open_output_stream(draft) as stream:
            stream.write(msgspec.json.encode(lease))
        if draft != path:
            files.move(draft, path)


def is_alive(warehouse: Location, other: Round) -> bool:
    """Whether a process works on the round; on another machine, judged by its lease."""
    if other.state != RUNNING:
        return False
    host, process, since, token = other.owner.split(" ")
    if host == _HOST:
        alive = started(int(process)) == since
        # Else one of this process whose end could not be written.
        return alive and (int(process) != os.getpid() or token in _at_work)
    lease = read_lease(warehouse)
    renewed = lease.at if lease and lease.round == other.round else other.began / 1e6
    return time.time() - renewed < LEASE_SECONDS


def started(process: int) -> str:
    """The start time of a process on this machine, so that a reused process id is no sign of life;
    empty if there is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except OSError:
        return ""
    return "unknown"


def versions(warehouse: Location) -> dict[str, int]:
    """The current versions of all tables."""
    return {
        table: version for table in TABLES if (version := version_of(warehouse, table)) is not None
    }

"""Replays messages of the journal, at their original pace, each only once.

A ledger in the journal's folder records the id of every message that a target has acknowledged, so
that a replay can be repeated: only messages in flight at an interruption may be sent twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hubbub.cli.progress import progress_of
from hubbub.client import Client, HubbubError, Item, Options, Receipt, connect
from hubbub.domain.errors import BadRequest, Limited
from hubbub.domain.messages import BINARY
from hubbub.journal.sealed import moment
from hubbub.journal.slices import Recorded

LEDGERS = "replays"
BATCH = 20
"""How many messages are sent at once: a hub disconnects a client that keeps sending after `slow
down`."""
PATIENCE_SECONDS = 60.0
_NAMED = 20
_TOGETHER = 0.005
_encode = msgspec.json.Encoder().encode
_decode_id = msgspec.json.Decoder(str).decode


class ReplayTarget(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    hub: str
    channel: str
    token: str | None
    tls: ssl.SSLContext | None = None

    @property
    def key(self) -> str:
        address = self.url.partition("://")[2] or self.url
        text = "\n".join((address.rstrip("/"), self.hub, self.channel))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Ledger:
    """The ids that a target has acknowledged, one JSON text per line."""

    def __init__(self, journal: Path, target: ReplayTarget) -> None:
        self._path = journal / LEDGERS / f"{target.key}.jsonl"

    def read(self) -> set[str]:
        if not self._path.exists():
            return set()
        known = set()
        for line in self._path.read_bytes().splitlines():
            try:
                known.add(_decode_id(line))
            except msgspec.DecodeError:
                continue  # the half line of a crash
        return known

    def add(self, ids: Sequence[str]) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        with self._path.open("ab") as file:
            if file.tell():
                file.write(b"\n")  # behind the half line of a crash
            file.write(b"\n".join(_encode(each) for each in ids))
            file.flush()
            os.fsync(file.fileno())


class ReplayReport(msgspec.Struct, frozen=True):
    """Counts of a replay, and the ids of messages that were not sent."""

    messages: int
    sent: int
    waiting: int
    sent_before: int
    without_payload: list[str]
    refused: dict[str, str]
    bytes: int
    first: str
    last: str
    seconds: float | None


class Replay:
    """Replays one slice to one target. `speed`: a factor; None: full speed."""

    def __init__(
        self,
        journal: Path,
        messages: list[Recorded],
        target: ReplayTarget,
        *,
        speed: float | None,
        store: bool | None,
        again: bool,
    ) -> None:
        self._ledger = Ledger(journal, target)
        self._target = target
        self._speed = speed
        self._store = store
        known = set() if again else self._ledger.read()
        self._all = messages
        self._empty = [each for each in messages if each.payload is None]
        self._before = [each for each in messages if each.payload is not None and each.id in known]
        self._plan = [
            each for each in messages if each.payload is not None and each.id not in known
        ]
        self._sent = 0
        self._refused: dict[str, str] = {}
        self.stopped: str | None = None
        """Why it ended early."""

    async def send(self) -> None:
        if not self._plan:
            return
        target = self._target
        options = Options(tls=target.tls)
        async with connect(
            target.url, hub=target.hub, token=target.token, options=options
        ) as client:
            began = time.monotonic()
            progress, done = progress_of(f"replaying into {target.channel}"), 0
            for batch in self._batches():
                progress(done / len(self._plan))
                done += len(batch)
                if self._speed is not None:
                    await asyncio.sleep(began + self._due(batch[0]) - time.monotonic())
                await self._send_batch(client, batch)
                if self.stopped is not None:
                    break
            progress(1.0)

    def _due(self, message: Recorded) -> float:
        assert self._speed is not None
        return (message.published_at - self._plan[0].published_at) / 1e6 / self._speed

    def _batches(self) -> Iterator[list[Recorded]]:
        """The messages in batches that are published together."""
        batch: list[Recorded] = []
        for message in self._plan:
            full = len(batch) >= BATCH
            if batch and (full or self._apart(batch[0], message)):
                yield batch
                batch = []
            batch.append(message)
        if batch:
            yield batch

    def _apart(self, first: Recorded, message: Recorded) -> bool:
        return self._speed is not None and self._due(message) - self._due(first) > _TOGETHER

    async def _send_batch(self, client: Client, batch: list[Recorded]) -> None:
        """Publishes all messages of a batch, in order; rate-limited ones are retried."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        wait = 0.5
        while batch:
            results = await client.publish_many(self._item(each) for each in batch)
            pairs = list(zip(batch, results, strict=True))
            done = [each.id for each, result in pairs if isinstance(result, Receipt)]
            if done:
                self._ledger.add(done)
                self._sent += len(done)
                deadline = time.monotonic() + PATIENCE_SECONDS
            batch = []
            for each, result in pairs:
                if isinstance(result, Limited) and time.monotonic() < deadline:
                    batch.append(each)
                elif isinstance(result, BadRequest):
                    self._refused[each.id] = result.message
                elif isinstance(result, HubbubError):
                    self.stopped = f"stopped at the message {each.id}: {result.message}"
                    return
            if batch:
                await asyncio.sleep(wait)
                wait = min(2 * wait, 5.0)

    def _item(self, message: Recorded) -> Item:
        return Item(
            self._target.channel,
            message.payload,
            message.event,
            message.content_type or BINARY,
            store=message.stored if self._store is None else self._store,
            attributes=message.attributes,
        )

    def report(self) -> ReplayReport:
        plan = self._plan
        seconds = None
        if self._speed is not None and plan:
            seconds = self._due(plan[-1])
        return ReplayReport(
            messages=len(self._all),
            sent=self._sent,
            waiting=len(plan) - self._sent - len(self._refused),
            sent_before=len(self._before),
            without_payload=[each.id for each in self._empty],
            refused=self._refused,
            bytes=sum(each.size for each in plan),
            first=moment(self._all[0].published_at),
            last=moment(self._all[-1].published_at),
            seconds=seconds,
        )

    def describe(self, dry_run: bool) -> str:
        report = self.report()
        target = self._target
        count = len(self._plan) if dry_run else report.sent
        lines = [
            f"{'would publish' if dry_run else 'published'} {count:,} of {report.messages:,}"
            f" messages ({report.first} to {report.last}) to {target.channel!r} of {target.hub!r}"
        ]
        if dry_run:
            pace = "as fast as it goes" if report.seconds is None else f"in {report.seconds:.1f} s"
            lines.append(f"{report.bytes:,} bytes, {pace}")
        if report.sent_before:
            lines.append(f"{report.sent_before:,} were sent there before (--again sends them, too)")
        lines += _named("have no payload in the journal", report.without_payload)
        for message_id, reason in list(report.refused.items())[:_NAMED]:
            lines.append(f"refused {message_id}: {reason}")
        return "\n".join(lines)


def _named(what: str, ids: list[str]) -> list[str]:
    if not ids:
        return []
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return [f"{len(ids):,} {what}: {', '.join(ids[:_NAMED])}{more}"]

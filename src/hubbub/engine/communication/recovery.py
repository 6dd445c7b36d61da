"""Loads the open messages and deliveries left by the log's previous owner, and replays dead
letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import UNSET

from hubbub.domain.audit import Audit, noted
from hubbub.domain.communication.control import VERDICT_SUFFIX
from hubbub.domain.communication.messages import TIMEOUT
from hubbub.domain.communication.requests import VerdictTold
from hubbub.domain.communication.steps import (
    ARRIVED,
    DUE,
    FAILED,
    WAITING,
    CommunicationStep,
    DeliveryMove,
    DeliveryRow,
)
from hubbub.domain.errors import StaleOwner
from hubbub.engine.communication.committing import Committer
from hubbub.engine.communication.log_messages import from_logged
from hubbub.engine.communication.shipping import AddressQueues, QueuedDelivery
from hubbub.ports.clock import Clock
from hubbub.ports.storage.communication import CommunicationStore, LoggedMessage

_PAGE = 500


async def read_open(
    store: CommunicationStore, hub: str
) -> list[tuple[LoggedMessage, list[DeliveryRow]]]:
    """Open messages and messages with due deliveries, by serial, each with its deliveries in order.
    Raises `HubbubError`."""
    opened = await _read_open_messages(store, hub)
    rows: dict[str, list[DeliveryRow]] = {}
    oldest = min((each.message.serial for each in opened.values()), default=None)
    for state in (ARRIVED, FAILED, WAITING) if oldest is not None else ():
        async for row in _rows(store, hub, state, oldest or 0):
            if row.message_id in opened:
                rows.setdefault(row.message_id, []).append(row)
    async for row in _rows(store, hub, DUE, 0):
        rows.setdefault(row.message_id, []).append(row)
    for each in await read_messages(store, hub, [name for name in rows if name not in opened]):
        opened[each.message.id] = each
    for found in rows.values():
        found.sort(key=lambda row: row.ordinal)
    by_serial = sorted(opened.values(), key=lambda each: each.message.serial)
    return [(each, rows.get(each.message.id, [])) for each in by_serial]


async def _read_open_messages(store: CommunicationStore, hub: str) -> dict[str, LoggedMessage]:
    found: dict[str, LoggedMessage] = {}
    after = 0
    while page := await store.read_open(hub, after, _PAGE):
        found.update((each.message.id, each) for each in page)
        after = page[-1].message.serial
    return found


async def _rows(
    store: CommunicationStore, hub: str, state: int, first: int
) -> AsyncIterator[DeliveryRow]:
    after = (first, -1)
    while page := await store.read_deliveries(hub, state, after, _PAGE):
        for row in page:
            yield row
        after = (page[-1].serial, page[-1].ordinal)


async def read_messages(
    store: CommunicationStore, hub: str, ids: Sequence[str]
) -> list[LoggedMessage]:
    found: list[LoggedMessage] = []
    for start in range(0, len(ids), _PAGE):
        found += await store.read_logged(hub, ids[start : start + _PAGE])
    return found


async def read_verdict(store: CommunicationStore, hub: str, message_id: str) -> VerdictTold:
    """The stored verdict of a message with one receiver; success leaves no report."""
    for each in await store.read_logged(hub, [f"{message_id}{VERDICT_SUFFIX}"]):
        report = from_logged(each.message)
        return VerdictTold(
            "timed_out" if report.subtype == TIMEOUT else "failed", str(report.content)
        )
    return VerdictTold("met")


async def replay(
    store: CommunicationStore,
    hub: str,
    keys: Sequence[str],
    committer: Committer,
    queues: AddressQueues,
    clock: Clock,
    audit: Audit = UNSET,
) -> int:
    """Retries dead letters (the oldest ones if no keys are given) and returns their number. Their
    outcomes count for no verdict. Calls must not overlap: a letter is dead until the store says
    otherwise. Raises `StaleOwner`."""
    if keys:
        rows = await store.read_deliveries_of(hub, keys)
    else:
        rows = await store.read_deliveries(hub, FAILED, (0, -1), _PAGE)
    rows = [row for row in rows if row.state == FAILED and row.adapter]
    found = await read_messages(store, hub, list({row.message_id for row in rows}))
    messages = {each.message.id: from_logged(each.message) for each in found}
    now = int(clock.now() * 1000)
    tried = [row for row in rows if row.message_id in messages]
    step = CommunicationStep(
        moved=tuple(DeliveryMove(row.key, DUE, "", now) for row in tried),
        audits=noted(audit, tried),
    )
    if not await committer.commit_and_wait(step):
        raise StaleOwner(f"this node does not own the log of hub {hub!r} any more")
    for row in tried:
        again = msgspec.structs.replace(row, receiver="", state=DUE)
        queues.put(QueuedDelivery(again, messages[row.message_id]))
    return len(tried)

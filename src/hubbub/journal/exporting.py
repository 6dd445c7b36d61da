"""The outbox: exports every stored message to the journal, even after failures of store or journal.

The store keeps, for each channel, the serial up to which its messages are in the journal and
synced. Most messages are written on their way from the store to the subscribers. Missed messages
(the hub was killed, the disk was full) are read from the store again. A message may be in the
journal twice, which its id reveals, but is never missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from hubbub.domain.journal import PayloadRule
from hubbub.domain.messages import Message
from hubbub.ports.storage.exports import Exported, ExportStore

logger = logging.getLogger(__name__)

Key = tuple[str, str]
Marks = Mapping[Key, tuple[str, int]]
RuleOf = Callable[[str, str], PayloadRule]
"""Returns what the journal may record about a channel."""
Write = Callable[[Sequence[Message], str, PayloadRule], Awaitable[bool]]
"""Writes messages of one channel to the journal and syncs them; returns whether that succeeded."""

_PAGE: Final = 500
_SCAN: Final = 500
_REMEMBERED: Final = 100_000


class _ExportedChannel:
    """`next` is the serial to write next; earlier ones are written or in progress. A channel with a
    gap is read from the store."""

    __slots__ = ("behind", "epoch", "next", "seen")

    def __init__(self, epoch: str, behind: bool) -> None:
        self.epoch = epoch
        self.behind = behind
        self.next = 1
        self.seen = 0


class Exporter:
    """The export of all channels that this node owns. `run` must be called repeatedly."""

    def __init__(self, store: ExportStore, rule_of: RuleOf, write: Write) -> None:
        self._store = store
        self._rule_of = rule_of
        self._write = write
        self._channels: dict[Key, _ExportedChannel] = {}
        self._behind: dict[Key, None] = {}
        self._marks: dict[Key, tuple[str, int]] = {}
        self._synced: dict[Key, tuple[str, int]] = {}
        self._scanned = False
        self._running = asyncio.Lock()

    @property
    def behind(self) -> int:
        """How many channels must be read from the store."""
        return len(self._behind)

    def expects(self, message: Message, epoch: str) -> bool:
        """Whether the stored message may be written now; otherwise it will be read from the
        store."""
        key = (message.hub, message.channel)
        channel = self._channels.get(key)
        serial = message.serial
        if channel is None or channel.epoch != epoch:
            channel = self._meet(key, epoch, serial)
        channel.seen = serial
        if channel.behind or serial < channel.next:
            return False
        if serial > channel.next:
            self._fall_behind(key, channel)
            return False
        channel.next = serial + 1
        self._marks[key] = (epoch, serial)
        return True

    def _meet(self, key: Key, epoch: str, serial: int) -> _ExportedChannel:
        if len(self._channels) >= _REMEMBERED:
            self._forget_some()
        channel = self._channels[key] = _ExportedChannel(epoch, behind=serial != 1)
        if channel.behind:
            self._behind[key] = None
        return channel

    def _forget_some(self) -> None:
        """Forgets the oldest channels that are up to date: the store knows their positions."""
        for key in [key for key, each in self._channels.items() if not each.behind][:1000]:
            del self._channels[key]

    def _fall_behind(self, key: Key, channel: _ExportedChannel) -> None:
        channel.behind = True
        self._behind[key] = None

    def take_marks(self) -> dict[Key, tuple[str, int]]:
        """Returns the positions that the next batch will reach."""
        marks, self._marks = self._marks, {}
        return marks

    def synced(self, marks: Marks) -> None:
        """A batch is on disk. Batches complete in order: if the channel has a gap, an earlier batch
        may have failed, and this one is ignored."""
        for key, mark in marks.items():
            channel = self._channels.get(key)
            if channel is None or not (channel.behind and channel.epoch == mark[0]):
                self._synced[key] = mark

    def failed(self, marks: Marks) -> None:
        """A batch could not be written."""
        for key, (epoch, _) in marks.items():
            channel = self._channels.get(key)
            if channel is None:
                channel = self._channels[key] = _ExportedChannel(epoch, behind=True)
            self._fall_behind(key, channel)

    # -- the store ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Saves the positions on disk in the store, and reads missed messages. Raises
        `HubbubError`."""
        async with self._running:
            await self._save()
            if not self._scanned:
                await self._scan()
            for key in list(self._behind):
                await self._catch_up(*key)

    async def save(self) -> None:
        """Only saves the positions on disk in the store. Raises `HubbubError`."""
        async with self._running:
            await self._save()

    async def _save(self) -> None:
        synced, self._synced = self._synced, {}
        if not synced:
            return
        try:
            await self._store.save_exported(
                [Exported(*key, epoch, serial) for key, (epoch, serial) in synced.items()]
            )
        except BaseException:  # also when it is cut short: they are told again
            self._synced = {**synced, **self._synced}
            raise

    async def _scan(self) -> None:
        """After a start: finds the channels with messages that are not in the journal."""
        after: Key | None = None
        while True:
            found = await self._store.read_unexported(after, _SCAN)
            for key in found:
                after = key
                if key not in self._channels:
                    self._channels[key] = _ExportedChannel("", behind=True)
                    self._behind[key] = None
            if len(found) < _SCAN:
                break
        self._scanned = True
        if self._behind:
            logger.info("%d channels are read for the journal", len(self._behind))

    async def _catch_up(self, hub: str, name: str) -> None:
        key = (hub, name)
        position = await self._store.read_exported(hub, name)
        while True:
            page = await self._store.read_after(hub, name, position, _PAGE)
            channel = self._channels.get(key)
            if page.head is None or channel is None:
                self._behind.pop(key, None)  # its hub was deleted
                self._channels.pop(key, None)
                return
            if page.messages:
                rule = self._rule_of(hub, name)
                if not await self._write(page.messages, page.head.epoch, rule):
                    return  # the disk does not take it: again at the next run
                position = page.messages[-1].serial
                self._synced[key] = (page.head.epoch, position)
            if not page.more and (channel.seen <= position or channel.epoch != page.head.epoch):
                break
            if not page.messages:
                position = page.head.head  # what is between was deleted
                break
        if self._channels.get(key) is not channel:
            return  # it began anew meanwhile: at the next run
        channel.epoch = page.head.epoch
        channel.next = position + 1
        channel.behind = False
        self._behind.pop(key, None)
        await self._save()

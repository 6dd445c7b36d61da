"""Batches lookups of peers: each peer is read once, many in one read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from hubbub.domain.communication.peers import PeerInfo
from hubbub.domain.errors import HubbubError
from hubbub.engine.communication.planning import Info
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_AT_ONCE = 500
Read = Callable[[Sequence[str]], Awaitable[Iterable[tuple[str, PeerInfo]]]]
Ask = Callable[[str], Awaitable[Info]]
Found = asyncio.Future[Info]


class Lookups:
    """Lookups of one hub. Requests that arrive during a read of the store are batched for the
    next."""

    def __init__(self, read: Read, ask: Ask) -> None:
        """`read(peers)` returns the peers that the store has, or raises `HubbubError`; the others
        are looked up one by one, concurrently with the reads."""
        self._read = read
        self._ask = ask
        self._under_way: dict[str, Found] = {}
        self._wanted: list[tuple[str, Found]] = []
        self._tasks = TaskSet()
        self._reading = False

    async def find(self, peers: Sequence[str]) -> dict[str, Info]:
        """Raises `HubbubError` if the store is unavailable."""
        futures = {peer: self._look_up(peer) for peer in peers}
        if futures:
            await asyncio.wait(futures.values())  # a caller that is cancelled harms no other
        return {peer: future.result() for peer, future in futures.items()}

    def forget(self, peers: Iterable[str]) -> None:
        """The peers changed: later callers do not receive the result of a read in progress."""
        for peer in peers:
            self._under_way.pop(peer, None)

    def forget_all(self) -> None:
        self._under_way.clear()

    def _look_up(self, peer: str) -> Found:
        found = self._under_way.get(peer)
        if found is None:
            found = self._under_way[peer] = asyncio.get_running_loop().create_future()
            self._wanted.append((peer, found))
            if not self._reading:
                self._reading = True
                self._tasks.start(self._run())
        return found

    async def _run(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted[:_AT_ONCE], self._wanted[_AT_ONCE:]
                await self._read_some(wanted)
        finally:
            self._reading = False

    async def _read_some(self, wanted: list[tuple[str, Found]]) -> None:
        try:
            stored = dict(await self._read([peer for peer, _ in wanted]))
        except HubbubError as error:
            logger.warning("peers cannot be read yet: %s", error)
            for peer, future in wanted:
                future.set_exception(type(error)(error.message).with_detail(error.detail))
                future.exception()  # who waited may be gone
                self._ended(peer, future)
            return
        for peer, future in wanted:
            if peer in stored:
                future.set_result(stored[peer])
                self._ended(peer, future)
            else:
                self._tasks.start(self._ask_one(peer, future))

    async def _ask_one(self, peer: str, future: Found) -> None:
        future.set_result(await self._ask(peer))
        self._ended(peer, future)

    def _ended(self, peer: str, future: Found) -> None:
        if self._under_way.get(peer) is future:
            del self._under_way[peer]

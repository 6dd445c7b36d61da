"""Peers and collectives: looked up in the store, through the hub's callbacks, and in Python
directories. Peers are cached, collectives are not."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from hubbub.domain.communication.messages import STRANGER, kind_of, name_of
from hubbub.domain.communication.peers import (
    Address,
    CollectiveInfo,
    PeerInfo,
    check_collective,
    read_collective,
    read_peer,
)
from hubbub.domain.communication.settings import CallbackSettings, Role
from hubbub.domain.errors import HubbubError, Unavailable
from hubbub.engine.communication.lookups import Lookups
from hubbub.engine.communication.planning import (
    NO_PEER,
    UNKNOWN_COLLECTIVE,
    UNKNOWN_PEER,
    Info,
    NotDeliverable,
)
from hubbub.engine.directory import ConfigurationOf
from hubbub.ports.clock import Clock
from hubbub.ports.directories import PeerDirectory
from hubbub.ports.outgoing import USER_AGENT, HttpRequest, HttpResponse, Outgoing, SendFailed
from hubbub.ports.storage.communication import CommunicationStore

logger = logging.getLogger(__name__)

CACHED_SECONDS = 600.0
CACHED_PEERS = 1000
"""Maximum number of cached peers per hub."""
CALLBACK_SECONDS = 1.0
_MAX_ANSWER_BYTES = 1 << 20


class PeerKnowledge:
    """Looks up the peers and collectives of one hub."""

    def __init__(
        self,
        hub: str,
        store: CommunicationStore,
        clock: Clock,
        configuration_of: ConfigurationOf,
        outgoing: Outgoing,
        directories: Sequence[PeerDirectory],
    ) -> None:
        self._hub = hub
        self._store = store
        self._clock = clock
        self._configuration_of = configuration_of
        self._outgoing = outgoing
        self._directories = directories
        self._cached: OrderedDict[str, tuple[float, PeerInfo]] = OrderedDict()
        self._changes = 0
        self._lookups = Lookups(lambda peers: store.read_peers(hub, peers), self._ask_peer)

    def cached(self, peer: str) -> PeerInfo | None:
        found = self._cached.get(peer)
        if found is None or found[0] < self._clock.monotonic():
            return None
        self._cached.move_to_end(peer)
        return found[1]

    def forget(self, peers: Iterable[str]) -> None:
        """Drops peers from the cache after a change. The result of a lookup in progress is not
        cached."""
        self._changes += 1
        peers = list(peers)
        self._lookups.forget(peers)
        for peer in peers:
            self._cached.pop(peer, None)

    def forget_all(self) -> None:
        self._changes += 1
        self._lookups.forget_all()
        self._cached.clear()

    def at_once(self, receivers: Sequence[str]) -> dict[str, Info] | None:
        """Information about all receivers if it is cached; None if a lookup is necessary."""
        infos: dict[str, Info] = {}
        for receiver in receivers:
            kind = kind_of(receiver)
            if kind == "collective":
                return None
            if kind == "peer":
                found = self.cached(receiver)
                if found is None:
                    return None
                infos[receiver] = found
        return infos

    async def about(self, receivers: Sequence[str]) -> dict[str, Info]:
        """Information about receivers and the members of collectives among them; a failed lookup
        yields a `NotDeliverable`. Raises `HubbubError` if the store is unavailable."""
        infos: dict[str, Info] = {}
        wanted: dict[str, None] = {}
        for receiver in receivers:
            kind = kind_of(receiver)
            if receiver.startswith(STRANGER):
                infos[receiver] = self._stranger(receiver)
            elif kind == "peer":
                wanted[receiver] = None
            elif kind == "collective":
                info = infos[receiver] = await self._collective(name_of(receiver))
                if isinstance(info, CollectiveInfo):
                    wanted.update(dict.fromkeys(info.members))
        return {**await self._peers(list(wanted)), **infos}  # one may be a member of itself

    async def peer(self, peer: str) -> PeerInfo | NotDeliverable:
        info = (await self._peers([peer]))[peer]
        return info if isinstance(info, PeerInfo) else NotDeliverable(getattr(info, "reason", ""))

    async def _peers(self, peers: list[str]) -> dict[str, Info]:
        changes = self._changes
        infos: dict[str, Info] = {}
        missing = []
        for peer in peers:
            found = self.cached(peer)
            if found is not None:
                infos[peer] = found
            elif kind_of(peer) != "peer" or peer.startswith(STRANGER):
                infos[peer] = NotDeliverable(NO_PEER)
            else:
                missing.append(peer)
        infos.update(await self._lookups.find(missing))
        if changes == self._changes:
            for peer in missing:
                self._keep(peer, infos[peer])
        return infos

    def _stranger(self, receiver: str) -> Info:
        """Only an answer has such a receiver; see `Intake`."""
        adapter = self._configuration_of(self._hub).settings.communication.strangers
        if not adapter:
            return NotDeliverable(UNKNOWN_PEER)
        return PeerInfo((Address(adapter, (receiver.removeprefix(STRANGER),)),))

    def _keep(self, peer: str, info: Info) -> None:
        if isinstance(info, PeerInfo):
            self._cached[peer] = (self._clock.monotonic() + CACHED_SECONDS, info)
            self._cached.move_to_end(peer)
            if len(self._cached) > CACHED_PEERS:
                self._cached.popitem(last=False)

    async def _ask_peer(self, peer: str) -> Info:
        try:
            async with asyncio.timeout(CALLBACK_SECONDS):
                for directory in self._directories:
                    known = await directory.peer_info(self._hub, peer)
                    if known is not None:
                        return known
                for callback in self._callbacks("peerInfo"):
                    answer = await self._get(callback, "peerInfo", peer)
                    if answer is not None:
                        return read_peer(msgspec.json.decode(answer.body))
        except Exception as error:  # noqa: BLE001 - whatever a callback answers
            return self._failed(peer, error)
        return NotDeliverable(UNKNOWN_PEER)

    async def _collective(self, name: str) -> Info:
        try:
            found = await self._store.read_collective(self._hub, name)
        except HubbubError as error:
            logger.warning("hub %s: collectives cannot be read yet: %s", self._hub, error)
            raise
        if found is not None:
            return found
        try:
            async with asyncio.timeout(CALLBACK_SECONDS):
                for directory in self._directories:
                    known = await directory.collective_info(self._hub, name)
                    if known is not None:
                        return check_collective(known)
                for callback in self._callbacks("collectiveInfo"):
                    answer = await self._get(callback, "collectiveInfo", name)
                    if answer is not None:
                        return read_collective(msgspec.json.decode(answer.body))
        except Exception as error:  # noqa: BLE001 - whatever a callback answers
            return self._failed(name, error)
        return NotDeliverable(UNKNOWN_COLLECTIVE)

    async def authenticate(self, peer: str, password: str) -> bool:
        """Whether the store, a callback or a directory accepts the peer's credentials. Raises
        `HubbubError` if none of them could be asked."""
        try:
            async with asyncio.timeout(CALLBACK_SECONDS):
                for directory in self._directories:
                    if await directory.authenticate(self._hub, peer, password):
                        return True
                body = msgspec.json.encode({"password": password})
                for callback in self._callbacks("peerAuth"):
                    answer = await self._ask(callback, "POST", "peerAuth", peer, body)
                    if answer is not None and answer.status >= 500:
                        raise SendFailed("protocol", f"the callback answered {answer.status}")
                    if answer is not None and 200 <= answer.status < 300:
                        return bool(msgspec.json.decode(answer.body or b"true") is True)
        except Exception as error:  # noqa: BLE001 - whatever a callback answers
            raise Unavailable(self._failed(peer, error).reason) from None
        return False

    def _failed(self, name: str, error: Exception) -> NotDeliverable:
        """The error's text goes only to the log: it may quote the server that was asked."""
        logger.info("hub %s: the lookup of %r failed: %s", self._hub, name, error)
        timed_out = isinstance(error, TimeoutError)
        return NotDeliverable(
            "no answer from a callback in time" if timed_out else "a callback failed"
        )

    def _callbacks(self, role: Role) -> list[CallbackSettings]:
        found = self._configuration_of(self._hub).callbacks
        return [found[name] for name in sorted(found) if role in found[name].roles]

    async def _get(self, callback: CallbackSettings, path: str, name: str) -> HttpResponse | None:
        """Returns None for status 404. Raises `SendFailed` for other unsuccessful responses."""
        answer = await self._ask(callback, "GET", path, name)
        if answer is not None and not 200 <= answer.status < 300:
            raise SendFailed("protocol", f"the callback answered {answer.status}")
        return answer

    async def _ask(
        self, callback: CallbackSettings, method: str, path: str, name: str, body: bytes = b""
    ) -> HttpResponse | None:
        url = f"{callback.url.rstrip('/')}/{path}/{quote(name, safe='')}"
        named = ("User-Agent", USER_AGENT), ("Accept", "application/json")
        headers = [*callback.headers.items(), *named]
        if body:
            headers.append(("Content-Type", "application/json"))
        request = HttpRequest(
            self._hub,
            method,
            url,
            tuple(headers),
            body,
            CALLBACK_SECONDS,
            _MAX_ANSWER_BYTES,
        )
        reach = self._configuration_of(self._hub).settings.callback_addresses
        answer = await self._outgoing.send("call", request, reach)
        return None if answer.status == 404 else answer


async def known_after_a_while(
    knowledge: PeerKnowledge, receivers: Sequence[str], again_seconds: float
) -> dict[str, Info]:
    """Like `PeerKnowledge.about`, but retries while the store is unavailable."""
    while True:
        try:
            return await knowledge.about(receivers)
        except HubbubError as error:
            logger.debug("a message waits for the lookup of its receivers: %s", error)
        await asyncio.sleep(again_seconds)

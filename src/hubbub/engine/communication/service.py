"""The communication service for callers on any node and of any gateway."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from hubbub.domain.audit import Audit
from hubbub.domain.communication.information import MessageInfo
from hubbub.domain.communication.messages import PeerMessage, check_sent, kind_of
from hubbub.domain.communication.peers import (
    MOST_MEMBERS,
    CollectiveInfo,
    PeerInfo,
    check_collective,
    check_identifier,
    check_peer,
)
from hubbub.domain.communication.requests import (
    AdaptersDescribed,
    AdapterStatus,
    DescribeAdapters,
    DiscardDeliveries,
    ForgetPeer,
    PeerChanged,
    PullAdapter,
    ReplayDeliveries,
    SendMessage,
)
from hubbub.domain.communication.steps import FAILED, DeliveryRow
from hubbub.domain.errors import BadRequest, NotFound, NotPermitted, QuotaExceeded
from hubbub.domain.permissions import Identity, Level
from hubbub.engine.communication.http_inputs import HttpInputs
from hubbub.engine.communication.log_messages import from_logged
from hubbub.engine.hub import Hub
from hubbub.ports.bus import Bus
from hubbub.ports.storage.communication import CommunicationStore, LogPage, LogQuery

MOST_PEERS = 1_000_000
MOST_AT_ONCE = 1000
"""Maximum number of peers that one request saves."""


class Communication:
    def __init__(self, bus: Bus, store: CommunicationStore) -> None:
        self._bus = bus
        self._store = store
        self.http_inputs: HttpInputs | None = None

    async def send(
        self, hub: Hub, identity: Identity, message: PeerMessage, transient: bool = False
    ) -> str:
        """Returns the message's id once the message is on disk (`transient`: immediately). Clients
        send in their own name, if the hub lets clients send. Raises `NotPermitted`,
        `InvalidAttribute`, `Conflict`, `QuotaExceeded`."""
        if not identity.trusted:
            user = identity.user_id if identity.level is Level.CLIENT else None
            if user is None or not hub.configuration.settings.communication.client_send:
                raise NotPermitted(
                    f"no permission to send messages in hub {hub.name!r}: only services do, and "
                    "users where communication.clientSend is on"
                )
            if message.sender not in ("", user):
                raise NotPermitted(
                    f"sender is {message.sender!r}, which is not the caller; leave it out"
                )
            if kind_of(user) != "peer":
                raise NotPermitted(
                    f"the user {user!r} cannot send messages: the name is that of a {kind_of(user)}"
                )
            message = msgspec.structs.replace(message, sender=user)
        fresh = not message.id
        if fresh:
            message = msgspec.structs.replace(message, id=hub.next_message_id())
        message = check_sent(message)
        request = SendMessage(hub.name, message, fresh=fresh, transient=transient)
        return str(await self._bus.ask(request))

    async def take_in(self, hub: Hub, adapter: str, message: PeerMessage) -> str:
        """Accepts a message for an input adapter that receives requests. Raises `NotFound` if the
        hub has no such adapter."""
        if adapter not in hub.configuration.adapters:
            raise NotFound(f"hub {hub.name!r} has no adapter {adapter[:64]!r}")
        return str(await self._bus.ask(SendMessage(hub.name, message, adapter)))

    # -- peers ----------------------------------------------------------------------------------

    async def save_peers(
        self, hub: Hub, peers: list[tuple[str, PeerInfo]], audit: Audit = UNSET
    ) -> None:
        """Creates or replaces peers. Raises `InvalidName`, `InvalidAttribute`, `BadRequest`,
        `QuotaExceeded`."""
        if len(peers) > MOST_AT_ONCE:
            raise BadRequest(f"{len(peers)} peers are too many; send {MOST_AT_ONCE} at a time")
        for peer, info in peers:
            check_identifier(peer, "peer")
            check_peer(info)
        most = hub.configuration.settings.quotas.peers or MOST_PEERS
        if not await self._store.audited(audit).save_peers(hub.name, peers, most):
            raise QuotaExceeded(
                f"hub {hub.name!r} may have {most} peers (quota peers); delete some"
            )
        await self._bus.ask(PeerChanged(hub.name, tuple(peer for peer, _ in peers)))

    async def peer(self, hub: Hub, peer: str) -> PeerInfo:
        """Raises `NotFound`."""
        for _, info in await self._store.read_peers(hub.name, [peer]):
            return info
        raise NotFound(f"hub {hub.name!r} has no peer {peer[:64]!r}")

    async def peers(self, hub: Hub, after: str, limit: int) -> list[tuple[str, PeerInfo]]:
        return await self._store.list_peers(hub.name, after, limit)

    async def delete_peer(self, hub: Hub, peer: str, audit: Audit = UNSET) -> None:
        """Raises `NotFound`."""
        if not await self._store.audited(audit).delete_peer(hub.name, peer):
            raise NotFound(f"hub {hub.name!r} has no peer {peer[:64]!r}")
        await self._bus.ask(PeerChanged(hub.name, (peer,)))

    async def forget(self, hub: Hub, peer: str) -> None:
        """Ends all deliveries from and to a peer that is being erased."""
        await self._bus.ask(ForgetPeer(hub.name, peer))

    # -- collectives ----------------------------------------------------------------------------

    async def save_collective(
        self, hub: Hub, name: str, info: CollectiveInfo, audit: Audit = UNSET
    ) -> None:
        """Creates or replaces a collective. Raises `InvalidName`, `BadRequest`, `QuotaExceeded`."""
        check_identifier(name, "collective")
        for member in info.members:
            check_identifier(member, "peer")
        info = check_collective(info)
        most = hub.configuration.settings.quotas.peers or MOST_PEERS
        if not await self._store.audited(audit).save_collective(hub.name, name, info, most):
            raise QuotaExceeded(
                f"hub {hub.name!r} may have {most} collectives (quota peers); delete some"
            )

    async def collective(self, hub: Hub, name: str) -> CollectiveInfo:
        """Raises `NotFound`."""
        found = await self._store.read_collective(hub.name, name)
        if found is None:
            raise _no_collective(hub, name)
        return found

    async def collectives(self, hub: Hub, after: str, limit: int) -> list[tuple[str, str]]:
        return await self._store.list_collectives(hub.name, after, limit)

    async def delete_collective(self, hub: Hub, name: str, audit: Audit = UNSET) -> None:
        """Raises `NotFound`."""
        if not await self._store.audited(audit).delete_collective(hub.name, name):
            raise _no_collective(hub, name)

    async def add_member(self, hub: Hub, name: str, peer: str, audit: Audit = UNSET) -> None:
        """Raises `NotFound` if the collective does not exist, and `QuotaExceeded`."""
        added = await self._store.audited(audit).add_member(
            hub.name, name, check_identifier(peer, "peer"), MOST_MEMBERS
        )
        if added is None:
            raise _no_collective(hub, name)
        if not added:
            raise QuotaExceeded(f"the collective {name!r} has {MOST_MEMBERS} members, the most")

    async def delete_member(self, hub: Hub, name: str, peer: str, audit: Audit = UNSET) -> None:
        """Does nothing if the peer is no member."""
        collective = check_identifier(name, "collective")
        member = check_identifier(peer, "peer")
        await self._store.audited(audit).delete_member(hub.name, collective, member)

    # -- messages -------------------------------------------------------------------------------

    async def query(self, hub: Hub, query: LogQuery, before: int | None, limit: int) -> LogPage:
        """Raises `BadRequest` if the period ends before it begins."""
        if query.since is not None and query.until is not None and query.until < query.since:
            raise BadRequest(
                f"until ({query.until}) is before since ({query.since}); exchange them"
            )
        return await self._store.query_log(query, before, limit)

    async def dead_letters(self, hub: Hub, after: tuple[int, int], limit: int) -> list[DeliveryRow]:
        return await self._store.read_deliveries(hub.name, FAILED, after, limit)

    async def replay(self, hub: Hub, keys: tuple[str, ...], audit: Audit = UNSET) -> int:
        """Retries dead letters and returns their number."""
        answer = await self._bus.ask(ReplayDeliveries(hub.name, keys, audit))
        assert isinstance(answer, int)
        return answer

    async def discard(self, hub: Hub, keys: tuple[str, ...], audit: Audit = UNSET) -> int:
        """Deletes dead letters and returns their number."""
        answer = await self._bus.ask(DiscardDeliveries(hub.name, keys, audit))
        assert isinstance(answer, int)
        return answer

    async def message_info(self, hub: Hub, type: str, subtype: str, id: str) -> MessageInfo:
        """Information by type and subtype, or by the id of a message. Raises `NotFound`."""
        for each in await self._store.read_logged(hub.name, [id] if id else []):
            about = from_logged(each.message)
            type, subtype = about.type, about.subtype
        for info in hub.configuration.message_info.values():
            if (info.type, info.subtype) == (type, subtype):
                return info
        what = f"the message {id[:64]!r}" if id else f"messages {type[:64]!r}/{subtype[:64]!r}"
        raise NotFound(
            f"hub {hub.name!r} has no message info about {what}; ask by `type` and `subtype`, or "
            "by the `id` of a message"
        )

    # -- adapters -------------------------------------------------------------------------------

    async def adapters(self, hub: Hub) -> dict[str, AdapterStatus]:
        answer = await self._bus.ask(DescribeAdapters(hub.name))
        assert isinstance(answer, AdaptersDescribed)
        return {each.name: each for each in answer.adapters}

    async def pull(self, hub: Hub, adapter: str) -> None:
        """Pulls an input adapter now. Raises `NotFound`, `Conflict`."""
        await self._bus.ask(PullAdapter(hub.name, adapter))


def _no_collective(hub: Hub, name: str) -> NotFound:
    return NotFound(f"hub {hub.name!r} has no collective {name[:64]!r}")

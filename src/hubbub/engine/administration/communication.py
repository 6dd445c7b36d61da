"""Administration of peers, adapters and messages to peers."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from hubbub.domain.audit import noted
from hubbub.domain.communication.information import MessageInfo
from hubbub.domain.communication.peers import CollectiveInfo, PeerInfo
from hubbub.domain.communication.requests import AdapterStatus
from hubbub.domain.communication.routing import RoutingRule
from hubbub.domain.communication.settings import (
    AdapterSettings,
    CallbackSettings,
)
from hubbub.domain.errors import BadRequest, NotFound, SecretNeeded
from hubbub.domain.rules import ADAPTERS, CALLBACKS, MESSAGE_INFO, ROUTES
from hubbub.domain.webhooks import Webhook, WebhookStatus
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.lists import cut
from hubbub.engine.administration.settings import (
    HIDDEN,
    NamedSettings,
    SettingsEditor,
    kept_headers,
)
from hubbub.engine.administration.versions import ANY_VERSION, Condition, Versioned
from hubbub.engine.communication.service import Communication
from hubbub.engine.communication.subscriptions import PeerSubscriptions, Start, own_peer
from hubbub.engine.node import Node
from hubbub.ports import randomness
from hubbub.ports.adapters import AdapterKinds


class Adapters(NamedSettings[AdapterSettings]):
    """The adapters of a hub. Their secrets can be set but not read."""

    def __init__(self, editor: SettingsEditor, kinds: AdapterKinds, node: Node) -> None:
        super().__init__(editor, ADAPTERS, AdapterSettings)
        self._kinds = kinds
        self._communication = node.feature(Communication)

    async def _check(self, hub: str, name: str, value: AdapterSettings) -> None:
        """Raises `BadRequest` for an unknown kind, invalid settings, an adapter that cannot be
        created, and a new one that cannot start to listen. A replacement is only created: both may
        need the same port."""
        await super()._check(hub, name, value)
        try:
            kind = self._kinds.find(value.kind)
        except NotFound as error:
            raise BadRequest(error.message) from None
        if kind.direction != "pull" and (value.interval_ms or value.delete_if_successful):
            raise BadRequest(f"`intervalMs` is for adapters that are pulled; {name!r} is not")
        if kind.direction != "pull" and value.max_per_look:
            raise BadRequest(f"`maxPerLook` is for adapters that are pulled; {name!r} is not")
        shown = kind.secrets & value.settings.keys()
        if shown:
            raise BadRequest(f"`settings` must not hold {sorted(shown)}; put it into `secrets`")
        unknown = value.secrets.keys() - kind.secrets
        if unknown:
            raise BadRequest(f"`secrets` has {sorted(unknown)}, which {value.kind!r} does not take")
        before = await self.find(hub, name)
        made = _with_secrets(value, None if before is None else before.value)
        kind.read({**made.settings, **made.secrets})
        inputs = self._communication.http_inputs
        if inputs is not None:
            await inputs.try_out(hub, name, made, begin=before is None)

    def _prepare(
        self, actor: Actor, hub: str, value: AdapterSettings, before: AdapterSettings | None
    ) -> AdapterSettings:
        return _with_secrets(value, before)


def _with_secrets(value: AdapterSettings, before: AdapterSettings | None) -> AdapterSettings:
    """Secrets given as `(hidden)` keep their values. Raises `SecretNeeded`."""
    kept = dict(value.secrets)
    for name, text in kept.items():
        if text != HIDDEN:
            continue
        same = before is not None and (before.kind, before.settings) == (
            value.kind,
            value.settings,
        )
        if before is None or not same or name not in before.secrets:
            raise SecretNeeded(
                f"the secret {name!r} was given for other settings, or never; give it again"
            )
        kept[name] = before.secrets[name]
    return msgspec.structs.replace(value, secrets=kept)


class CallbacksOfHub(NamedSettings[CallbackSettings]):
    """Callbacks that look up peers, or receive messages."""

    def __init__(self, editor: SettingsEditor, node: Node) -> None:
        super().__init__(editor, CALLBACKS, CallbackSettings)
        self._node = node

    async def _check(self, hub: str, name: str, value: CallbackSettings) -> None:
        """Raises `NotPermitted` if the hub may not send requests to the address."""
        await super()._check(hub, name, value)
        if not value.url.startswith("http"):
            raise BadRequest("`url` of a callback must begin with http:// or https://")
        reach = self._directory.get(hub).settings.callback_addresses
        await self._node.outgoing.check_address(hub, value.url, reach, "URL")

    def _prepare(
        self, actor: Actor, hub: str, value: CallbackSettings, before: CallbackSettings | None
    ) -> CallbackSettings:
        return msgspec.structs.replace(value, headers=kept_headers(value, before))


class MessageInfos(NamedSettings[MessageInfo]):
    async def put(
        self,
        actor: Actor,
        hub: str,
        name: str,
        value: MessageInfo,
        condition: Condition = ANY_VERSION,
    ) -> Versioned[MessageInfo]:
        """Replaces the info about messages of the same type and subtype, whatever its name."""
        found = await super().put(actor, hub, name, value, condition)
        for other in await self.all(hub):
            same = (other.value.type, other.value.subtype) == (value.type, value.subtype)
            if same and other.name != name:
                with suppress(NotFound):
                    await self.delete(actor, hub, other.name)
        return found


class CommunicationAdministration:
    """A hub's communication for services and administrators."""

    def __init__(
        self, node: Node, editor: SettingsEditor, audit: AuditLog, kinds: AdapterKinds
    ) -> None:
        self._node = node
        self._communication = node.feature(Communication)
        self._subscriptions_of_peers = node.feature(PeerSubscriptions)
        self._audit = audit
        self.kinds = kinds
        self.routes = NamedSettings(editor, ROUTES, RoutingRule)
        self.adapters = Adapters(editor, kinds, node)
        self.callbacks = CallbacksOfHub(editor, node)
        self.message_info = MessageInfos(editor, MESSAGE_INFO, MessageInfo)

    async def add_route(self, actor: Actor, hub: str, rule: RoutingRule) -> str:
        """Adds a routing rule and returns its name; equal rules may coexist."""
        name = randomness.token_hex(8)
        await self.routes.put(actor, hub, name, rule)
        return name

    async def statuses(self, hub: str) -> dict[str, AdapterStatus]:
        return await self._communication.adapters(self._node.hub(hub))

    async def pull(self, actor: Actor, hub: str, adapter: str) -> None:
        known = self._node.hub(hub)
        await self._audit.note(actor, "adapter.pull", hub, adapter)
        await self._communication.pull(known, adapter)

    async def save_peers(self, actor: Actor, hub: str, peers: list[tuple[str, PeerInfo]]) -> None:
        about = peers[0][0] if len(peers) == 1 else f"{len(peers)} peers"
        audit = self._audit.entry(actor, "peer.put", hub, about)
        await self._communication.save_peers(self._node.hub(hub), peers, audit)

    async def delete_peer(self, actor: Actor, hub: str, peer: str) -> None:
        """Raises `NotFound`. The peer itself is deleted last, so that the request can be repeated
        after a failure. The first deletion also stores the audit entry."""
        known = self._node.hub(hub)
        await self._communication.peer(known, peer)
        audit = self._audit.entry(actor, "peer.delete", hub, peer)
        ended = await self._subscriptions_of_peers.end_all(known, peer, audit)
        await self._communication.delete_peer(known, peer, None if ended else audit)
        await self._audit.ensure(audit)

    async def subscriptions(
        self, hub: str, peer: str, after: str, limit: int
    ) -> tuple[list[tuple[Webhook, WebhookStatus]], str | None]:
        """The channels that the peer follows, after `after`, with the state of each, and the start
        of the next page. Raises `InvalidName`."""
        subscriptions = self._subscriptions_of_peers
        found = await subscriptions.of_peer(self._node.hub(hub), peer)
        behind = [each for each in found if each.channel > after]
        page, following = cut(behind, limit, lambda each: each.channel)
        return await subscriptions.with_status(page), following

    async def follow(
        self, actor: Actor, hub: str, peer: str | None, channel: str, start: Start
    ) -> tuple[Webhook, WebhookStatus]:
        """`peer` None: the caller's own peer; the caller needs permission to subscribe to the
        channel."""
        subscriptions, known = self._subscriptions_of_peers, self._node.hub(hub)
        if peer is None:
            made = await subscriptions.follow_as(known, actor.identity, channel, start)
        else:
            audit = self._audit.entry(actor, "peer.follow", hub, f"{peer}/{channel}")
            made = await subscriptions.follow(known, peer, channel, start, audit)
        return (await subscriptions.with_status([made]))[0]

    async def unfollow(self, actor: Actor, hub: str, peer: str | None, channel: str) -> None:
        """`peer` None: the caller's own peer."""
        subscriptions, known = self._subscriptions_of_peers, self._node.hub(hub)
        if peer is None:
            await subscriptions.unfollow(known, own_peer(actor.identity), channel)
        else:
            audit = self._audit.entry(actor, "peer.unfollow", hub, f"{peer}/{channel}")
            await subscriptions.unfollow(known, peer, channel, audit)
            await self._audit.ensure(audit)

    async def save_collective(
        self, actor: Actor, hub: str, name: str, info: CollectiveInfo
    ) -> None:
        audit = self._audit.entry(actor, "collective.put", hub, name)
        await self._communication.save_collective(self._node.hub(hub), name, info, audit)

    async def delete_collective(self, actor: Actor, hub: str, name: str) -> None:
        audit = self._audit.entry(actor, "collective.delete", hub, name)
        await self._communication.delete_collective(self._node.hub(hub), name, audit)

    async def add_member(self, actor: Actor, hub: str, name: str, peer: str) -> None:
        audit = self._audit.entry(actor, "collective.join", hub, f"{name}/{peer}")
        await self._communication.add_member(self._node.hub(hub), name, peer, audit)

    async def delete_member(self, actor: Actor, hub: str, name: str, peer: str) -> None:
        audit = self._audit.entry(actor, "collective.leave", hub, f"{name}/{peer}")
        await self._communication.delete_member(self._node.hub(hub), name, peer, audit)

    async def replay(self, actor: Actor, hub: str, keys: tuple[str, ...]) -> int:
        audit = self._audit.entry(actor, "dead_letters.replay", hub)
        tried = await self._communication.replay(self._node.hub(hub), keys, audit)
        await self._audit.ensure(*noted(audit, range(tried)))
        return tried

    async def discard(self, actor: Actor, hub: str, keys: tuple[str, ...]) -> int:
        audit = self._audit.entry(actor, "dead_letters.discard", hub)
        discarded = await self._communication.discard(self._node.hub(hub), keys, audit)
        await self._audit.ensure(*noted(audit, range(discarded)))
        return discarded

"""Peers, adapters and messages to peers, as services and administrators see them."""

from __future__ import annotations

import secrets

import msgspec

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
from hubbub.engine.communication.subscriptions import Start, own_peer
from hubbub.engine.node import Node
from hubbub.ports.adapters import AdapterKinds


class Adapters(NamedSettings[AdapterSettings]):
    """Adapters of a hub. Their secrets go in, never out."""

    def __init__(self, editor: SettingsEditor, kinds: AdapterKinds, node: Node) -> None:
        super().__init__(editor, ADAPTERS, AdapterSettings)
        self._kinds = kinds
        self._node = node

    async def _check(self, hub: str, name: str, value: AdapterSettings) -> None:
        """Raises `BadRequest` for a kind that the server does not have, for settings that the kind
        does not take, for an adapter that cannot be made, and for a new one that does not begin to
        listen. One that replaces another is only made: the two may need the same port."""
        await super()._check(hub, name, value)
        try:
            kind = self._kinds.find(value.kind)
        except NotFound as error:
            raise BadRequest(error.message) from None
        if kind.direction != "pull" and (value.interval_ms or value.delete_if_successful):
            raise BadRequest(f"`intervalMs` is for adapters that are pulled; {name!r} is not")
        shown = kind.secrets & value.settings.keys()
        if shown:
            raise BadRequest(f"`settings` must not hold {sorted(shown)}; put it into `secrets`")
        unknown = value.secrets.keys() - kind.secrets
        if unknown:
            raise BadRequest(f"`secrets` has {sorted(unknown)}, which {value.kind!r} does not take")
        before = await self.find(hub, name)
        made = _with_secrets(value, None if before is None else before.value)
        kind.read({**made.settings, **made.secrets})
        inputs = self._node.communication.http_inputs
        if inputs is not None:
            await inputs.try_out(hub, name, made, begin=before is None)

    def _prepare(
        self, actor: Actor, hub: str, value: AdapterSettings, before: AdapterSettings | None
    ) -> AdapterSettings:
        return _with_secrets(value, before)


def _with_secrets(value: AdapterSettings, before: AdapterSettings | None) -> AdapterSettings:
    """Secrets that are `(hidden)` keep the value that they had. Raises `SecretNeeded`."""
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
    """Servers that are asked about peers, or told of messages."""

    def __init__(self, editor: SettingsEditor, node: Node) -> None:
        super().__init__(editor, CALLBACKS, CallbackSettings)
        self._node = node

    async def _check(self, hub: str, name: str, value: CallbackSettings) -> None:
        """Raises `NotPermitted` for an address that the hub does not send to."""
        await super()._check(hub, name, value)
        if not value.url.startswith("http"):
            raise BadRequest("`url` of a callback must begin with http:// or https://")
        reach = self._directory.get(hub).settings.callback_addresses
        await self._node.outgoing.check_address(hub, value.url, reach, "URL")

    def _prepare(
        self, actor: Actor, hub: str, value: CallbackSettings, before: CallbackSettings | None
    ) -> CallbackSettings:
        return msgspec.structs.replace(value, headers=kept_headers(value, before))


class CommunicationAdministration:
    """What services and administrators do with a hub's communication."""

    def __init__(
        self, node: Node, editor: SettingsEditor, audit: AuditLog, kinds: AdapterKinds
    ) -> None:
        self._node = node
        self._audit = audit
        self.kinds = kinds
        self.routes = NamedSettings(editor, ROUTES, RoutingRule)
        self.adapters = Adapters(editor, kinds, node)
        self.callbacks = CallbacksOfHub(editor, node)
        self.message_info = NamedSettings(editor, MESSAGE_INFO, MessageInfo)

    async def add_route(self, actor: Actor, hub: str, rule: RoutingRule) -> str:
        """Equal rules coexist; answers the name of this one."""
        name = secrets.token_hex(8)
        await self.routes.put(actor, hub, name, rule)
        return name

    async def statuses(self, hub: str) -> dict[str, AdapterStatus]:
        return await self._node.communication.adapters(self._node.hub(hub))

    async def pull(self, actor: Actor, hub: str, adapter: str) -> None:
        await self._node.communication.pull(self._node.hub(hub), adapter)
        await self._audit.note(actor, "adapter.pull", hub, adapter)

    async def save_peers(self, actor: Actor, hub: str, peers: list[tuple[str, PeerInfo]]) -> None:
        await self._node.communication.save_peers(self._node.hub(hub), peers)
        about = peers[0][0] if len(peers) == 1 else f"{len(peers)} peers"
        await self._audit.note(actor, "peer.put", hub, about)

    async def delete_peer(self, actor: Actor, hub: str, peer: str) -> None:
        """Raises `NotFound`. The peer goes last: what fails half-way can be asked for again."""
        known = self._node.hub(hub)
        await self._node.communication.peer(known, peer)
        await self._node.peer_subscriptions.end_all(known, peer)
        await self._node.communication.delete_peer(known, peer)
        await self._audit.note(actor, "peer.delete", hub, peer)

    async def subscriptions(
        self, hub: str, peer: str, after: str, limit: int
    ) -> tuple[list[tuple[Webhook, WebhookStatus]], str | None]:
        """The channels that the peer follows, those behind `after`, and how each does; then where
        the next page begins. Raises `InvalidName`."""
        subscriptions = self._node.peer_subscriptions
        found = await subscriptions.of_peer(self._node.hub(hub), peer)
        behind = [each for each in found if each.channel > after]
        page, following = cut(behind, limit, lambda each: each.channel)
        return await subscriptions.with_status(page), following

    async def follow(
        self, actor: Actor, hub: str, peer: str | None, channel: str, start: Start
    ) -> tuple[Webhook, WebhookStatus]:
        """`peer` None: the caller, who needs the permission to subscribe to the channel."""
        subscriptions, known = self._node.peer_subscriptions, self._node.hub(hub)
        if peer is None:
            made = await subscriptions.follow_as(known, actor.identity, channel, start)
        else:
            made = await subscriptions.follow(known, peer, channel, start)
            await self._audit.note(actor, "peer.follow", hub, f"{peer}/{channel}")
        return (await subscriptions.with_status([made]))[0]

    async def unfollow(self, actor: Actor, hub: str, peer: str | None, channel: str) -> None:
        """`peer` None: the caller."""
        subscriptions, known = self._node.peer_subscriptions, self._node.hub(hub)
        await subscriptions.unfollow(known, peer or own_peer(actor.identity), channel)
        if peer is not None:
            await self._audit.note(actor, "peer.unfollow", hub, f"{peer}/{channel}")

    async def save_collective(
        self, actor: Actor, hub: str, name: str, info: CollectiveInfo
    ) -> None:
        await self._node.communication.save_collective(self._node.hub(hub), name, info)
        await self._audit.note(actor, "collective.put", hub, name)

    async def delete_collective(self, actor: Actor, hub: str, name: str) -> None:
        await self._node.communication.delete_collective(self._node.hub(hub), name)
        await self._audit.note(actor, "collective.delete", hub, name)

    async def add_member(self, actor: Actor, hub: str, name: str, peer: str) -> None:
        await self._node.communication.add_member(self._node.hub(hub), name, peer)
        await self._audit.note(actor, "collective.join", hub, f"{name}/{peer}")

    async def delete_member(self, actor: Actor, hub: str, name: str, peer: str) -> None:
        await self._node.communication.delete_member(self._node.hub(hub), name, peer)
        await self._audit.note(actor, "collective.leave", hub, f"{name}/{peer}")

    async def replay(self, actor: Actor, hub: str, keys: tuple[str, ...]) -> int:
        tried = await self._node.communication.replay(self._node.hub(hub), keys)
        await self._audit.note(actor, "dead_letters.replay", hub, str(tried))
        return tried

    async def discard(self, actor: Actor, hub: str, keys: tuple[str, ...]) -> int:
        discarded = await self._node.communication.discard(self._node.hub(hub), keys)
        await self._audit.note(actor, "dead_letters.discard", hub, str(discarded))
        return discarded

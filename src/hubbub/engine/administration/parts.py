"""Named parts of a hub whose changes need more than a validation of their value."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hubbub.domain.errors import BadRequest, SecretNeeded
from hubbub.domain.mercure.keys import MercureKey
from hubbub.domain.names import check_name
from hubbub.domain.rules import NATS_SCHEME, AuthProvider, ChannelSettings, RpcRoute, Section
from hubbub.domain.setting_checks import problems_of
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.settings import (
    HIDDEN,
    NamedSettings,
    SettingsEditor,
    check_reach,
    kept_headers,
    need_rules,
    refuse,
)
from hubbub.engine.administration.versions import ANY_VERSION, Condition, Versioned
from hubbub.engine.node import Node

E = TypeVar("E", bound=AuthProvider | RpcRoute)


class Namespaces(NamedSettings[str]):
    """Assigns rules to all channels whose names begin with a namespace and ':'."""

    async def _check(self, hub: str, name: str, value: str) -> None:
        if ":" in name:
            raise BadRequest("a namespace is the text before the first ':' and holds none itself")

    def _prepare(self, actor: Actor, hub: str, value: str, before: str | None) -> str:
        """Raises `Conflict` if the hub has no rules with this name."""
        need_rules(self._directory.get(hub), value)
        return value


class ChannelOverrides(NamedSettings[ChannelSettings]):
    """Settings of single channels: rules of their own, and metadata."""

    async def get(self, hub: str, name: str) -> Versioned[ChannelSettings]:
        """Version 0 if the channel has no settings."""
        check_name(name, "channel")
        return await self.find(hub, name) or Versioned(name, ChannelSettings(), 0)

    async def put_rules(
        self,
        actor: Actor,
        hub: str,
        name: str,
        rules: str | None,
        condition: Condition = ANY_VERSION,
    ) -> Versioned[ChannelSettings]:
        """Keeps the metadata. Raises `Conflict` if the hub has no rules with this name."""
        check_name(name, "channel")

        def change(before: ChannelSettings | None) -> ChannelSettings:
            need_rules(self._directory.get(hub), rules)
            return msgspec.structs.replace(before or ChannelSettings(), rules=rules)

        return await self._change(actor, hub, name, change, condition)

    async def put_metadata(
        self,
        actor: Actor,
        hub: str,
        name: str,
        metadata: dict[str, object],
        condition: Condition = ANY_VERSION,
    ) -> Versioned[ChannelSettings]:
        """Replaces the metadata; keeps the rules."""
        check_name(name, "channel")
        refuse(problems_of(ChannelSettings(metadata=metadata)))

        def change(before: ChannelSettings | None) -> ChannelSettings:
            return msgspec.structs.replace(before or ChannelSettings(), metadata=metadata)

        return await self._change(actor, hub, name, change, condition)


class MercureKeys(NamedSettings[MercureKey]):
    """The keys that verify tokens of Mercure."""

    async def _check(self, hub: str, name: str, value: MercureKey) -> None:
        if value.key != HIDDEN:
            await super()._check(hub, name, value)

    def _prepare(
        self, actor: Actor, hub: str, value: MercureKey, before: MercureKey | None
    ) -> MercureKey:
        """A key given as `(hidden)` stays. Raises `SecretNeeded`."""
        if value.key != HIDDEN:
            return value
        if before is None or before.algorithm != value.algorithm:
            raise SecretNeeded("the key was given for another algorithm, or never; give it again")
        return msgspec.structs.replace(value, key=before.key)


class Endpoints(NamedSettings[E]):
    """Servers that the hub calls: auth providers and services. The values of headers are secret:
    they can be set but not read, and are sent only to the URL for which they were set."""

    def __init__(self, editor: SettingsEditor, section: Section, of: type[E], node: Node) -> None:
        super().__init__(editor, section, of)
        self._node = node

    async def _check(self, hub: str, name: str, value: E) -> None:
        """Raises `NotPermitted` for a forbidden address and `SubjectNotPermitted` for a subject
        outside of the hub's prefix."""
        await super()._check(hub, name, value)
        configuration = self._directory.get(hub)
        if value.url.startswith(NATS_SCHEME):
            configuration.check_subject(value.url, self._node.limits.subject_root)
        else:
            reach = configuration.reach_of(value)
            await self._node.outgoing.check_address(hub, value.url, reach, "URL")

    def _prepare(self, actor: Actor, hub: str, value: E, before: E | None) -> E:
        """Headers given as `(hidden)` keep their values. Raises `SecretNeeded` if they were set for
        another URL, and `NotPermitted` for addresses that only operators may permit."""
        check_reach(actor, value, before)
        return msgspec.structs.replace(value, headers=kept_headers(value, before))

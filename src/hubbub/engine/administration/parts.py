"""The named parts of a hub whose changes take more than a check of the value."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hubbub.domain.errors import BadRequest
from hubbub.domain.names import check_name
from hubbub.domain.rules import NATS_SCHEME, AuthProvider, ChannelSettings, RpcRoute, Section
from hubbub.domain.setting_checks import problems_of
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.settings import (
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
    """Which rules hold for all channels that begin with a name and ':'."""

    async def _check(self, hub: str, name: str, value: str) -> None:
        if ":" in name:
            raise BadRequest("a namespace is the text before the first ':' and holds none itself")

    def _prepare(self, actor: Actor, hub: str, value: str, before: str | None) -> str:
        """Raises `Conflict` where the hub has no such rules."""
        need_rules(self._directory.get(hub), value)
        return value


class Channels(NamedSettings[ChannelSettings]):
    """Settings of single channels: rules of their own, and metadata."""

    async def get(self, hub: str, name: str) -> Versioned[ChannelSettings]:
        """Version 0: nothing is set."""
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
        """The metadata stays as it is. Raises `Conflict` where the hub has no such rules."""
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
        """Replaces all of it; the rules stay as they are."""
        check_name(name, "channel")
        refuse(problems_of(ChannelSettings(metadata=metadata)))

        def change(before: ChannelSettings | None) -> ChannelSettings:
            return msgspec.structs.replace(before or ChannelSettings(), metadata=metadata)

        return await self._change(actor, hub, name, change, condition)


class Endpoints(NamedSettings[E]):
    """Where the hub asks others: auth providers, services. The values of headers are secret: they
    go in, never out, and are sent only to the URL that they were given for."""

    def __init__(self, editor: SettingsEditor, section: Section, of: type[E], node: Node) -> None:
        super().__init__(editor, section, of)
        self._node = node

    async def _check(self, hub: str, name: str, value: E) -> None:
        """Raises `NotPermitted` for an address and `SubjectNotPermitted` for a subject that is not
        the hub's."""
        await super()._check(hub, name, value)
        configuration = self._directory.get(hub)
        if value.url.startswith(NATS_SCHEME):
            configuration.check_subject(value.url, self._node.limits.subject_root)
        else:
            reach = configuration.reach_of(value)
            await self._node.outgoing.check_address(hub, value.url, reach, "URL")

    def _prepare(self, actor: Actor, hub: str, value: E, before: E | None) -> E:
        """Headers that are `(hidden)` keep the value that they had. Raises `SecretNeeded` where it
        was given for another URL, `NotPermitted` for addresses that are up to operators."""
        check_reach(actor, value, before)
        return msgspec.structs.replace(value, headers=kept_headers(value, before))

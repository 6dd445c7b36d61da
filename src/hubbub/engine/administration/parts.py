"""The named parts of a hub: rules, namespaces, channels, auth providers, routes to services."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from hubbub.domain.errors import BadRequest
from hubbub.domain.names import check_name
from hubbub.domain.rules import (
    NATS_SCHEME,
    AuthProvider,
    ChannelSettings,
    HubConfiguration,
    RpcRoute,
    Rules,
)
from hubbub.domain.setting_checks import (
    Problem,
    channel_problems,
    provider_problems,
    route_problems,
)
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.settings import (
    SettingsEditor,
    check_reach,
    hide_secrets,
    kept_headers,
    need_rules,
    refuse,
)
from hubbub.engine.administration.versions import ANY_VERSION, Condition, Versioned
from hubbub.engine.node import Node

E = TypeVar("E", bound=AuthProvider | RpcRoute)


class RulesOfHubs:
    """Which features channels have, under names that others refer to."""

    def __init__(self, editor: SettingsEditor) -> None:
        self._editor = editor

    async def get(self, hub: str, name: str) -> Versioned[Rules] | None:
        return await self._editor.read(hub, "rules", name, Rules)

    async def all(self, hub: str) -> list[Versioned[Rules]]:
        return await self._editor.read_all(hub, "rules", Rules)

    async def put(
        self, actor: Actor, hub: str, name: str, rules: Rules, condition: Condition = ANY_VERSION
    ) -> Versioned[Rules]:
        check_name(name, "rules")
        return await self._editor.put(actor, hub, "rules", name, Rules, lambda _: rules, condition)

    async def delete(
        self, actor: Actor, hub: str, name: str, condition: Condition = ANY_VERSION
    ) -> None:
        """Raises `Conflict`, which names who uses them."""

        def users(configuration: HubConfiguration) -> Iterator[str]:
            return _users_of_rules(configuration, name)

        await self._editor.delete(actor, hub, "rules", name, Rules, condition, users)


class Namespaces:
    """Which rules hold for all channels that begin with a name and ':'."""

    def __init__(self, editor: SettingsEditor) -> None:
        self._editor = editor

    async def get(self, hub: str, name: str) -> Versioned[str] | None:
        return await self._editor.read(hub, "namespace", name, str)

    async def all(self, hub: str) -> list[Versioned[str]]:
        return await self._editor.read_all(hub, "namespace", str)

    async def put(
        self, actor: Actor, hub: str, name: str, rules: str, condition: Condition = ANY_VERSION
    ) -> Versioned[str]:
        if ":" in check_name(name, "namespace"):
            raise BadRequest("a namespace is the text before the first ':' and holds none itself")

        def change(_: str | None) -> str:
            need_rules(self._editor.directory.get(hub), rules)
            return rules

        return await self._editor.put(actor, hub, "namespace", name, str, change, condition)

    async def delete(
        self, actor: Actor, hub: str, name: str, condition: Condition = ANY_VERSION
    ) -> None:
        await self._editor.delete(actor, hub, "namespace", name, str, condition)


class Channels:
    """What is set for single channels by name: rules of their own, and metadata."""

    def __init__(self, editor: SettingsEditor) -> None:
        self._editor = editor

    async def get(self, hub: str, name: str) -> Versioned[ChannelSettings]:
        """Version 0: nothing is set."""
        check_name(name, "channel")
        found = await self._editor.read(hub, "channel", name, ChannelSettings)
        return found or Versioned(name, ChannelSettings(), 0)

    async def all(self, hub: str) -> list[Versioned[ChannelSettings]]:
        return await self._editor.read_all(hub, "channel", ChannelSettings)

    async def put_rules(
        self,
        actor: Actor,
        hub: str,
        name: str,
        rules: str | None,
        condition: Condition = ANY_VERSION,
    ) -> Versioned[ChannelSettings]:
        """The metadata stays as it is."""
        check_name(name, "channel")

        def change(before: ChannelSettings | None) -> ChannelSettings:
            if rules is not None:
                need_rules(self._editor.directory.get(hub), rules)
            return msgspec.structs.replace(before or ChannelSettings(), rules=rules)

        return await self._put(actor, hub, name, change, condition)

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
        refuse(channel_problems(ChannelSettings(metadata=metadata)))

        def change(before: ChannelSettings | None) -> ChannelSettings:
            return msgspec.structs.replace(before or ChannelSettings(), metadata=metadata)

        return await self._put(actor, hub, name, change, condition)

    async def delete(
        self, actor: Actor, hub: str, name: str, condition: Condition = ANY_VERSION
    ) -> None:
        """Forget what was set for the channel by name, rules and metadata."""
        await self._editor.delete(actor, hub, "channel", name, ChannelSettings, condition)

    async def _put(
        self,
        actor: Actor,
        hub: str,
        name: str,
        change: Callable[[ChannelSettings | None], ChannelSettings],
        condition: Condition,
    ) -> Versioned[ChannelSettings]:
        kind = ChannelSettings
        return await self._editor.put(actor, hub, "channel", name, kind, change, condition)


class Endpoints(Generic[E]):
    """Where the hub asks others: auth providers, services. The values of headers are secret: they
    go in, never out, and are sent only to the URL that they were given for."""

    def __init__(
        self,
        editor: SettingsEditor,
        node: Node,
        kind: str,
        of: type[E],
        problems: Callable[[E], Iterable[Problem]],
        users: Callable[[HubConfiguration, str], Iterable[str]] = lambda *_: (),
    ) -> None:
        self._editor = editor
        self._node = node
        self._kind = kind
        self._of = of
        self._problems = problems
        self._users = users

    async def get(self, hub: str, name: str) -> Versioned[E] | None:
        found = await self._editor.read(hub, self._kind, name, self._of)
        return _without_secrets(found) if found is not None else None

    async def all(self, hub: str) -> list[Versioned[E]]:
        found = await self._editor.read_all(hub, self._kind, self._of)
        return [_without_secrets(each) for each in found]

    async def put(
        self, actor: Actor, hub: str, name: str, value: E, condition: Condition = ANY_VERSION
    ) -> Versioned[E]:
        """Headers that are `(hidden)` keep the value that they had. Raises `SecretNeeded` where it
        was given for another URL, `NotPermitted` for an address and `SubjectNotPermitted` for a
        subject that is not the hub's."""
        check_name(name, self._kind.replace("_", " "))
        refuse(self._problems(value))
        configuration = self._editor.directory.get(hub)
        if value.url.startswith(NATS_SCHEME):
            configuration.check_subject(value.url, self._node.limits.subject_root)
        elif self._node.outgoing is not None:
            reach = configuration.reach_of(value)
            await self._node.outgoing.check_address(hub, value.url, reach, "URL")

        def change(before: E | None) -> E:
            check_reach(actor, value, before)
            return msgspec.structs.replace(value, headers=kept_headers(value, before))

        return _without_secrets(
            await self._editor.put(actor, hub, self._kind, name, self._of, change, condition)
        )

    async def delete(
        self, actor: Actor, hub: str, name: str, condition: Condition = ANY_VERSION
    ) -> None:
        """Raises `Conflict` while the hub uses it."""

        def users(configuration: HubConfiguration) -> Iterable[str]:
            return self._users(configuration, name)

        await self._editor.delete(actor, hub, self._kind, name, self._of, condition, users)


def auth_providers(editor: SettingsEditor, node: Node) -> Endpoints[AuthProvider]:
    def users(configuration: HubConfiguration, name: str) -> Iterator[str]:
        if configuration.settings.auth_provider == name:
            yield "the settings of the hub (authProvider)"

    return Endpoints(editor, node, "auth_provider", AuthProvider, provider_problems, users)


def rpc_routes(editor: SettingsEditor, node: Node) -> Endpoints[RpcRoute]:
    return Endpoints(editor, node, "rpc_route", RpcRoute, route_problems)


def _users_of_rules(configuration: HubConfiguration, name: str) -> Iterator[str]:
    if configuration.settings.default_rules == name:
        yield "the settings of the hub (defaultRules)"
    if configuration.settings.topic_rules == name:
        yield "the settings of the hub (topicRules)"
    for namespace, rules in configuration.namespaces.items():
        if rules == name:
            yield f"the namespace {namespace!r}"
    for channel, settings in configuration.channels.items():
        if settings.rules == name:
            yield f"the channel {channel!r}"


def _without_secrets(found: Versioned[E]) -> Versioned[E]:
    return msgspec.structs.replace(found, value=hide_secrets(found.value))

"""Hubs: creating and deleting them, and their hub-wide settings."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from hubbub.domain.errors import Conflict, HubNotFound, NotPermitted, VersionMismatch
from hubbub.domain.fields import wire_name
from hubbub.domain.names import check_name
from hubbub.domain.rules import HUB_ITSELF, HubConfiguration, HubSettings
from hubbub.domain.setting_checks import problems_of
from hubbub.engine.access.issuers import key_problems
from hubbub.engine.access.revocations import Revocations
from hubbub.engine.access.tokens import MAX_TOKEN_SECONDS
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.lists import sifted
from hubbub.engine.administration.settings import (
    NamedSettings,
    SettingsEditor,
    check_reach,
    need_rules,
    refuse,
)
from hubbub.engine.administration.versions import ANY_VERSION, Condition, Versioned
from hubbub.engine.node import Node
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.storage.administration import Revocation

_OWN_NAME = ""


class Hubs:
    def __init__(self, editor: SettingsEditor, node: Node, revocations: Revocations) -> None:
        self._editor = editor
        self._settings = NamedSettings(editor, HUB_ITSELF, HubSettings)
        self._node = node
        self._webhooks = node.feature(Webhooks)
        self._directory = node.directory
        self._revocations = revocations

    def names(self) -> list[str]:
        """All hubs with settings, and hubs without settings that are in use."""
        return sorted({*self._directory.names(), *self._node.hubs})

    async def search(self, prefix: str, q: str) -> list[str]:
        """Names that begin with `prefix` and contain `q`, in order."""
        names = self.names()
        if not prefix and not q:
            return names
        return await sifted(
            names, lambda part: [name for name in part if q in name and name.startswith(prefix)]
        )

    def configuration(self, hub: str) -> HubConfiguration:
        """Raises `HubNotFound`."""
        return self._directory.get(hub)

    async def create(self, actor: Actor, hub: str, settings: HubSettings) -> Versioned[HubSettings]:
        """An administrator's hub begins empty, a service's with the template `dynamicHubs`. Raises
        `Conflict` if it exists already, and `NotPermitted`."""
        check_name(hub, "hub")
        async with self._editor.lock(hub):
            if self._directory.is_stored(hub):
                raise Conflict(f"hub {hub!r} exists already")
            if actor.is_admin:
                return await self._put(actor, hub, settings, Condition(absent=True))
            template = self._directory.template(hub)
            settings = _within(template.settings, settings)
            _check_rights(template.settings, settings)
            refuse((*problems_of(settings), *key_problems(settings)))
            await self._check_references(actor, template, settings)
            made = msgspec.structs.replace(template, settings=settings)
            note = self._editor.audit.entry(actor, "hub.put", hub, _OWN_NAME, after=settings)
            try:
                await self._directory.create(made, note)
            except VersionMismatch:
                raise Conflict(f"hub {hub!r} exists already") from None
            return Versioned(_OWN_NAME, settings, 1, created=True)

    async def delete(self, actor: Actor, hub: str) -> None:
        """Deletes the hub with all its data, ends its sessions, and makes its tokens invalid for a
        later hub with the same name. The first of these steps also stores the audit entry. Raises
        `HubNotFound`."""
        check_name(hub, "hub")
        async with self._editor.lock(hub):
            stored = self._directory.is_stored(hub)
            in_use = hub in self._node.hubs
            known = self._node.hubs[hub].configuration if in_use else HubConfiguration(hub)
            configuration = self._directory.get(hub) if stored else known
            before = configuration.settings if stored else None
            webhooks = await self._webhooks.all(hub)
            note = self._editor.audit.entry(actor, "hub.delete", hub, before=before)
            if stored or in_use:
                now = int(self._node.clock.now() * 1000)
                until = now + MAX_TOKEN_SECONDS * 1000
                await self._revocations.add(Revocation(hub, "hub", "", now, until), note)
            found = await self._directory.delete_hub(hub, None if stored or in_use else note)
            self._node.drop_hub(hub, HubNotFound(f"hub {hub!r} was deleted"))
            if not (found or stored or in_use):
                raise HubNotFound(f"there is no hub {hub!r}")
            reason = "an administrator deleted the hub"
            ended = self._webhooks.deny_ended(configuration, webhooks, reason)
            self._node.do_later(ended)

    async def settings(self, hub: str) -> Versioned[HubSettings]:
        """Raises `HubNotFound`."""
        found = await self._settings.find(hub, _OWN_NAME)
        return found or Versioned(_OWN_NAME, self._directory.get(hub).settings, 0)

    async def put_settings(
        self, actor: Actor, hub: str, settings: HubSettings, condition: Condition = ANY_VERSION
    ) -> Versioned[HubSettings]:
        """An administrator may create the hub in this way. A hub that was created on first use
        keeps the rest of its template. Only administrators may change quotas, or let a foreign
        issuer issue service tokens."""
        check_name(hub, "hub")
        async with self._editor.lock(hub):
            if not actor.is_admin:
                _check_rights(self._directory.get(hub).settings, settings)
            with suppress(HubNotFound):
                await self._directory.settle(hub)
            return await self._put(actor, hub, settings, condition)

    async def _check_reach(
        self, actor: Actor, configuration: HubConfiguration, settings: HubSettings
    ) -> None:
        """Raises `NotPermitted` if the settings contain addresses or subjects that only an operator
        may permit."""
        before = configuration.settings
        for name in ("callback_addresses", "nats_subjects"):
            if getattr(settings, name) != getattr(before, name) and not actor.is_operator:
                raise NotPermitted(
                    f"only an administrator of all hubs may change {wire_name(name)} of a hub"
                )
        known = {(issuer.jwks_url, issuer.addresses): issuer for issuer in before.trusted_issuers}
        after = msgspec.structs.replace(configuration, settings=settings)
        for issuer in settings.trusted_issuers:
            same = known.get((issuer.jwks_url, issuer.addresses))
            check_reach(actor, issuer, same)
            if issuer.jwks_url is not None and same is None:
                reach = after.reach_of(issuer)
                await self._node.outgoing.check_address(after.hub, issuer.jwks_url, reach, "URL")

    async def _check_references(
        self, actor: Actor, configuration: HubConfiguration, settings: HubSettings
    ) -> None:
        """Raises `Conflict` if the settings name rules or a provider that the hub does not have,
        and `NotPermitted`."""
        need_rules(configuration, settings.default_rules)
        need_rules(configuration, settings.topic_rules)
        await self._check_reach(actor, configuration, settings)
        provider = settings.auth_provider
        if provider is not None and provider not in configuration.auth_providers:
            raise Conflict(
                f"hub {configuration.hub!r} has no auth provider {provider!r}; create it first"
            )

    async def _put(
        self, actor: Actor, hub: str, settings: HubSettings, condition: Condition
    ) -> Versioned[HubSettings]:
        refuse((*problems_of(settings), *key_problems(settings)))
        stored = self._directory.is_stored(hub)
        configuration = self._directory.get(hub) if stored else HubConfiguration(hub)
        await self._check_references(actor, configuration, settings)
        return await self._settings.change_locked(
            actor, hub, _OWN_NAME, lambda _: settings, condition
        )


_TEMPLATE_DECIDES = (
    "quotas", "callback_addresses", "nats_subjects", "auth_provider", "default_rules",
    "topic_rules", "trusted_issuers",
)  # fmt: skip


def _within(template: HubSettings, given: HubSettings) -> HubSettings:
    """The settings of a service's new hub: the template's, unless the service gives its own; then
    those fields are the template's that the service leaves at their defaults, and which it may not
    change or which name other settings of the template."""
    nothing = HubSettings()
    if given == nothing:
        return template
    left_out = [
        name for name in _TEMPLATE_DECIDES if getattr(given, name) == getattr(nothing, name)
    ]
    return msgspec.structs.replace(given, **{name: getattr(template, name) for name in left_out})


def _check_rights(before: HubSettings, after: HubSettings) -> None:
    """Raises `NotPermitted` for changes that only an administrator may make."""
    if after.quotas != before.quotas:
        raise NotPermitted("only an administrator may change the quotas of a hub")
    for issuer in after.trusted_issuers:
        if issuer.level != "client" and issuer not in before.trusted_issuers:
            raise NotPermitted(
                f"only an administrator may trust the issuer {issuer.issuer!r} with the level "
                f"{issuer.level}, or change an issuer of that level; set its `level` to client"
            )

"""Access control from the settings: hubs, token keys, and the administrators' login."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from hubbub.connectors.jwks_http import HttpKeySource
from hubbub.domain.errors import HubbubError
from hubbub.domain.hub_template import hub_from
from hubbub.domain.journal import PayloadRule
from hubbub.domain.rules import AuthProvider, HubConfiguration, trusting
from hubbub.engine.access.issuers import Issuers
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.access.revocations import Revocations
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import KeyRing, Tokens
from hubbub.engine.administration import LoginSettings
from hubbub.engine.directory import Directory
from hubbub.engine.node import Node
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.server.secrets import load_or_create
from hubbub.server.settings import Settings, SettingsError
from hubbub.server.telemetry.access import MetricsAccess

logger = logging.getLogger(__name__)


class HubAccess:
    """The hubs of a server, and the tokens that open them."""

    def __init__(
        self, settings: Settings, clock: Clock, store: Store, bus: Bus, outgoing: OutgoingGate
    ) -> None:
        """`outgoing` fetches the keys of foreign issuers. Raises `SettingsError`."""
        self._hubs = list(settings.hubs.values())
        self.revocations = Revocations(store, clock)
        self.directory = Directory(
            store, bus, settings.engine.allow_dynamic_hubs, self.revocations, _template(settings)
        )
        self.key_source = HttpKeySource(outgoing)
        issuers = Issuers(self.directory.settings_of, self.key_source, clock)
        self.tokens = make_tokens(settings, clock, self.revocations, issuers)
        self.registry = AccessRegistry(self.directory.get, self.tokens)
        self.throttle = Throttle(clock, settings.limits, settings.admin.logins_per_minute)

    async def declare_hubs(self) -> None:
        """Makes the store say what the configuration file says. Raises `HubbubError`."""
        await self.directory.declare(self._hubs)

    def journal_rule(self, hub: str, channel: str) -> PayloadRule:
        """Deleted hubs have no rule: nothing is recorded."""
        try:
            return self.directory.get(hub).rules_for(channel).journal
        except HubbubError:
            return "off"


def make_tokens(
    settings: Settings,
    clock: Clock,
    revocations: Revocations | None = None,
    issuers: Issuers | None = None,
) -> Tokens:
    """Loads the signing keys, creating them on the first start. Without `revocations` and
    `issuers`, the tokens can be issued, and their signatures verified."""
    keys = load_or_create(Path(settings.storage.path), settings.auth)
    return Tokens(
        session_keys=keys.session,
        admin_keys=keys.admin,
        issuer=settings.auth.issuer,
        clock=clock,
        algorithm=settings.auth.algorithm,
        renewable_seconds=settings.auth.renewable_ttl,
        revocations=revocations,
        issuers=issuers,
        read_keys=lambda: _keys_again(settings),
    )


def _keys_again(settings: Settings) -> KeyRing | None:
    """Reloads keys that may have been rotated. An unreadable file changes nothing."""
    try:
        return load_or_create(Path(settings.storage.path), settings.auth)
    except SettingsError as error:
        logger.warning("the signing keys cannot be reloaded: %s", error)
        return None


def metrics_access(settings: Settings, node: Node) -> MetricsAccess:
    token = settings.admin.metrics_token
    return MetricsAccess(
        node.credentials, token.reveal() if token is not None else None, settings.developer
    )


def login_settings(settings: Settings) -> LoginSettings:
    admin = settings.admin
    provider = None
    if admin.url is not None:
        provider = AuthProvider(
            url=admin.url, timeout_seconds=admin.login_timeout, addresses="private"
        )
    return LoginSettings(provider)


def _template(settings: Settings) -> Callable[[str], HubConfiguration]:
    """How hubs are made that nobody declared: from `dynamicHubs`; in developer mode, if there is no
    such template, as open as `demo`."""
    template, demo = settings.dynamic_hubs, settings.hubs.get("demo")
    if template is None and settings.developer and demo is not None:
        demo_template = HubConfiguration("", demo.settings, demo.rules, demo.namespaces)
        return lambda hub: hub_from(demo_template, hub)
    root = settings.broker.subject if settings.broker.host else None
    made = trusting(template or HubConfiguration(""))
    return lambda hub: hub_from(made, hub, root)

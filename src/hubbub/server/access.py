"""Access as configured: the keys of tokens, and where administrators log in."""

from __future__ import annotations

import logging
from pathlib import Path

from hubbub.domain.rules import AuthProvider
from hubbub.engine.access.issuers import Issuers
from hubbub.engine.access.revocations import Revocations
from hubbub.engine.access.tokens import KeyRing, Tokens
from hubbub.engine.administration import LoginSettings
from hubbub.engine.node import Node
from hubbub.ports.clock import Clock
from hubbub.server.secrets import load_or_create
from hubbub.server.settings import Settings, SettingsError
from hubbub.server.telemetry.access import MetricsAccess

logger = logging.getLogger(__name__)


def make_tokens(
    settings: Settings,
    clock: Clock,
    revocations: Revocations | None = None,
    issuers: Issuers | None = None,
) -> Tokens:
    """Reads the signing keys, and makes them on the first start. Without `revocations` and
    `issuers` the tokens can be issued, and verified as far as signatures go."""
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
    """The keys may have been rotated. A file that cannot be read now changes nothing."""
    try:
        return load_or_create(Path(settings.storage.path), settings.auth)
    except SettingsError as error:
        logger.warning("the signing keys cannot be read again: %s", error)
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

"""The template from which hubs are made that nobody declared one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from hubbub.domain.rules import NATS_SCHEME, AuthProvider, HubConfiguration, RpcRoute
from hubbub.domain.subjects import auth_prefix, word

HUB = "{hub}"
"""Stands for the name of the hub in the URLs and subjects of a template."""
OVER_NATS = "nats"
"""The name of the auth provider that a hub has if its template names none."""

E = TypeVar("E", AuthProvider, RpcRoute)


def hub_from(
    template: HubConfiguration, hub: str, nats_root: str | None = None
) -> HubConfiguration:
    """The template for this hub. With `nats_root`, a hub whose template names no auth provider asks
    the one that answers below this root on NATS."""
    found = msgspec.structs.replace(
        template,
        hub=hub,
        auth_providers=_named_for(hub, template.auth_providers),
        rpc_routes=_named_for(hub, template.rpc_routes),
    )
    if nats_root is None or template.settings.auth_provider is not None:
        return found
    provider = AuthProvider(url=NATS_SCHEME + auth_prefix(nats_root, hub))
    return msgspec.structs.replace(
        found,
        settings=msgspec.structs.replace(template.settings, auth_provider=OVER_NATS),
        auth_providers={**found.auth_providers, OVER_NATS: provider},
    )


def _named_for(hub: str, endpoints: Mapping[str, E]) -> dict[str, E]:
    return {name: _filled_in(hub, endpoint) for name, endpoint in endpoints.items()}


def _filled_in(hub: str, endpoint: E) -> E:
    if HUB not in endpoint.url:
        return endpoint
    encoded = word(hub) if endpoint.url.startswith(NATS_SCHEME) else quote(hub, safe="")
    return msgspec.structs.replace(endpoint, url=endpoint.url.replace(HUB, encoded))

"""Settings: from one YAML file, HUBBUB_ variables and command-line options to checked values.

Later sources win: defaults, file, environment, options. All problems are reported together.
`docs/configuration.md` lists every key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hubbub.domain.rules import AuthProvider, HubConfiguration, HubSettings, RpcRoute, Rules
from hubbub.engine.mqtt.settings import CATEGORY, USUAL_PORT, Mqtt
from hubbub.server.settings.checks import (
    check_settings,
    endpoint_host,
    is_loopback,
    is_on_this_machine,
)
from hubbub.server.settings.hubs import TEMPLATE, read_hubs, read_template
from hubbub.server.settings.keys import (
    CATEGORIES,
    ROOM_CATEGORIES,
    Secret,
    Settings,
    SettingsError,
)
from hubbub.server.settings.reader import (
    Given,
    SettingsReader,
    is_category,
    is_secret,
    join,
    key_types,
    leaves,
)
from hubbub.server.settings.sources import graft, read_environment, read_file

__all__ = [
    "Secret",
    "Settings",
    "SettingsError",
    "cautions",
    "describe",
    "developer_settings",
    "known_keys",
    "load",
]

LOOPBACK_ORIGINS = tuple(
    f"{scheme}://{host}:*"
    for scheme in ("http", "https")
    for host in ("localhost", "127.0.0.1", "[::1]")
)


def known_keys() -> dict[str, object]:
    """The type of every key outside `hubs`, by its path."""
    return {
        path: kind
        for name, category in CATEGORIES.items()
        for path, kind in leaves(category, name).items()
    }


def load(
    path: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Loads the effective settings. `overrides` are values by key (`listener.port`); None means
    unset.

    Raises SettingsError with every problem found.
    """
    known = known_keys()
    reader = SettingsReader(known)
    tree = reader.mapping(read_file(path) if path else None, "")
    for key, given in read_environment(environment, known, reader).items():
        graft(tree, key, given, reader)
    for key, value in (overrides or {}).items():
        if value is not None:
            graft(tree, key, Given(value, "from the command line", is_text=False), reader)
    settings = _read(reader, tree)
    check_settings(reader, settings)
    if reader.problems:
        raise SettingsError(reader.problems)
    return settings


def _read(reader: SettingsReader, tree: dict[str, object]) -> Settings:
    known = dict.fromkeys((*CATEGORIES, "hubs", TEMPLATE))
    for key in sorted(tree.keys() - known.keys()):
        reader.refuse("", key, known)
    categories = {
        name: reader.read(category, tree.get(name), name) for name, category in CATEGORIES.items()
    }
    rooms = {name: categories.pop(name) for name in ROOM_CATEGORIES}
    settings = msgspec.structs.replace(Settings(), rooms=rooms, **categories)
    timeout, root = settings.hub.authenticate_request_timeout, settings.broker.subject
    hubs = read_hubs(reader, tree.get("hubs"), timeout, root)
    template = read_template(reader, tree.get(TEMPLATE), timeout, root)
    return msgspec.structs.replace(settings, hubs=hubs, dynamic_hubs=template)


def developer_settings(base: Settings) -> Settings:
    """Settings of `serve --dev`: a hub for experiments, open only to this machine."""
    if not is_loopback(base.listener.host):
        raise SettingsError(
            [
                f"listener.host is {base.listener.host!r}, which others can reach; developer mode "
                "opens a hub to everyone and works only on 127.0.0.1, ::1 or localhost"
            ]
        )
    endpoint = base.zeromq.endpoint
    host = endpoint_host(endpoint) if endpoint is not None else None
    if host is not None and not is_loopback(host):
        raise SettingsError(
            [
                f"zeromq.endpoint is {endpoint!r}, which others can reach; developer mode works "
                "only on this machine"
            ]
        )
    origins = dict.fromkeys((*base.listener.allowed_origins, *LOOPBACK_ORIGINS, "null"))
    replace = msgspec.structs.replace
    return replace(
        base,
        listener=replace(base.listener, allowed_origins=tuple(origins)),
        engine=replace(base.engine, allow_dynamic_hubs=True),
        rooms={**base.rooms, CATEGORY: _developer_mqtt(base)},
        zeromq=replace(base.zeromq, endpoint=base.zeromq.endpoint or _endpoint_beside(base)),
        hubs={"demo": _demo_hub(), **base.hubs},
        developer=True,
    )


def _developer_mqtt(base: Settings) -> Mqtt:
    """MQTT for this machine, at its usual port; any port if the system chooses the main one. Raises
    `SettingsError`."""
    given = base.of(Mqtt)
    reachable = [each.host for each in given.listeners if not is_loopback(each.host)]
    if reachable:
        raise SettingsError(
            [
                f"mqtt.listeners has the host {reachable[0]!r}, which others can reach; developer "
                "mode works only on this machine"
            ]
        )
    return given.for_developers(USUAL_PORT if base.listener.port else 0, "demo")


def _endpoint_beside(base: Settings) -> str:
    """The endpoint on the next port; any port if the system chooses or there is no next one."""
    port = base.listener.port
    return f"tcp://127.0.0.1:{port + 1 if 0 < port < 65_535 else '*'}"


def _demo_hub() -> HubConfiguration:
    opened = Rules(
        public=True, client_publish=True, allow_anonymous=True, live_history=True, retain=True
    )
    return HubConfiguration(
        hub="demo",
        settings=HubSettings(
            allow_anonymous=True,
            default_rules="open",
            topic_rules="topic",
            open_topics=True,
            callback_addresses="loopback",
            commands=True,
        ),
        rules={
            "open": opened,
            "room": msgspec.structs.replace(opened, presence=True, occupancy=True),
            "log": msgspec.structs.replace(opened, store=True, search=True),
            "topic": msgspec.structs.replace(opened, store=True, store_by_default=True),
        },
        namespaces={"room": "room", "log": "log"},
    )


_MOST_PROXIES = 16
"""The most addresses of one network in `listener.trustedProxies` without a caution."""


def cautions(settings: Settings) -> list[str]:
    """Settings that are valid but risky in production."""
    found = []
    listener = settings.listener
    protected = listener.tls.certificate or listener.trusted_proxies
    if not is_loopback(listener.host) and not protected:
        found.append(
            f"listener.host {listener.host} is reachable by others without TLS; set "
            "listener.tls, or listener.trustedProxies if a proxy in front has it"
        )
    found.extend(
        f"listener.trustedProxies has {network}: each of these {size} addresses may say which"
        " address a client has, and so passes by the limits for addresses; name the proxy's alone"
        for network in listener.trusted_proxies
        if (size := ip_network(network).num_addresses) > _MOST_PROXIES
    )
    zeromq = settings.zeromq
    if zeromq.endpoint is not None and zeromq.curve.secret_key_file is None:
        host = endpoint_host(zeromq.endpoint)
        if host is not None and not is_loopback(host):
            found.append(
                f"zeromq.endpoint {zeromq.endpoint} is reachable by others without encryption; "
                "set zeromq.curve"
            )
    found.extend(
        f"mqtt.listeners has {each.host}:{each.port}, which is reachable by others without TLS; "
        "set its tls"
        for each in settings.of(Mqtt).listeners
        if each.tls is None and not is_loopback(each.host)
    )
    if "*" in listener.allowed_origins:
        found.append("listener.allowedOrigins has *: every web page may use the hubs")
    postgres = settings.storage.postgres
    if postgres.ssl_mode in ("disable", "require") and not all(
        map(is_on_this_machine, postgres.hosts)
    ):
        found.append(
            f"storage.postgres.sslMode {postgres.ssl_mode} lets others on the way pass for the "
            "database; use verify-full"
        )
    if not settings.hcommands.static_analysis:
        found.append(
            "hcommands.staticAnalysis is off: files in hcommands.path are loaded unchecked"
        )
    for name, hub in settings.hubs.items():
        found.extend(_cautions_of_hub(f"hubs.{name}", hub))
    if settings.dynamic_hubs is not None:
        found.extend(_cautions_of_hub(TEMPLATE, settings.dynamic_hubs))
    return found


def _cautions_of_hub(path: str, hub: HubConfiguration) -> Iterator[str]:
    if "*" in hub.settings.allowed_origins:
        yield f"{path}.settings.allowedOrigins has *: every web page may use this hub"
    for name, provider in hub.auth_providers.items():
        url = urlsplit(provider.url)
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield f"{path}.authProviders.{name}.url is not https: credentials travel in the clear"


def describe(settings: Settings) -> str:
    """The effective settings, one line per key, with secrets hidden."""
    lines = [
        f"{path} = {value}" + ("    # set" if changed else "")
        for path, value, changed in in_effect(settings)
    ]
    for name, hub in settings.hubs.items():
        lines.extend(_describe_hub(f"hubs.{name}", hub))
    if not settings.hubs:
        lines.append("hubs = none declared")
    if settings.dynamic_hubs is not None:
        lines.extend(_describe_hub(TEMPLATE, settings.dynamic_hubs))
    return "\n".join(lines) + "\n"


def in_effect(settings: Settings) -> list[tuple[str, str, bool]]:
    """Each key outside `hubs` with its value, and whether that differs from the default; secrets
    are hidden."""
    return [(path, value, _defaults()[path] != value) for path, value in _values(settings)]


@cache
def _defaults() -> dict[str, str]:
    return dict(_values(Settings()))


def _values(settings: Settings) -> Iterator[tuple[str, str]]:
    for name in CATEGORIES:
        yield from _values_below(settings.category(name), name)


def _values_below(struct: msgspec.Struct, path: str) -> Iterator[tuple[str, str]]:
    for key, (name, kind) in key_types(type(struct)).items():
        value = getattr(struct, name)
        if is_category(kind):
            yield from _values_below(value, join(path, key))
        elif is_secret(kind):
            absent = "generated on first start" if name == "secret" else "none"
            yield join(path, key), absent if value is None else "hidden"
        else:
            yield join(path, key), _as_text(value)


def _as_text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _describe_hub(path: str, hub: HubConfiguration) -> Iterator[str]:
    for key, value in _values_below(hub.settings, f"{path}.settings"):
        yield f"{key} = {value}"
    defaults = msgspec.to_builtins(Rules())
    for name, rules in hub.rules.items():
        features = [
            feature if value is True else f"{feature} {value}"
            for feature, value in msgspec.to_builtins(rules).items()
            if value != defaults[feature]
        ]
        yield f"{path}.rules.{name} = {', '.join(features) or 'nothing'}"
    for name, rules_id in hub.namespaces.items():
        yield f"{path}.namespaces.{name} = {rules_id}"
    for name, channel in hub.channels.items():
        yield f"{path}.channels.{name} = rules {channel.rules}, {len(channel.metadata)} metadata"
    for name, provider in hub.auth_providers.items():
        yield f"{path}.authProviders.{name} = {_describe_endpoint(provider)}"
    for name, route in hub.rpc_routes.items():
        yield f"{path}.rpcRoutes.{name} = {route.method} at {_describe_endpoint(route)}"


def _describe_endpoint(endpoint: AuthProvider | RpcRoute) -> str:
    headers = ", ".join(f"{header}: hidden" for header in endpoint.headers) or "none"
    return f"{endpoint.url}, {endpoint.timeout_seconds:g} s, headers {headers}"

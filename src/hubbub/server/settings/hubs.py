"""Hubs declared in the configuration, as the domain's own values."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.errors import AuthProviderFailed, InvalidName, SubjectNotPermitted
from hubbub.domain.names import check_name
from hubbub.domain.rules import (
    NATS_SCHEME,
    AuthProvider,
    ChannelSettings,
    HubConfiguration,
    HubSettings,
    RpcRoute,
    Rules,
)
from hubbub.domain.setting_checks import endpoint_problem, is_json, issuer_problems
from hubbub.domain.subjects import is_subject
from hubbub.engine.access.issuers import parse_keys
from hubbub.server.settings.checks import check_origins
from hubbub.server.settings.reader import Reader, camel, join, nearest, shown


class _Provider(msgspec.Struct, frozen=True):
    """An auth provider as written; the time-out has its default elsewhere."""

    url: str = ""
    headers: dict[str, str] = {}
    timeout_seconds: float | None = None
    addresses: Reach | None = None


class _Route(_Provider, frozen=True):
    """A route to a service as written."""

    method: str = ""


_SECTIONS = ("settings", "rules", "namespaces", "channels", "authProviders", "rpcRoutes")


def read_hubs(
    reader: Reader, tree: object, provider_timeout_seconds: float, subject_root: str
) -> dict[str, HubConfiguration]:
    """Every declared hub, by its id."""
    return {
        hub: _read_hub(reader, hub, declaration, provider_timeout_seconds, subject_root)
        for hub, declaration in _named(reader, tree, "hubs", "hub").items()
    }


def _read_hub(
    reader: Reader, hub: str, tree: object, provider_timeout_seconds: float, subject_root: str
) -> HubConfiguration:
    path = join("hubs", hub)
    given = reader.mapping(tree, path)
    for key in sorted(given.keys() - set(_SECTIONS)):
        reader.refuse(path, key, dict.fromkeys(_SECTIONS))
    rules = {
        name: reader.read(Rules, value, f"{path}.rules.{name}")
        for name, value in _named(reader, given.get("rules"), f"{path}.rules", "rules").items()
    }
    configuration = HubConfiguration(
        hub=hub,
        settings=reader.read(HubSettings, given.get("settings"), f"{path}.settings"),
        rules=rules,
        namespaces=_read_namespaces(reader, given.get("namespaces"), f"{path}.namespaces"),
        channels=_read_channels(reader, given.get("channels"), f"{path}.channels"),
        auth_providers=_read_providers(
            reader, given.get("authProviders"), f"{path}.authProviders", provider_timeout_seconds
        ),
        rpc_routes=_read_routes(reader, given.get("rpcRoutes"), f"{path}.rpcRoutes"),
    )
    _check_references(reader, path, configuration)
    _check_values(reader, path, configuration)
    _check_subjects(reader, path, configuration, subject_root)
    return configuration


def _named(reader: Reader, tree: object, path: str, what: str) -> dict[str, object]:
    """The entries of a mapping whose keys are names, without those that may not be."""
    entries: dict[str, object] = {}
    for name, value in reader.mapping(tree, path).items():
        try:
            entries[check_name(name, what)] = value
        except InvalidName as error:
            reader.note(f"{path}: {error.message}")
    return entries


def _read_namespaces(reader: Reader, tree: object, path: str) -> dict[str, str]:
    namespaces: dict[str, str] = {}
    for name, rules in _named(reader, tree, path, "namespace").items():
        if ":" in name:
            reader.note(f"{path}.{name} contains ':'; a namespace is the text before the first ':'")
        elif not isinstance(rules, str):
            reader.note(f"{path}.{name} is not the id of rules; expected text")
        else:
            namespaces[name] = rules
    return namespaces


def _read_channels(reader: Reader, tree: object, path: str) -> dict[str, ChannelSettings]:
    channels: dict[str, ChannelSettings] = {}
    for name, value in _named(reader, tree, path, "channel").items():
        channels[name] = reader.read(ChannelSettings, value, f"{path}.{name}")
        if not is_json(channels[name].metadata):
            reader.note(f"{path}.{name}.metadata cannot be written as JSON; use texts, numbers, "
                        "true, false, lists and mappings with text keys")  # fmt: skip
    return channels


def _read_providers(
    reader: Reader, tree: object, path: str, default_timeout_seconds: float
) -> dict[str, AuthProvider]:
    providers: dict[str, AuthProvider] = {}
    for name, value in _named(reader, tree, path, "auth provider").items():
        written = reader.read(_Provider, value, f"{path}.{name}")
        _check_endpoint(reader, f"{path}.{name}", written)
        timeout = written.timeout_seconds
        providers[name] = AuthProvider(
            url=written.url,
            headers=written.headers,
            timeout_seconds=default_timeout_seconds if timeout is None else timeout,
            addresses=written.addresses,
        )
    return providers


def _read_routes(reader: Reader, tree: object, path: str) -> dict[str, RpcRoute]:
    routes: dict[str, RpcRoute] = {}
    for name, value in _named(reader, tree, path, "rpc route").items():
        written = reader.read(_Route, value, f"{path}.{name}")
        _check_endpoint(reader, f"{path}.{name}", written)
        if not written.method:
            reader.note(f"{path}.{name}.method is missing; expected a pattern such as cart.*")
        timeout = written.timeout_seconds
        routes[name] = RpcRoute(
            written.method,
            written.url,
            written.headers,
            10.0 if timeout is None else timeout,
            written.addresses,
        )
    return routes


def _check_endpoint(reader: Reader, where: str, written: _Provider) -> None:
    _check_url(reader, f"{where}.url", written.url)
    timeout = written.timeout_seconds
    if timeout is not None and not 0.1 <= timeout <= 300:
        reader.note(f"{where}.timeoutSeconds is {timeout}; expected a number from 0.1 to 300")
    for header, text in written.headers.items():
        if not header.isascii() or not header.replace("-", "").replace("_", "").isalnum():
            reader.note(f"{where}.headers has the name {header!r}, which HTTP does not allow")
        elif not text.isprintable():
            reader.note(f"{where}.headers.{header} holds control characters (value hidden)")


def _check_url(reader: Reader, path: str, url: str) -> None:
    if not url:
        reader.note(f"{path} is missing; expected the http or https URL to ask")
        return
    if url.startswith(NATS_SCHEME):
        problem = endpoint_problem(url)
        if problem is not None:
            reader.note(f"{path} {problem}")
        return
    try:
        parts = urlsplit(url)
        has_credentials = "@" in parts.netloc
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        reader.note(f"{path} is no URL (value hidden); check its host and port")
        return
    if has_credentials:
        reader.note(f"{path} holds a user or password (hidden); send credentials in headers")
    elif not usable:
        reader.note(f"{path} is {shown(url)}; expected a URL that begins with http:// or https://")


def _check_references(reader: Reader, path: str, hub: HubConfiguration) -> None:
    """Whatever is referred to by name is declared."""
    wanted = [(f"{path}.namespaces.{name}", rules) for name, rules in hub.namespaces.items()]
    wanted += [(f"{path}.channels.{n}.rules", c.rules) for n, c in hub.channels.items() if c.rules]
    if hub.settings.default_rules is not None:
        wanted.append((f"{path}.settings.defaultRules", hub.settings.default_rules))
    if hub.settings.topic_rules is not None:
        wanted.append((f"{path}.settings.topicRules", hub.settings.topic_rules))
    for where, rules in wanted:
        _check_declared(reader, where, rules, f"{path}.rules", hub.rules)
    provider = hub.settings.auth_provider
    if provider is not None:
        where = f"{path}.settings.authProvider"
        _check_declared(reader, where, provider, f"{path}.authProviders", hub.auth_providers)


def _check_declared(
    reader: Reader, where: str, name: str, section: str, declared: Mapping[str, object]
) -> None:
    if name in declared:
        return
    meant = nearest(name, declared)
    hint = f"; did you mean {meant!r}?" if meant else ""
    reader.note(f"{where} refers to {name!r}, which {section} does not declare{hint}")


def _check_subjects(reader: Reader, path: str, hub: HubConfiguration, subject_root: str) -> None:
    for subject in hub.settings.nats_subjects:
        if not is_subject(subject):
            reader.note(
                f"{path}.settings.natsSubjects has {subject[:100]!r}, which is no subject that a "
                "hub may have: no wildcards, no $ before a word, no _ before the first"
            )
    endpoints: list[tuple[str, AuthProvider | RpcRoute]] = [
        *((f"{path}.authProviders.{name}.url", each) for name, each in hub.auth_providers.items()),
        *((f"{path}.rpcRoutes.{name}.url", each) for name, each in hub.rpc_routes.items()),
    ]
    for where, endpoint in endpoints:
        if endpoint.url.startswith(NATS_SCHEME) and endpoint_problem(endpoint.url) is None:
            try:
                hub.check_subject(endpoint.url, subject_root)
            except SubjectNotPermitted as error:
                reader.note(f"{where}: {error.message}")


def _check_values(reader: Reader, path: str, hub: HubConfiguration) -> None:
    check_origins(reader, f"{path}.settings.allowedOrigins", hub.settings.allowed_origins)
    for index, issuer in enumerate(hub.settings.trusted_issuers):
        where = f"{path}.settings.trustedIssuers[{index}]"
        for key, problem in issuer_problems(issuer):
            reader.note(f"{where}.{key} {problem}")
        if issuer.keys:
            try:
                parse_keys(msgspec.json.encode({"keys": issuer.keys}))
            except AuthProviderFailed as error:
                reader.note(f"{where}.keys: {error.message}")
    for name, quota in msgspec.structs.asdict(hub.settings.quotas).items():
        if quota < 0:
            reader.note(
                f"{path}.settings.quotas.{camel(name)} is {quota}; expected 0 (no limit) or more"
            )

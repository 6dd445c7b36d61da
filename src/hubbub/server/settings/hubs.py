"""Reads hubs declared in the configuration into domain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from hubbub.domain.errors import InvalidName, SubjectNotPermitted
from hubbub.domain.hub_template import HUB, hub_from
from hubbub.domain.names import check_name
from hubbub.domain.rules import (
    AUTH_PROVIDERS,
    HUB_ITSELF,
    NAMESPACES,
    NATS_SCHEME,
    RPC_ROUTES,
    SECTIONS,
    HubConfiguration,
    Section,
)
from hubbub.domain.setting import Setting
from hubbub.domain.setting_checks import endpoint_problem, problems_of
from hubbub.engine.access.issuers import key_problems
from hubbub.server.settings.reader import SettingsReader, join, nearest, unwrap

TEMPLATE = "dynamicHubs"
_SOME_HUB = "example"
"""A hub for which the template's subjects are checked."""


def read_hubs(
    reader: SettingsReader, tree: object, provider_timeout_seconds: float, subject_root: str
) -> dict[str, HubConfiguration]:
    """Every declared hub, by its id."""
    hubs = {}
    for hub, declaration in _named(reader, tree, "hubs", "hub").items():
        path = join("hubs", hub)
        hubs[hub] = _read_hub(reader, hub, declaration, path, provider_timeout_seconds)
        _note_problems(reader, hubs[hub], path, subject_root)
    return hubs


def read_template(
    reader: SettingsReader, tree: object, provider_timeout_seconds: float, subject_root: str
) -> HubConfiguration | None:
    """The template of hubs that come into being by use or are made by services."""
    if unwrap(tree)[0] is None:
        return None
    template = _read_hub(reader, _SOME_HUB, tree, TEMPLATE, provider_timeout_seconds)
    for section in (AUTH_PROVIDERS, RPC_ROUTES):
        for name, endpoint in getattr(template, section.attribute).items():
            if HUB in urlsplit(endpoint.url).netloc:
                reader.note(
                    f"{TEMPLATE}.{section.key}.{name}.url has {HUB} in its host; clients choose "
                    "the names of hubs, so put it behind the host"
                )
    _note_problems(reader, hub_from(template, _SOME_HUB), TEMPLATE, subject_root)
    return template


def _note_problems(
    reader: SettingsReader, hub: HubConfiguration, path: str, subject_root: str
) -> None:
    for problem in (
        *_reference_problems(hub, path),
        *(f"{path}.settings.{key} {text}" for key, text in key_problems(hub.settings)),
        *_subject_problems(hub, path, subject_root),
    ):
        reader.note(problem)


def _read_hub(
    reader: SettingsReader, hub: str, tree: object, path: str, provider_timeout_seconds: float
) -> HubConfiguration:
    given = reader.mapping(tree, path)
    known = {section.key: section for section in SECTIONS}
    for key in sorted(given.keys() - known.keys()):
        reader.refuse(path, key, known)
    defaults: dict[Section, dict[str, object]] = {
        AUTH_PROVIDERS: {"timeoutSeconds": provider_timeout_seconds}
    }
    sections: dict[str, Any] = {}
    for section in SECTIONS:
        value, where = given.get(section.key), f"{path}.{section.key}"
        if section is HUB_ITSELF:
            sections[section.attribute] = _read_setting(reader, section.type, value, where)
        else:
            sections[section.attribute] = _read_section(
                reader, section, value, where, defaults.get(section, {})
            )
    return HubConfiguration(hub=hub, **sections)


def _read_section(
    reader: SettingsReader, section: Section, tree: object, path: str, defaults: dict[str, object]
) -> dict[str, Setting | str]:
    """The valid entries; problems of the others are recorded."""
    entries: dict[str, Setting | str] = {}
    for name, value in _named(reader, tree, path, section.words).items():
        where = f"{path}.{name}"
        if section is NAMESPACES:
            read = _read_namespace(reader, name, value, where)
        else:
            filled = {**defaults, **value} if isinstance(value, dict) else value
            read = _read_setting(reader, section.type, filled, where)
        if read is not None:
            entries[name] = read
    return entries


def _read_setting(reader: SettingsReader, kind: Any, tree: object, path: str) -> Any:
    """None if a required key is missing."""
    value = reader.read(kind, tree, path)
    if value is not None:
        for key, problem in problems_of(value):
            reader.note(f"{path}.{key} {problem}")
    return value


def _read_namespace(reader: SettingsReader, name: str, rules: object, path: str) -> str | None:
    if ":" in name:
        reader.note(f"{path} contains ':'; a namespace is the text before the first ':'")
    elif not isinstance(rules, str):
        reader.note(f"{path} is not the id of rules; expected text")
    else:
        return rules
    return None


def _named(reader: SettingsReader, tree: object, path: str, what: str) -> dict[str, object]:
    """The entries of a mapping whose keys are valid names."""
    entries: dict[str, object] = {}
    for name, value in reader.mapping(tree, path).items():
        try:
            entries[check_name(name, what)] = value
        except InvalidName as error:
            reader.note(f"{path}: {error.message}")
    return entries


def _reference_problems(hub: HubConfiguration, path: str) -> Iterator[str]:
    """Checks that every referenced name is declared."""
    for reference in hub.references():
        declared = reference.section.of(hub)
        if reference.name not in declared:
            meant = nearest(reference.name, declared)
            hint = f"; did you mean {meant!r}?" if meant else ""
            yield (
                f"{path}.{reference.path} refers to {reference.name!r}, which "
                f"{path}.{reference.section.key} does not declare{hint}"
            )


def _subject_problems(hub: HubConfiguration, path: str, subject_root: str) -> Iterator[str]:
    """Checks that NATS subjects belong to the hub."""
    for section in (AUTH_PROVIDERS, RPC_ROUTES):
        for name, endpoint in getattr(hub, section.attribute).items():
            if endpoint.url.startswith(NATS_SCHEME) and endpoint_problem(endpoint.url) is None:
                try:
                    hub.check_subject(endpoint.url, subject_root)
                except SubjectNotPermitted as error:
                    yield f"{path}.{section.key}.{name}.url: {error.message}"

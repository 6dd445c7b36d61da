"""Schemas of adapters by kind, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.communication.settings import AdapterSettings
from hubbub.ports.adapters import AdapterKind, AdapterKinds

NEW_ADAPTER = "NewAdapter"
_DESCRIPTION = (
    "An adapter as it is put, with the fields of `AdapterSettings`. `settings` and `secrets` are "
    "those of its kind; `intervalMs`, `deleteIfSuccessful`, `maxPerLook` and `awaits` are for "
    "kinds that are pulled."
)


def new_adapter(kinds: AdapterKinds) -> dict[str, Any]:
    """The schema of an adapter of any kind that the server has."""
    variants = [_variant(kinds.find(name)) for name in kinds.names()]
    return {"title": NEW_ADAPTER, "description": _DESCRIPTION, "oneOf": variants}


def _variant(kind: AdapterKind[Any]) -> dict[str, Any]:
    base, own = _inlined(AdapterSettings), _inlined(kind.settings)
    fields = base["properties"]
    chosen = {name: name in kind.secrets for name in own["properties"]}
    properties: dict[str, Any] = {
        **fields,
        "kind": {"const": kind.name},
        "settings": _part(own, [name for name, secret in chosen.items() if not secret]),
        "secrets": _part(own, [name for name, secret in chosen.items() if secret]),
    }
    for name, schema in properties["secrets"]["properties"].items():
        texts = [each for each in schema.get("anyOf", [schema]) if each != {"type": "null"}]
        properties["secrets"]["properties"][name] = texts[0]  # a secret is a text or not there
    if kind.direction != "pull":
        properties |= {
            "intervalMs": {"type": "null"},
            "deleteIfSuccessful": {"const": False},
            "maxPerLook": {"type": "null"},
            "awaits": {"const": ""},
        }
    needed = [name for name in ("settings", "secrets") if properties[name]["required"]]
    variant = {**base, "properties": properties, "required": ["kind", *needed]}
    variant["title"] = f"{kind.name} adapter"
    if kind.direction == "pull":
        interval = {"required": ["intervalMs"], "properties": {"intervalMs": {"type": "integer"}}}
        variant["anyOf"] = [{"properties": {"awaits": {"const": ""}}}, interval]
    return variant


def _part(schema: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: schema["properties"][name] for name in names},
        "required": [name for name in schema["required"] if name in names],
        "additionalProperties": False,
    }


def _inlined(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct without references, so that the structs of operators' own adapters
    cannot take the names of the hub's schemas."""
    schema = msgspec.json.schema(struct)
    definitions = schema.pop("$defs", {})

    def resolve(value: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [resolve(each, inside) for each in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).rpartition("/")[2]
        if not name:
            return {key: resolve(each, inside) for key, each in value.items()}
        return {} if name in inside else resolve(definitions[name], (*inside, name))

    found: dict[str, Any] = resolve(schema, ())
    return found

"""The OpenAPI 3.1 document, made from the table of routes and the types that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hubbub import __version__
from hubbub.domain.communication.peers import MAX_ID
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.envelope import MAX_TEXT
from hubbub.domain.errors import (
    BadRequest,
    HubbubError,
    Internal,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    RateLimited,
    Timeout,
    TooLarge,
)
from hubbub.domain.names import MAX_USER_ID_CHARS
from hubbub.gateways.admin.adapter_schemas import NEW_ADAPTER, new_adapter
from hubbub.gateways.admin.shapes import Error
from hubbub.gateways.routes import Access, AnyRoute
from hubbub.ports.adapters import AdapterKinds

_REF = "#/components/schemas/{name}"
_ALWAYS = (BadRequest, TooLarge, RateLimited, Internal, Overloaded, Timeout)
_WITH_TOKEN = (NotAuthenticated, NotPermitted)

_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f*#]+$",
}
_PEER = {**_NAME, "maxLength": MAX_ID, "pattern": r"^[^\u0000-\u001f\u007f-\u009f:]+$"}
_PATH_PARAMETERS: dict[str, tuple[str, dict[str, Any]]] = {
    "hub": ("The hub's id.", _NAME),
    "channel": ("The channel's name, percent-encoded.", _NAME),
    "conversation": (
        "The conversation's id, percent-encoded.",
        {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
    ),
    "restore": ("The id that the restore got.", {"type": "string", "minLength": 1}),
    "topic": ("The topic's name, which is a channel's; percent-encoded.", _NAME),
    "subscription": ("The subscription's name, percent-encoded.", _NAME),
    "owner": (
        "Whose it is: `u:` and the user's id, or the level of callers without one.",
        {"type": "string", "minLength": 1, "pattern": r"^[!-~]+$"},
    ),
    "producer": ("The producer's id, percent-encoded.", _NAME),
    "webhook": ("The webhook's id.", {"type": "string", "pattern": "^[0-9a-f]{32}$"}),
    "serial": (
        "The serial of the dead letter.",
        {"type": "string", "pattern": "^[1-9][0-9]{0,14}$"},
    ),
    "rules": ("The id of the rules.", _NAME),
    "namespace": (
        "The namespace, without ':'.",
        {**_NAME, "pattern": r"^[^\u0000-\u001f\u007f-\u009f*#:]+$"},
    ),
    "provider": ("The id of the auth provider.", _NAME),
    "route": ("The name of the route.", _NAME),
    "rule": ("The name of the routing rule.", _NAME),
    "adapter": ("The adapter's name.", _NAME),
    "callback": ("The callback's name.", _NAME),
    "info": ("The name of the message info.", _NAME),
    "key": ("The name of the key.", _NAME),
    "peer": ("The peer's id, percent-encoded.", _PEER),
    "collective": ("The collective's name, percent-encoded.", _PEER),
    "method": ("The method's name, percent-encoded.", _NAME),
    "stream": ("The stream's name, percent-encoded.", {**_NAME, "maxLength": 248}),
    "session": ("The session's id.", {"type": "string", "minLength": 1}),
    "user": (
        "The user's id.",
        {**_NAME, "maxLength": MAX_USER_ID_CHARS, "pattern": r"^[!-~]+$"},
    ),
    "platform": (
        "The push service.",
        {"type": "string", "enum": ["webpush", "fcm", "apns"]},
    ),
    "keyID": ("The id of a key for browsers.", {"type": "string", "pattern": "^[0-9a-f]{16}$"}),
    "table": ("A table of the pipeline.", {"type": "string", "pattern": "^[a-z_]{1,64}$"}),
    "token": ("The push token.", {"type": "string", "minLength": 1, "pattern": "^[!-~]+$"}),
}
_NEEDED = {"RoutingRule": ("type", "subtype", "receiver", "sender")}
"""Fields of which at least one is required, by schema."""
_DESCRIPTION = """Publish, history and presence of channels, topics, and the administration of hubs.

A token goes into the header `Authorization: Bearer …`. Its level decides what it can do: `client`
handles its own affairs, `service` everything of its own hub except quotas, deleting the hub and
tokens of its own level, `admin` everything. Failures have one form (`Error`), with a stable `code`.
Lists come in pages: send `next` of one page as `cursor` to get the following one. What can be
changed has a version, its ETag: with `If-Match` a change is only made to that version (else 412),
with `If-None-Match: *` only if there is nothing yet."""


def describe(routes: Sequence[AnyRoute], kinds: AdapterKinds) -> bytes:
    """The document for a server with these kinds of adapters, as JSON."""
    types = list(dict.fromkeys(_types_of(routes)))
    refs, components = msgspec.json.schema_components(types, ref_template=_REF)
    schemas = dict(zip(map(str, types), refs, strict=True))
    tidied, names = _tidied(components)
    tidied[NEW_ADAPTER] = new_adapter(kinds)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Hubbub",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": tidied,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "From `hubbub token`, an auth provider, a login, or a trusted "
                    "issuer of the hub.",
                }
            },
        },
    }
    return _rename(msgspec.json.encode(document), names)


def _tidied(schemas: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The schemas under plain names, with descriptions on one line, and the new names by the old
    ones: `Page_hubbub.….Named_hubbub.….Rules__` becomes `NamedRulesPage`."""
    names = {old: _plain_name(old) for old in schemas}
    assert len(set(names.values())) == len(names)
    tidied: dict[str, Any] = {}
    for old, schema in schemas.items():
        text = " ".join(str(schema.get("description", "")).split())
        tidied[names[old]] = {**schema, "title": names[old], "description": text}
    for name, fields in _NEEDED.items():
        tidied[name]["anyOf"] = [
            {"required": [field], "properties": {field: {"minLength": 1}}} for field in fields
        ]
    return tidied, names


def _plain_name(name: str) -> str:
    name = re.sub(r"(?<=_)([a-z_]+\.)+", "", name)
    name = re.sub(r"Named_(\w+?)_(?=_|$)", r"Named\1", name)
    return re.sub(r"^Page_(\w+?)_$", r"\1Page", name)


def _rename(document: bytes, names: dict[str, str]) -> bytes:
    text = document.decode()
    for old, new in names.items():
        text = text.replace(f'"{_REF.format(name=old)}"', f'"{_REF.format(name=new)}"')
    return text.encode()


def _types_of(routes: Iterable[AnyRoute]) -> Iterable[Any]:
    yield Error
    for route in routes:
        if route.body is not None:
            yield route.body
        yield from route.other_bodies.values()
        yield from (kind for kind in route.answers.values() if kind is not None)


def _operation(route: AnyRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "tags": [route.tag],
        "summary": route.summary,
        "x-access": route.access.value,
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route),
            *_header_parameters(route),
            *_conditions(route),
        ],
        "responses": _responses(route, schemas),
        "security": _security(route.access),
    }
    if route.body is not None:
        bodies = {route.content_type: route.body, **route.other_bodies}
        asked = {**schemas, str(AdapterSettings): {"$ref": _REF.format(name=NEW_ADAPTER)}}
        operation["requestBody"] = {
            "required": route.content_type != "*/*",  # a payload may be empty
            "content": {kind: {"schema": asked[str(body)]} for kind, body in bodies.items()},
        }
    return operation


def _security(access: Access) -> list[dict[str, list[str]]]:
    if access is Access.ANYONE:
        return []
    return [{"token": []}, {}] if access is Access.HUB else [{"token": []}]


def _path_parameters(route: AnyRoute) -> Iterable[dict[str, Any]]:
    for name in route.parameters:
        own = route.path_parameters.get(name)
        description, schema = (own, _NAME) if own is not None else _PATH_PARAMETERS[name]
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": description,
            "schema": schema,
        }


def _query_parameters(route: AnyRoute) -> Iterable[dict[str, Any]]:
    (_,), components = msgspec.json.schema_components([route.query], ref_template=_REF)
    schema = components[route.query.__name__]
    for name, described in schema["properties"].items():
        plain = _without_null(described)
        yield {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": plain.pop("description", ""),
            "schema": plain,
        }


def _header_parameters(route: AnyRoute) -> Iterable[dict[str, Any]]:
    for name, kind in route.headers.items():
        schema = msgspec.json.schema(kind)
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "description": schema.pop("description", ""),
            "schema": schema,
        }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An optional parameter is omitted; it cannot be null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return dict(kinds[0]) if len(kinds) == 1 else dict(schema)


def _conditions(route: AnyRoute) -> Iterable[dict[str, Any]]:
    if not route.versioned:
        return
    schema = {"type": "string"}
    if route.method != "GET":
        yield {
            "name": "If-Match",
            "in": "header",
            "description": "Only if it is at this version, or with * if it exists.",
            "schema": {**schema, "pattern": rf"^(\*|{route.tag_pattern})$"},
        }
    if route.method in ("PUT", "PATCH"):
        yield {
            "name": "If-None-Match",
            "in": "header",
            "description": "Only if it does not exist.",
            "schema": {**schema, "enum": ["*"]},
        }
    elif route.method == "GET":
        yield {
            "name": "If-None-Match",
            "in": "header",
            "description": "An ETag; answered with 304 if it is still the one.",
            "schema": schema,
        }


def _responses(route: AnyRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in route.answers.items():
        responses[str(status)] = answer = _answer(route, status)
        if kind is not None:
            answer["content"] = {route.answer_type: {"schema": schemas[str(kind)]}}
    if route.versioned and route.method == "GET":
        responses["304"] = {"description": "It is still at the version that If-None-Match names."}
    with_token = () if route.access is Access.ANYONE else _WITH_TOKEN
    errors: dict[int, list[str]] = {}
    for error in dict.fromkeys((*_ALWAYS, *with_token, *route.errors)):
        _collect(errors, error)
    failure = {"application/json": {"schema": schemas[str(Error)]}}
    for status, codes in sorted(errors.items()):
        if str(status) not in responses:
            text = f"Failed: {', '.join(codes)}."
            responses[str(status)] = {"description": text, "content": failure}
    responses["default"] = {"description": "Failed in another way.", "content": failure}
    return responses


def _collect(errors: dict[int, list[str]], error: type[HubbubError]) -> None:
    errors.setdefault(error.http_status, []).append(error.code)


def _answer(route: AnyRoute, status: int) -> dict[str, Any]:
    texts = {200: "Done.", 201: "Created.", 204: "Done; there is nothing more to say."}
    answer: dict[str, Any] = {"description": texts.get(status, "As the body says.")}
    if route.versioned and status in (200, 201):
        answer["headers"] = {
            "ETag": {
                "description": "The version, if it has one.",
                "schema": {"type": "string"},
                "required": False,
            }
        }
    return answer

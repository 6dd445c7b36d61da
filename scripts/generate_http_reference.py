"""Write docs/http-api.md from the hub's own OpenAPI document, so that it cannot lie.

Run: python scripts/generate_http_reference.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import hubbub.connectors.adapters.included  # noqa: F401  declares them
from hubbub.gateways.admin.table import openapi_document
from hubbub.ports.adapters import declared

TARGET = Path(__file__).parents[1] / "docs" / "http-api.md"

INTRODUCTION = """# HTTP API

<!-- Written by scripts/generate_http_reference.py from the OpenAPI document; change the sentences
     there or in src/hubbub/gateways/admin/. -->

All paths that a hub answers. The same as an OpenAPI 3.1 document, for generators of clients, is at
`/openapi.json` of every hub.

A token goes into the header `Authorization: Bearer …`. How to get one:
[Authenticate my users](how-to/authenticate-my-users.md),
[Administer over HTTP](how-to/administer-over-http.md).

| access | who may call |
|---|---|
| anyone | everyone who can reach the port |
| hub | whom the hub's rules and the token's grants allow, as on the socket |
| client | every token of the hub |
| service | tokens of the hub with the level `service`, and administrators |
| admin | administrators; where the path names no hub, only those of all hubs |

- **Bodies** are JSON, unless a path says otherwise. What is left out has its default.
  The admin API refuses unknown fields.
- **Lists** come in pages: send `next` of one page as `cursor` to get the following one.
- **Versions**: what can be changed has a version, its `ETag`. With `If-Match` a change is only
  made to that version, with `If-None-Match: *` only if there is nothing yet. Else it is 412.
- **Failures** have one form, [Error](#error). [Error codes](errors.md) explains the codes.
"""
_BY_LEVEL = ("`not_authenticated`", "`not_permitted`")


def main() -> None:
    TARGET.write_text(render())


def render() -> str:
    document = json.loads(openapi_document(declared()))
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    common = _common_errors(operation for _, _, operation in operations)
    parts = [INTRODUCTION + f"- **Every request** can also fail with {', '.join(common)}.\n"]
    for tag in document["tags"]:
        chosen = [each for each in operations if tag["name"] in each[2]["tags"]]
        parts += [f"## {tag['name']}\n", _overview(chosen)]
        parts += [_operation(*each, common) for each in chosen]
    parts += ["## Bodies\n", "What is sent and answered, by name.\n"]
    parts += [_shape(name, each) for name, each in document["components"]["schemas"].items()]
    return "\n".join(parts)


def _overview(operations: Iterable[tuple[str, str, dict[str, Any]]]) -> str:
    rows = (
        (f"[`{method} {path}`](#{_anchor(f'{method} {path}')})", each["summary"], each["x-access"])
        for method, path, each in operations
    )
    return _table(("request", "does", "access"), rows)


def _operation(method: str, path: str, operation: dict[str, Any], common: list[str]) -> str:
    parts = [
        f"### `{method} {path}`\n",
        f"{operation['summary']}. Access: **{operation['x-access']}**.\n",
    ]
    if operation["parameters"]:
        parts.append(_table(("parameter", "in", "what", "form"), _parameters(operation)))
    if "requestBody" in operation:
        parts.append(f"Body: {_content(operation['requestBody']['content'])}.\n")
    parts.append(_table(("status", "answer"), _answers(operation["responses"], common)))
    return "\n".join(parts)


def _parameters(operation: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for each in operation["parameters"]:
        needed = each.get("required", False)
        form = _form(each["schema"], needed)
        yield f"`{each['name']}`", each["in"], each.get("description", ""), form


def _answers(responses: dict[str, Any], common: list[str]) -> Iterator[tuple[str, ...]]:
    for status, response in responses.items():
        failed = _failures(response)
        if failed:
            failed = [code for code in failed if code not in common]
            if failed:
                yield status, ", ".join(failed)
        elif status != "default":
            content = response.get("content")
            body = f" {_content(content)}." if content else ""
            tag = " With `ETag`." if "ETag" in response.get("headers", {}) else ""
            yield status, f"{response['description']}{body}{tag}"


def _failures(response: dict[str, Any]) -> list[str]:
    """The codes of an answer that is a failure."""
    found = re.fullmatch(r"Failed: (.+)\.", response["description"])
    return [f"`{code}`" for code in found[1].split(", ")] if found else []


def _common_errors(operations: Iterable[dict[str, Any]]) -> list[str]:
    """The codes that every operation lists, apart from those of the server's own pages."""
    each = [
        [code for response in operation["responses"].values() for code in _failures(response)]
        for operation in operations
        if "Server" not in operation["tags"]
    ]
    return [
        code for code in each[0] if all(code in codes for codes in each) and code not in _BY_LEVEL
    ]


def _content(content: dict[str, Any]) -> str:
    return "; or ".join(_medium(kind, media) for kind, media in content.items())


def _medium(kind: str, media: dict[str, Any]) -> str:
    if kind == "*/*":
        return "the payload: JSON, text or bytes, by its `Content-Type`"
    form = _kind(media["schema"])
    return form if kind == "application/json" else f"{form}, as `{kind}`"


def _shape(name: str, schema: dict[str, Any]) -> str:
    parts = [f"### {name}\n"]
    if schema.get("description"):
        parts.append(f"{schema['description']}\n")
    needed = schema.get("required", ())
    rows = (
        (f"`{field}`", _form(each, field in needed), each.get("description", ""))
        for field, each in schema.get("properties", {}).items()
    )
    if "properties" in schema:
        parts.append(_table(("field", "form", "what"), rows))
    return "\n".join(parts)


def _form(schema: dict[str, Any], required: bool) -> str:
    """What a value may be, in words."""
    words = [_kind(schema), *_bounds(schema)]
    default = schema.get("default")
    if required:
        words.append("required")
    elif default not in (None, "", [], {}) and "$ref" not in schema:
        words.append(f"else `{json.dumps(default)}`")
    return ", ".join(words)


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{_anchor(name)})"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object with values of {_kind(schema['additionalProperties'])}"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    kind = str(schema.get("type", "any JSON"))
    return words.get(kind, kind)


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    for each in [schema, *schema.get("anyOf", ())]:
        if "minimum" in each:
            yield f"{each['minimum']} to {each['maximum']}"
        if "maxLength" in each:
            yield f"at most {each['maxLength']} characters"
        if "maxItems" in each:
            yield f"at most {each['maxItems']}"


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    main()

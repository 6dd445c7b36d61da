"""Write the operations of the admin API down for the command line, from the hub's own OpenAPI
document.

Run: python scripts/generate_operations.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hubbub
import hubbub.connectors.adapters.included
from hubbub.gateways.admin.table import openapi_document
from hubbub.ports.adapters import declared

TARGET = Path(hubbub.__file__).parent / "cli" / "administration" / "operations.json"
_KINDS = {"boolean": "flag", "integer": "whole", "number": "number", "string": "text"}
_PAGING = {"limit", "cursor"}


def main() -> None:
    TARGET.write_text(render())


def render() -> str:
    document = json.loads(openapi_document(declared()))
    schemas = document["components"]["schemas"]
    operations = [
        _operation(method.upper(), path, operation, schemas)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["x-access"] != "hub"
        and (path.startswith("/v1/admin/") or operation["tags"] != ["Server"])
    ]
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in operations)
    return f"[\n{lines}\n]\n"


def _operation(
    method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    query = [
        _field(each["name"], {**each["schema"], "description": each["description"]}, schemas)
        for each in operation["parameters"]
        if each["in"] == "query"
    ]
    columns = _columns(operation["responses"], schemas)
    paged = columns is not None and {each["name"] for each in query} >= _PAGING
    if paged:
        query = [each for each in query if each["name"] not in _PAGING]
    found = {
        "id": operation["operationId"],
        "method": method,
        "path": path,
        "tag": operation["tags"][0],
        "summary": operation["summary"],
        "query": query,
        **_body(operation, schemas),
        "answers": _answers(operation["responses"]),
        "columns": columns,
        "paged": paged,
    }
    return {name: value for name, value in found.items() if value not in (None, [], False)}


def _body(operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    if "requestBody" not in operation:
        return {}
    (described, *_) = operation["requestBody"]["content"].values()
    schema = _resolved(described["schema"], schemas)
    properties = schema.get("properties", {})
    return {
        "takesBody": True,
        "body": [_field(name, each, schemas) for name, each in properties.items()],
    }


def _answers(responses: dict[str, Any]) -> bool:
    return any("content" in each for status, each in responses.items() if status.startswith("2"))


def _columns(responses: dict[str, Any], schemas: dict[str, Any]) -> list[str] | None:
    """The fields of an entry, if the answer is a list of entries."""
    described = responses.get("200", {}).get("content", {}).get("application/json")
    page = _resolved(described["schema"], schemas).get("properties", {}) if described else {}
    if "items" not in page:
        return None
    return list(_resolved(page["items"]["items"], schemas).get("properties", {}))


def _field(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    about = " ".join(schema.get("description", "").split())
    schema = _resolved(schema, schemas)
    many = schema.get("type") == "array"
    one = _resolved(schema.get("items", {}), schemas) if many else schema
    choices = one.get("enum")
    kind = "text" if choices else _KINDS.get(str(one.get("type")), "json")
    if many:
        kind = "texts" if kind == "text" else "json"
    field = {"name": name, "kind": kind, "choices": choices, "about": about}
    return {name: value for name, value in field.items() if value}


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Without references, and without what allows null."""
    while True:
        kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rpartition("/")[2]]
        elif len(kinds) == 1:
            schema = kinds[0]
        else:
            return schema


if __name__ == "__main__":
    main()

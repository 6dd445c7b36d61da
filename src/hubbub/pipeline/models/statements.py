"""What a SQL text reads, by DuckDB's parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hubbub.pipeline.errors import QueryRefused


class ReadNames(msgspec.Struct, frozen=True):
    """What a SELECT reads, in lower case."""

    names: set[str]
    """Names after FROM and JOIN: tables, and its own parts (WITH)."""
    parts: set[str]
    beyond: set[str]
    """What a model may not read: functions in the place of tables, names with a schema, and the
    catalogue of all tables (SHOW, DESCRIBE)."""


def reads_of(connection: Any, sql: str) -> ReadNames:
    """Raises `QueryRefused` unless the text is one SELECT."""
    [(text,)] = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = msgspec.json.decode(text)
    if parsed["error"]:
        raise QueryRefused(f"{parsed['error_message']}; give one SELECT")
    if len(parsed["statements"]) != 1:
        raise QueryRefused(f"there are {len(parsed['statements'])} statements; give one SELECT")
    nodes = list(_nodes(parsed["statements"]))
    tables = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    qualified = {f"{node['schema_name'] or node['catalog_name']}.{node['table_name']}"
                 for node in tables if node["schema_name"] or node["catalog_name"]}  # fmt: skip
    functions = {
        str(node["function"]["function_name"])
        for node in nodes
        if node.get("type") == "TABLE_FUNCTION"
    }
    shown = {"show" for node in nodes if node.get("type") == "SHOW_REF"}
    parts = {each["key"].lower() for node in nodes for each in _entries(node.get("cte_map"))}
    names = {node["table_name"].lower() for node in tables}
    return ReadNames(names, parts, qualified | functions | shown)


def _entries(ctes: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ctes["map"] if isinstance(ctes, dict) else []
    return found


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _nodes(each)


def reason(error: Exception) -> str:
    """DuckDB's message without the excerpt of the query."""
    return " ".join(str(error).split("\n\n")[0].split())

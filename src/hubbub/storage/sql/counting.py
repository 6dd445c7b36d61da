"""Triggers that maintain the size of a hub's rows, in the transactions that change them, so that
every write is counted, even one of an earlier version. When rows move to another hub, its counter
moves along (see `storage.sql.restoring`)."""

from __future__ import annotations

import re

_NAME = re.compile(r"(?<!')\b[a-z_]+\b(?!\()")
"""A column in an expression, in which everything except functions and quoted words is in
capitals."""


def sqlite_triggers(table: str, size: str, changing: bool) -> tuple[str, ...]:
    """`size` is an expression of the columns of `table`."""
    old, new = _NAME.sub(r"OLD.\g<0>", size), _NAME.sub(r"NEW.\g<0>", size)
    add = "UPDATE hub_usage SET other_bytes = other_bytes"
    triggers = [
        f"CREATE TRIGGER count_added_{table} AFTER INSERT ON {table} BEGIN"  # noqa: S608 - names
        " INSERT INTO hub_usage (hub, stored_bytes, other_bytes)"
        f" VALUES (NEW.hub, 0, {new}) ON CONFLICT (hub)"
        " DO UPDATE SET other_bytes = other_bytes + excluded.other_bytes; END",
        f"CREATE TRIGGER count_deleted_{table} AFTER DELETE ON {table} BEGIN"
        f" {add} - ({old}) WHERE hub = OLD.hub; END",
    ]
    if changing:
        triggers.append(
            f"CREATE TRIGGER count_changed_{table} AFTER UPDATE ON {table}"
            f" WHEN NEW.hub = OLD.hub AND ({new}) <> ({old})"
            f" BEGIN {add} + ({new}) - ({old}) WHERE hub = NEW.hub; END"
        )
    return tuple(triggers)


def postgres_triggers(table: str, size: str, changing: bool) -> tuple[str, ...]:
    """One trigger execution per statement: updating the counter for each row would leave as many
    dead row versions."""
    added = f"SELECT hub, sum({size}) AS size FROM added GROUP BY hub ORDER BY hub"  # noqa: S608
    gone = f"SELECT hub, sum({size}) AS size FROM gone GROUP BY hub"  # noqa: S608
    bodies = {
        "INSERT": (
            "REFERENCING NEW TABLE AS added",
            "INSERT INTO hub_usage (hub, stored_bytes, other_bytes)"  # noqa: S608
            f" SELECT hub, 0, size FROM ({added}) AS sums ON CONFLICT (hub) DO UPDATE"
            " SET other_bytes = hub_usage.other_bytes + excluded.other_bytes",
        ),
        "DELETE": (
            "REFERENCING OLD TABLE AS gone",
            "UPDATE hub_usage SET other_bytes = other_bytes - size"  # noqa: S608
            f" FROM ({gone}) AS sums WHERE hub_usage.hub = sums.hub",
        ),
    }
    if changing:
        bodies["UPDATE"] = (
            "REFERENCING OLD TABLE AS gone NEW TABLE AS added",
            "UPDATE hub_usage SET other_bytes = other_bytes + news.size - olds.size"  # noqa: S608
            f" FROM ({added}) AS news JOIN ({gone}) AS olds USING (hub)"
            " WHERE hub_usage.hub = news.hub AND news.size <> olds.size",
        )
    statements: list[str] = []
    for event, (referencing, body) in bodies.items():
        name = f"count_{event.lower()}_{table}"
        statements += (
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {body}; RETURN NULL; END $$",
            f"CREATE TRIGGER {name} AFTER {event} ON {table} {referencing}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()",
        )
    return tuple(statements)

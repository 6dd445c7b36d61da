"""The rooms that plug in: a name in `ROOMS` is all that connects such a feature with the rest.

A room is a package of its name in each layer in which it takes part. A layer loads one module of
each room, and names no room:

| module | declares |
|---|---|
| `hubbub.domain.<room>.journal` | `KINDS`: the room's kinds of events in the journal |
| `hubbub.protocols.<room>.events` | `REQUESTS` and `NOTICES`: the room's events on a socket |
| `hubbub.engine.<room>.settings` | `CATEGORY` and `SETTINGS`: its category of the configuration |
| `hubbub.engine.<room>.plug` | `FEEDS`; `at_node` and `at_owner`, which construct its objects |
| `hubbub.gateways.<room>.hub_routes` | `ROUTES`: the room's paths of a hub over HTTP |
| `hubbub.gateways.<room>.admin_routes` | `ROUTES`: the room's paths of the admin API |
| `hubbub.gateways.<room>.root_paths` | `resolve`, which finds the hub of paths that name none |
| `hubbub.cli.<room>.commands` | the command `hubbub <room>`, under the room's name |
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

ROOMS = ("notifications", "documents", "mercure", "mqtt", "search", "metering")


def places(layer: str, name: str) -> Iterator[tuple[str, str]]:
    """Each room that has a module of this name in the layer, with the module's full name, in the
    order of `ROOMS`. Imports none of the modules."""
    for room in ROOMS:
        package = f"hubbub.{layer}.{room}"
        found = find_spec(package)
        if found is None or found.submodule_search_locations is None:
            continue
        if find_spec(f"{package}.{name}") is not None:
            yield room, f"{package}.{name}"


def modules(layer: str, name: str) -> Iterator[ModuleType]:
    """The modules of this name of all rooms that have one in the layer, in the order of `ROOMS`."""
    for _, place in places(layer, name):
        yield import_module(place)

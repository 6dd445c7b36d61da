"""The rooms that plug in: a name in `ROOMS` is all that connects such a feature with the rest.

A room is a package of its name in each layer in which it takes part. A layer loads one module of
each room, and names no room:

| module | declares |
|---|---|
| `hubbub.protocols.<room>.events` | `REQUESTS` and `NOTICES`: the room's events on a socket |
| `hubbub.engine.<room>.plug` | `FEEDS`; `at_node` and `at_owner`, which construct its objects |
| `hubbub.gateways.<room>.hub_routes` | `ROUTES`: the room's paths of a hub over HTTP |
| `hubbub.gateways.<room>.admin_routes` | `ROUTES`: the room's paths of the admin API |
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

ROOMS = ("notifications", "documents")


def modules(layer: str, name: str) -> Iterator[ModuleType]:
    """The modules of this name of all rooms that have one in the layer, in the order of `ROOMS`."""
    for room in ROOMS:
        package = f"hubbub.{layer}.{room}"
        if find_spec(package) is not None and find_spec(f"{package}.{name}") is not None:
            yield import_module(f"{package}.{name}")

"""The category `mercure` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

CATEGORY = "mercure"


class MercureSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Clients and publishers of [Mercure](mercure.md), at `/v1/hubs/{hub}/mercure`."""

    enabled: bool = False
    """Serve them."""
    hosts: Mapping[str, str] = {}
    """The hub of `/.well-known/mercure`, by the host of the request: `{"news.example.org":
    "news"}`."""
    default_hub: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """The hub of `/.well-known/mercure` for all other hosts."""
    max_selector_sets: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Different sets of topic selectors of a hub's streams on a node; each update is compared with
    all of them. A user may have a quarter of that."""


SETTINGS = MercureSettings

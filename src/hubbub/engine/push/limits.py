"""Limits and service addresses of push, with their keys in the configuration."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_KEYS = {"timeout_seconds": "timeout", "per_token": "per_token_per_minute"}


class PushSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_KEYS):
    """Pushes to browsers and phones through their push services. The keys and accounts of hubs are
    set through the admin API."""

    contact: str | None = None
    """How push services can reach the operator, for hubs without `pushContact`: `mailto:` or
    `https:`."""
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=120)] = 10.0
    """Timeout of one request to a push service."""
    queue: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Maximum number of messages, and of deliveries to devices, that a hub may queue on a node;
    others are dropped and counted."""
    in_flight: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Maximum number of a hub's concurrent requests to one push service."""
    tries: Annotated[int, Meta(ge=1, le=100)] = 5
    """Attempts per delivery, within the time to live of the push."""
    per_token: Annotated[int, Meta(ge=0, le=1_000_000)] = 30
    """Pushes to one device per minute; more are dropped. 0 means no limit."""
    fcm_url: str = "https://fcm.googleapis.com"
    """The address of FCM."""
    fcm_token_url: str = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
    """Where service accounts of FCM obtain access tokens."""
    apns_url: str = "https://api.push.apple.com"
    """The address of APNs."""
    apns_sandbox_url: str = "https://api.sandbox.push.apple.com"
    """The address of APNs for devices with the environment `sandbox`."""

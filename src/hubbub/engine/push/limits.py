"""The numbers and addresses of push, with their keys in the configuration."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_KEYS = {"timeout_seconds": "timeout", "per_token": "per_token_per_minute"}


class PushSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_KEYS):
    """Messages that go to browsers and phones through their push services. The keys and accounts
    of hubs are given through the admin API."""

    contact: str | None = None
    """How push services reach the operator where a hub has no `pushContact`: `mailto:` or
    `https:`."""
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=120)] = 10.0
    """Time for one request to a push service."""
    queue: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Messages, and deliveries to devices, of a hub that may wait on a node; more are dropped and
    counted."""
    in_flight: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Requests of a hub under way to one push service at most."""
    tries: Annotated[int, Meta(ge=1, le=100)] = 5
    """How often a delivery is tried, within the time to live of the push."""
    per_token: Annotated[int, Meta(ge=0, le=1_000_000)] = 30
    """Pushes to one device each minute; more are dropped. 0 means no limit."""
    fcm_url: str = "https://fcm.googleapis.com"
    """Where FCM is."""
    fcm_token_url: str = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
    """Where the service accounts of FCM get their access tokens."""
    apns_url: str = "https://api.push.apple.com"
    """Where APNs is."""
    apns_sandbox_url: str = "https://api.sandbox.push.apple.com"
    """Where APNs is for devices with the environment `sandbox`."""

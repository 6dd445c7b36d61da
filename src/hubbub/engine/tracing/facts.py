"""Attributes common to all spans, with the names of OpenTelemetry's messaging conventions."""

from __future__ import annotations

HUB = "hubbub.hub"
"""The tenant."""
MESSAGE_ID = "messaging.message.id"
SERIAL = "hubbub.serial"


def place(operation: str, hub: str, channel: str) -> dict[str, str | int]:
    return {
        "messaging.system": "hubbub",
        "messaging.operation.name": operation,
        "messaging.destination.name": channel,
        HUB: hub,
    }

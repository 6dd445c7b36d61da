"""What every span says: the names are those of OpenTelemetry's conventions for messaging."""

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

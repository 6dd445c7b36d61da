"""Pushes to a user's browsers and phones, through the hub's push service."""

from __future__ import annotations

from math import ceil

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.errors import HubbubError
from hubbub.domain.push.options import DEFAULT_TTL_SECONDS, MAX_TTL_SECONDS, PushOptions, Urgency
from hubbub.domain.rules import Setting
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    Delivery,
    TemporaryFailure,
    adapter,
)
from hubbub.protocols.adapters.text_only import NotText, text_for


class WebPushSettings(Setting, frozen=True):
    """The first parameter of the peer's address is the user id; default: the peer's id."""

    urgency: Urgency = "normal"


@adapter(name="push", settings=WebPushSettings)
class WebPushOut:
    """A push succeeds once one device accepted it. The delivery's key is the collapse key, so that
    a repeat replaces the first push on the device."""

    def __init__(self, settings: WebPushSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context

    async def push(self, delivery: Delivery) -> None:
        user = next(iter(delivery.address.parameters), "") or delivery.peer
        try:
            options = push_options(delivery.message, delivery.key, self._settings.urgency)
            devices = await self._context.devices.push(user, options, delivery.message.id)
        except NotText as error:
            raise AdapterFailed(str(error)) from None
        except HubbubError as error:
            kind = TemporaryFailure if error.retry else AdapterFailed
            raise kind(error.message) from None
        if not devices:
            raise AdapterFailed(f"user {user!r} has registered no device for pushes")
        if any(device.outcome == "ok" for device in devices):
            return
        reasons = ", ".join(sorted({f"{each.outcome} ({each.reason})" for each in devices}))
        later = [each.retry_after_seconds for each in devices if each.outcome == "retry"]
        if later:
            raise TemporaryFailure(f"no device of {user!r} was reached: {reasons}", min(later))
        raise AdapterFailed(f"no device of {user!r} takes pushes: {reasons}")

    async def close(self) -> None:
        pass


def push_options(message: PeerMessage, key: str, urgency: Urgency) -> PushOptions:
    """Raises `NotText`."""
    title = message.headers.get("subject") or message.conversation_id
    about = {
        "id": message.id,
        "type": message.type,
        "subtype": message.subtype,
        "sender": message.sender,
        "conversationId": message.conversation_id,
        "refersTo": message.refers_to,
    }
    ttl = ceil(message.ttl_ms / 1000) if message.ttl_ms else DEFAULT_TTL_SECONDS
    return PushOptions(
        title=(title or f"{message.type}/{message.subtype}")[:200],
        body=text_for("a push", message)[:3000],
        data={name: value for name, value in about.items() if value},
        collapse_key=key,
        ttl=min(ttl, MAX_TTL_SECONDS),
        urgency=urgency,
        url=message.headers.get("link"),
    )

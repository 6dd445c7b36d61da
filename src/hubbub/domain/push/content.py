"""The content of a push in each platform's format and size limit.

Content that does not fit is dropped, never rejected: first the message's payload, then the end of
the body, then the publisher's other fields. Hub, channel, event, message id and serial always fit.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, Final

import msgspec

from hubbub.domain.messages import Message, is_json, is_text
from hubbub.domain.push.options import NO_OPTIONS, PushOptions
from hubbub.domain.push.tokens import Platform

WEB_PUSH_BYTES: Final = 3993
"""One record of aes128gcm in the 4,096 bytes that every service accepts (RFC 8291 4)."""
FCM_BYTES: Final = 4096
APNS_BYTES: Final = 4096
MAX_PAYLOAD_BYTES: Final = 4096
"""A longer payload fits on no platform."""
_CUT = "…"

Rendered = bytes
_Render = Callable[["PushNote"], bytes]


class PushNote(msgspec.Struct, frozen=True, gc=False):
    """The content of a push, from a message or a service; all that is kept while it is queued."""

    hub: str
    channel: str
    event: str
    message_id: str
    serial: int
    published_at: int
    """Milliseconds since 1970."""
    options: PushOptions = NO_OPTIONS
    publisher: str | None = None
    payload: msgspec.Raw | None = None
    """In the form of the socket's protocol: `{"json": …}`, `{"text": …}` or `{"base64": …}`."""

    @property
    def expires_at(self) -> int:
        """Milliseconds since 1970."""
        return self.published_at + self.options.ttl * 1000

    def seconds_left(self, now: int) -> int:
        """Seconds until the push expires, rounded up: 0 would mean now or never. `now` is in
        milliseconds since 1970."""
        return max(0, ceil((self.expires_at - now) / 1000))

    @property
    def size(self) -> int:
        """Approximate memory size in bytes."""
        options = self.options
        texts = (options.title, options.body, options.icon, options.url)
        return 500 + sum(len(each or "") for each in texts) + len(bytes(self.payload or b""))


def note_of(message: Message, options: PushOptions) -> PushNote:
    payload = None
    if options.include_payload and len(message.payload) <= MAX_PAYLOAD_BYTES:
        payload = _payload(message)
    return PushNote(
        message.hub,
        message.channel,
        message.event,
        message.id,
        message.serial,
        message.published_at,
        options,
        message.publisher,
        payload,
    )


def _payload(message: Message) -> msgspec.Raw:
    if is_json(message.content_type):
        return msgspec.Raw(b'{"json":%b}' % message.payload)
    if is_text(message.content_type):
        text = message.payload.decode(errors="replace")
        return msgspec.Raw(msgspec.json.encode({"text": text}))
    encoded = base64.b64encode(message.payload).decode()
    return msgspec.Raw(msgspec.json.encode({"base64": encoded}))


def render(platform: Platform, note: PushNote) -> Rendered:
    """The body for the platform: the plaintext of Web Push, FCM's `message` without the token, or
    the APNs payload."""
    draw, limit = _PLATFORMS[platform]
    for smaller in _smaller(note):
        body = draw(smaller)
        if len(body) <= limit:
            return body
        if smaller.options.body and not smaller.payload:
            body = _with_part_of_body(draw, smaller, limit)
            if len(body) <= limit:
                return body
    return draw(_with(note, NO_OPTIONS))


def _smaller(note: PushNote) -> Iterator[PushNote]:
    """Yields the note with less and less content."""
    yield note
    note = msgspec.structs.replace(note, payload=None)
    yield note
    options = note.options
    for left_out in ("data", "icon", "url"):
        options = msgspec.structs.replace(options, **{left_out: None})
        yield _with(note, options)
    if options.title is not None:
        short = options.title[:100] + _CUT if len(options.title) > 100 else options.title
        yield _with(note, msgspec.structs.replace(options, title=short))


def _with(note: PushNote, options: PushOptions) -> PushNote:
    return msgspec.structs.replace(note, options=options, payload=None)


def _with_part_of_body(draw: _Render, note: PushNote, limit: int) -> bytes:
    """Renders with as much of the text as fits, at least one character."""
    text = note.options.body or ""

    def cut(chars: int) -> bytes:
        body = text[:chars] + _CUT
        return draw(_with(note, msgspec.structs.replace(note.options, body=body)))

    fits, over = 1, len(text)
    while over - fits > 1:
        middle = (fits + over) // 2
        if len(cut(middle)) <= limit:
            fits = middle
        else:
            over = middle
    return cut(fits)


def _about(note: PushNote) -> dict[str, Any]:
    return {
        "hub": note.hub,
        "channel": note.channel,
        "event": note.event,
        "msgID": note.message_id,
        "serial": note.serial,
    }


def _given(note: PushNote, *names: str) -> dict[str, Any]:
    found = {name: getattr(note.options, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _web_push(note: PushNote) -> bytes:
    said = {**_about(note), **_given(note, "title", "body", "icon", "url", "data")}
    return msgspec.json.encode(said | ({} if note.payload is None else {"payload": note.payload}))


def _fcm(note: PushNote) -> bytes:
    """Values of `data` must be strings."""
    about = _about(note)
    data = {name: str(value) for name, value in about.items()}
    data |= _given(note, "icon", "url")
    if note.options.data is not None:
        data["data"] = msgspec.json.encode(note.options.data).decode()
    if note.payload is not None:
        data["payload"] = bytes(note.payload).decode()
    shown = _given(note, "title", "body")
    return msgspec.json.encode(({"notification": shown} if shown else {}) | {"data": data})


def _apns(note: PushNote) -> bytes:
    shown = _given(note, "title", "body")
    aps: dict[str, Any] = (
        {"alert": shown, "sound": "default"} if shown else {"content-available": 1}
    )
    said = {"aps": aps, **_about(note), **_given(note, "icon", "url", "data")}
    return msgspec.json.encode(said | ({} if note.payload is None else {"payload": note.payload}))


_PLATFORMS: Final[dict[Platform, tuple[_Render, int]]] = {
    "webpush": (_web_push, WEB_PUSH_BYTES),
    "fcm": (_fcm, FCM_BYTES),
    "apns": (_apns, APNS_BYTES),
}

"""A publisher's options for a push: text, time to live, urgency, and excluded users."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.fields import wire_name

Urgency = Literal["very-low", "low", "normal", "high"]
DEFAULT_TTL_SECONDS: Final = 86_400
MAX_TTL_SECONDS: Final = 28 * 86_400
MAX_OPTIONS_BYTES: Final = 16 * 1024
_MAX_DEPTH = 16


class PushOptions(
    msgspec.Struct, frozen=True, omit_defaults=True, rename=wire_name, forbid_unknown_fields=True
):
    """`extra.pushOptions` of a publish. Without `title` and `body` the push is silent data."""

    title: str | None = None
    body: str | None = None
    icon: str | None = None
    url: str | None = None
    data: dict[str, Any] | None = None
    """Application data for the service worker or app."""
    collapse_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    """Of several pushes with the same key, an offline device receives only the last."""
    ttl: Annotated[int, Meta(ge=0, le=MAX_TTL_SECONDS)] = DEFAULT_TTL_SECONDS
    """Seconds after which the push expires."""
    urgency: Urgency = "normal"
    only_absent: bool = False
    """Excludes users with a session that is subscribed to the channel."""
    skip_publisher: bool = False
    """Excludes the user who published the message."""
    include_payload: bool = False
    """FCM and Apple can read the payload."""

    @property
    def is_silent(self) -> bool:
        return self.title is None and self.body is None


NO_OPTIONS: Final = PushOptions()


def read_options(given: Any) -> PushOptions:
    """Reads options from decoded JSON. Raises `InvalidAttribute`."""
    try:
        options = msgspec.convert(given, PushOptions)
        size = len(msgspec.json.encode(options))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidAttribute(f"pushOptions: {error}") from None
    if size > MAX_OPTIONS_BYTES:
        raise InvalidAttribute(
            f"pushOptions takes {size} bytes; at most {MAX_OPTIONS_BYTES} fit, and a push service "
            "takes about 4,000"
        )
    if options.data is not None and _depth(options.data) > _MAX_DEPTH:
        raise InvalidAttribute(f"pushOptions.data has more than {_MAX_DEPTH} levels")
    return options


def _depth(value: object, most: int = _MAX_DEPTH + 1) -> int:
    """Nesting depth, counted up to `most`."""
    inner = value.values() if isinstance(value, dict) else value
    if not most or not isinstance(value, dict | list):
        return 0
    return 1 + max((_depth(each, most - 1) for each in inner), default=0)  # type: ignore[attr-defined]

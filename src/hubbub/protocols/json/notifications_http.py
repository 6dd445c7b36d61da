"""The JSON bodies of notifications over HTTP, and in the admin API."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from hubbub.domain import notifications
from hubbub.domain.errors import HubbubError, Malformed, TooLarge
from hubbub.domain.notices import NotificationPage
from hubbub.domain.notifications import MAX_BATCH, MAX_ID_CHARS, NotificationItem, Selection
from hubbub.domain.payloads import is_utf8
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import check_event_name
from hubbub.protocols.json.events import JsonRecords, notice_json
from hubbub.protocols.mapping import descriptor

Time = Annotated[int, Meta(ge=0, le=10**17, description="Milliseconds since 1970.")]
Identifier = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]

_items = JsonRecords(NotificationItem, descriptor(pb.NotificationItem))


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    notifications: list[Raw]


class NotificationSelection(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Exactly one of the three; `upTo` is a `ts`."""

    ids: Annotated[tuple[Identifier, ...], Meta(extra_json_schema={"maxItems": MAX_BATCH})] = ()
    up_to: Time | UnsetType = UNSET
    all: bool = False


class Marked(msgspec.Struct):
    """`unread` are left; `unknown` ids are not there."""

    marked: int
    unread: int
    unknown: tuple[str, ...]


def notification_items(body: bytes) -> list[NotificationItem | HubbubError]:
    """The notifications of `{"notifications": […]}`, each decoded or as its error. Raises
    `Malformed` if the list itself cannot be decoded, and `TooLarge`."""
    found = _decoded(body, _Batch).notifications
    if len(found) > MAX_BATCH:
        raise TooLarge(f"{len(found)} notifications; give at most {MAX_BATCH} in a request")
    return [_item(text, f"notifications[{index}]") for index, text in enumerate(found)]


def _item(text: Raw, where: str) -> NotificationItem | HubbubError:
    try:
        item = _items.read(text, where)
        check_event_name(item.event)
    except HubbubError as error:
        return error
    return item


def read_selection(body: bytes) -> Selection:
    """`{"ids": […]}`, `{"upTo": …}` or `{"all": true}`. Raises `Malformed`."""
    given = _decoded(body, NotificationSelection)
    return Selection(given.ids, None if given.up_to is UNSET else given.up_to, given.all)


def _decoded(body: bytes, kind: Any) -> Any:
    if not is_utf8(body):
        raise Malformed("the body is not UTF-8")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Malformed(f"the body cannot be read: {error}") from None
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None


def notification_page_json(page: NotificationPage) -> bytes:
    return notice_json(page)[1]


def marked_json(done: notifications.MarkResult) -> bytes:
    return msgspec.json.encode(Marked(done.marked, done.state.unread, done.unknown))

"""The JSON bodies of the HTTP API: the socket's payloads, without the envelope."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.notices import HistoryPage, Member, Presence, ThreadsPage
from hubbub.domain.payloads import is_utf8
from hubbub.domain.requests import PublishItem
from hubbub.domain.search import SearchPage
from hubbub.protocols.json.events import notice_json, read_items


def page_json(page: HistoryPage) -> bytes:
    return notice_json(page)[1]


def threads_json(page: ThreadsPage) -> bytes:
    return notice_json(page)[1]


def search_json(page: SearchPage) -> bytes:
    return notice_json(page)[1]


def presence_json(channel: str, members: tuple[Member, ...]) -> bytes:
    return notice_json(Presence(channel, members))[1]


def publish_items(body: bytes) -> list[PublishItem | HubbubError]:
    """The messages of `{"publishes": […]}`, each decoded or as its error. Raises `Malformed` if the
    list itself cannot be decoded."""
    if not is_utf8(body):
        raise Malformed("the body is not UTF-8")
    try:
        return read_items(Raw(body))
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is not a batch of publishes: {error}") from None
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None

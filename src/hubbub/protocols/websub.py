"""WebSub: requests of subscribers and publishers, and URLs of topics.

A request is a form, or the query of a request with content. Unknown parameters are ignored, as the
recommendation requires; invalid known parameters are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from hubbub.domain.callbacks import MAX_URL_CHARS, check_callback
from hubbub.domain.errors import BadRequest, Malformed
from hubbub.domain.webhooks import Algorithm, Mode, check_algorithm
from hubbub.protocols.light import read_secret

FORM = "application/x-www-form-urlencoded"
MAX_PARAMETERS = 300
MAX_PINGS = 100

_MODES = ("subscribe", "unsubscribe", "publish")
_NOT_IN_URLS = re.compile('[\x00-\x20\x7f-\x9f<>"\ud800-\udfff]')

Parameters = Sequence[tuple[str, str]]


class WebSubRequest(msgspec.Struct, frozen=True):
    """A request to subscribe or unsubscribe. Without `lease_seconds`, the hub decides."""

    mode: Mode
    callback: str
    topic: str
    lease_seconds: str | None = None
    secret: bytes | None = None
    algorithm: Algorithm | None = None
    """None: the hub's default algorithm."""


class Publication(msgspec.Struct, frozen=True):
    """A publisher's announcement of new content at these topics."""

    topics: tuple[str, ...]


def read_form(body: bytes) -> Parameters:
    """Raises `Malformed`."""
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict"
        )
    except ValueError as error:
        raise Malformed(f"the body is not a form ({FORM}): {error}") from None


def read_request(parameters: Parameters) -> WebSubRequest | Publication:
    """Raises `Malformed`, `BadRequest`."""
    mode = _one(parameters, "hub.mode")
    if mode is None:
        raise Malformed(f"'hub.mode' is missing; give one of {', '.join(_MODES)}")
    if mode == "publish":
        return Publication(_topics(parameters))
    if mode not in _MODES:
        raise Malformed(f"hub.mode is {mode[:40]!r}; give one of {', '.join(_MODES)}")
    callback, topic = _required(parameters, "hub.callback"), _required(parameters, "hub.topic")
    check_callback(callback)
    algorithm = _one(parameters, "hub.algorithm") or None
    return WebSubRequest(
        mode="subscribe" if mode == "subscribe" else "unsubscribe",
        callback=callback,
        topic=check_topic(topic),
        lease_seconds=_one(parameters, "hub.lease_seconds"),
        secret=read_secret(_one(parameters, "hub.secret") or None),
        algorithm=None if algorithm is None else check_algorithm(algorithm),
    )


def check_topic(url: str) -> str:
    """Raises `BadRequest`."""
    shown = f"the topic {url[:60]!r}"
    if len(url) > MAX_URL_CHARS:
        raise BadRequest(f"{shown}… has {len(url)} characters; at most {MAX_URL_CHARS} are allowed")
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        named = None
    if not named or _NOT_IN_URLS.search(url):
        raise BadRequest(f"{shown} is not a URL, like https://example.org/feed")
    if parts.username is not None or parts.password is not None:
        raise BadRequest("the topic's URL holds a user name or a password; a topic is public")
    return url


# -- names --------------------------------------------------------------------------------------


TopicForm = Literal["messages", "content"]
"""A channel is a topic under two URLs: its history, and its newest message."""


def topic_url(base: str, hub: str, channel: str, form: TopicForm = "messages") -> str:
    """The topic URL of a channel of this hub."""
    return f"{base}/v1/hubs/{_segment(hub)}/channels/{_segment(channel)}/{form}"


def hub_url(base: str, hub: str | None) -> str:
    """The URL of the WebSub hub; None: the default hub of `/websub`."""
    return f"{base}/websub" if hub is None else f"{base}/v1/hubs/{_segment(hub)}/websub"


def own_topic(topic: str, bases: Iterable[str]) -> tuple[str, str] | None:
    """Hub and channel, if the URL is a topic at one of these base URLs. Raises `BadRequest` for
    other URLs of the hub, which are not topics."""
    for base in bases:
        if not topic.startswith(f"{base}/v1/"):
            continue
        match _decoded(topic[len(base) + 1 :]):
            case ["v1", "hubs", hub, "channels", channel, ("messages" | "content")] if (
                hub and channel
            ):
                return hub, channel
        raise BadRequest(
            f"the topic {topic[:200]!r} is a place of this hub, but not a channel; "
            "give …/v1/hubs/{hub}/channels/{channel}/content or …/messages"
        )
    return None


def _decoded(path: str) -> list[str]:
    """The decoded segments; empty if the path is invalid."""
    try:
        return [unquote(segment, errors="strict") for segment in path.split("/")]
    except UnicodeDecodeError:
        return []


def links(hub: str, topic: str) -> str:
    """The value of a Link header from which subscribers discover hub and topic."""
    return f'<{hub}>; rel="hub", <{topic}>; rel="self"'


def _segment(name: str) -> str:
    return quote(name, safe=":")


# -- parameters ---------------------------------------------------------------------------------


def _one(parameters: Parameters, name: str) -> str | None:
    values = [value for key, value in parameters if key == name]
    if len(values) > 1:
        raise Malformed(f"the parameter {name!r} is there {len(values)} times; give it once")
    return values[0] if values else None


def _required(parameters: Parameters, name: str) -> str:
    value = _one(parameters, name)
    if not value:
        raise Malformed(f"the parameter {name!r} is missing")
    return value


def _topics(parameters: Parameters) -> tuple[str, ...]:
    """Most publishers send `hub.url`; some send `hub.topic`."""
    given = [value for key, value in parameters if key in ("hub.url", "hub.topic") and value]
    topics = tuple(dict.fromkeys(check_topic(value) for value in given))
    if not topics:
        raise Malformed("'hub.url' is missing; give the URL of the topic that has something new")
    if len(topics) > MAX_PINGS:
        raise BadRequest(f"{len(topics)} topics in one request; at most {MAX_PINGS} are allowed")
    return topics

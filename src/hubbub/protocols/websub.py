"""WebSub: what subscribers and publishers ask of the hub, and how topics are named.

A form, or the query of a request whose body is content. Parameters that are not known are ignored,
as the recommendation wants it; what is known and wrong is refused.
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


class Subscription(msgspec.Struct, frozen=True):
    """A request to subscribe or to unsubscribe. No `lease_seconds`: the hub decides."""

    mode: Mode
    callback: str
    topic: str
    lease_seconds: str | None = None
    secret: bytes | None = None
    algorithm: Algorithm | None = None
    """None: as the hub usually signs."""


class Publication(msgspec.Struct, frozen=True):
    """There is something new at these topics."""

    topics: tuple[str, ...]


def read_form(body: bytes) -> Parameters:
    """Raises `Malformed`."""
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict"
        )
    except ValueError as error:
        raise Malformed(f"the body is not a form ({FORM}): {error}") from None


def read_request(parameters: Parameters) -> Subscription | Publication:
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
    return Subscription(
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
"""Under which of its addresses a channel is a topic: its history, or its newest message alone."""


def topic_url(base: str, hub: str, channel: str, form: TopicForm = "messages") -> str:
    """The address of a channel of this hub, which is a topic."""
    return f"{base}/v1/hubs/{_segment(hub)}/channels/{_segment(channel)}/{form}"


def hub_url(base: str, hub: str | None) -> str:
    """None: the hub that `/websub` means."""
    return f"{base}/websub" if hub is None else f"{base}/v1/hubs/{_segment(hub)}/websub"


def own_topic(topic: str, bases: Iterable[str]) -> tuple[str, str] | None:
    """Hub and channel, if the URL is a channel of a hub at one of these addresses. Raises
    `BadRequest` for other places of the hub, which are no topics."""
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
    """Empty where it cannot be read."""
    try:
        return [unquote(segment, errors="strict") for segment in path.split("/")]
    except UnicodeDecodeError:
        return []


def links(hub: str, topic: str) -> str:
    """The value of a Link header with which subscribers find hub and topic."""
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
    """`hub.url` is what publishers send most; some say `hub.topic`."""
    given = [value for key, value in parameters if key in ("hub.url", "hub.topic") and value]
    topics = tuple(dict.fromkeys(check_topic(value) for value in given))
    if not topics:
        raise Malformed("'hub.url' is missing; give the URL of the topic that has something new")
    if len(topics) > MAX_PINGS:
        raise BadRequest(f"{len(topics)} topics in one request; at most {MAX_PINGS} are allowed")
    return topics

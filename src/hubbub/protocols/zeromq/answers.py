"""ZeroMQ responses: their names are those of the reliable publish-subscribe service;
`docs/zeromq.md` describes their frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

import msgspec

from hubbub.domain.errors import HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.notices import (
    EachTopicMessages,
    Notice,
    ProducerOpened,
    TopicAcked,
    TopicArticles,
    TopicMessages,
    TopicSubscribed,
    TopicUnsubscribed,
)
from hubbub.domain.topics import Article
from hubbub.ports.bus import PublishOutcome
from hubbub.protocols.json.fast import with_attributes
from hubbub.protocols.json.topics_http import state_json

Frames = list[bytes]

SHUTDOWN: Frames = [b"Shutdown"]
_ARTICLE = b"TopicArticle"
_EMPTY = b"EmptyTopic"


class _Info(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A message's metadata besides topic, serial and payload."""

    message_id: str = msgspec.field(name="msgID")
    timestamp: int = msgspec.field(name="ts")
    content_type: str
    deliveries: int
    redelivered: bool
    event: str = ""
    publisher: str | None = None


_encode = msgspec.json.Encoder().encode


def put_reply(topic: str, message_id: str, outcome: PublishOutcome) -> Frames:
    """Without a serial: the put is a repeat whose message has been deleted."""
    info = {"msgID": outcome.message_id or message_id, "duplicate": outcome.duplicate}
    if outcome.duplicate and outcome.message_id is None:
        del info["msgID"]
    serial = b"%d" % outcome.serial if outcome.serial else b""
    return [b"PutReply", topic.encode(), serial, _encode(info)]


def with_note(frames: Frames, note: str) -> Frames:
    """Adds a human-readable note to the JSON object at the end of the response to `put` or
    `subscribe`."""
    if frames[0] not in (b"PutReply", b"SUBSCRIBED"):
        return frames
    *others, info = frames
    return [*others, _encode(msgspec.json.decode(info) | {"note": note})]


def frames_of(notice: Notice) -> Frames:
    """The frames of a notice that responds to a topic request."""
    match notice:
        case TopicMessages(topic, messages=found):
            return _articles(topic, found)
        case EachTopicMessages(topics=topics):
            return _one_of_each(topics)
        case TopicAcked(topic, floor=floor):
            return [b"Ack", topic.encode(), b"%d" % floor]
        case TopicSubscribed(info):
            names = info.key.channel.encode(), info.key.name.encode()
            return [b"SUBSCRIBED", *names, state_json(info)]
        case TopicUnsubscribed(topic, name):
            return [b"UNSUBSCRIBED", topic.encode(), name.encode()]
        case ProducerOpened(topic, fence=fence, sequence=sequence):
            return [b"ProducerOpened", topic.encode(), b"%d" % fence, b"%d" % sequence]
    raise TypeError(f"ZeroMQ has no answer {type(notice).__name__}")


def handed_out(notice: Notice) -> Sequence[Article]:
    """The messages that a response delivers."""
    if isinstance(notice, EachTopicMessages):
        return [article for found in notice.topics.values() for article in found.messages]
    return notice.messages if isinstance(notice, TopicMessages) else ()


def _articles(topic: str, found: Sequence[Article]) -> Frames:
    if not found:
        return [_EMPTY, topic.encode()]
    return [_ARTICLE, *(frame for article in found for frame in _article(article))]


def _one_of_each(topics: Mapping[str, TopicArticles]) -> Frames:
    """Five frames for each topic; the first is its response name."""
    if not topics:
        return [b"NotSubscribed", b"", b"there is no subscription of this name to any topic"]
    frames: Frames = []
    for topic, found in topics.items():
        if found.messages:
            frames += (_ARTICLE, *_article(found.messages[0]))
        else:
            frames += (_EMPTY, topic.encode(), b"", b"", b"")
    return frames


def pong(hub: str = "") -> Frames:
    return [b"Pong", hub.encode()]


def refused(error: HubbubError, topic: str = "") -> Frames:
    message = error.message.encode("utf-8", "backslashreplace")
    if isinstance(error, NotSubscribed):
        return [b"NotSubscribed", topic.encode(), message]
    if isinstance(error, TopicNotFound):
        return [b"NonExistentTopic", topic.encode(), message]
    frames = [b"ERROR", error.code.encode(), message]
    if error.retry_after is not None:
        frames.append(b"%d" % ceil(error.retry_after * 1000))
    return frames


def _article(article: Article) -> Iterable[bytes]:
    message = article.message
    info = _Info(
        message_id=message.id,
        timestamp=message.published_at,
        content_type=message.content_type,
        deliveries=article.deliveries,
        redelivered=article.redelivered,
        event=message.event,
        publisher=message.publisher,
    )
    text = with_attributes(_encode(info), message.attributes)
    return message.channel.encode(), b"%d" % message.serial, message.payload, text

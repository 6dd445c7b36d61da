"""Server-sent events: one-way connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.names import is_document
from hubbub.domain.notices import Disconnect, Subscribed
from hubbub.domain.patterns import is_pattern
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.node import Node
from hubbub.engine.sessions.plans import Plan
from hubbub.engine.sessions.session import Session
from hubbub.gateways.encoders import SSE, SseEncoder, SsePatternEncoder, SseVectorEncoder
from hubbub.gateways.outlet import Outlet
from hubbub.protocols import sse


class SseConnection(Outlet):
    """A connection from the response's head to the end of the stream."""

    __slots__ = ()

    one_way = True
    technology = "sse"

    def data_received(self, data: bytes) -> None:
        """Ignores data from the client, since the connection is one-way."""

    def farewell(self, error: HubbubError) -> bytes:
        return self.encoder.pack([self.encoder.encode(Disconnect(error))])

    def _close_soon(self) -> None:
        super()._close_soon()
        if self._backlog:
            self.transport.write(b"".join(self._backlog))
            self._backlog, self._backlog_bytes = None, 0
        self.transport.close()  # after what is still in its buffer


def encoder_of(channels: Sequence[str], now: float) -> SseEncoder:
    """The shared encoder for one channel without a document; otherwise an encoder of its own, with
    a position in each channel and document."""
    named = [channel for channel in channels if not is_pattern(channel)]
    if len(named) < len(channels):
        return SsePatternEncoder(frozenset(named), int(now * 1000))
    return SSE if len(channels) == 1 and not is_document(channels[0]) else SseVectorEncoder()


def read_presence(text: str | None) -> dict[str, Any] | None:
    """Raises `BadRequest`."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"presence must be a JSON object: {error}") from None


def shown(
    requests: Sequence[SubscribeItem], tokens: Sequence[str], presence: dict[str, Any] | None
) -> list[SubscribeItem]:
    """Adds a token per channel, in order (empty: none), and the presence data for all of them.
    Raises `BadRequest`."""
    named = [each for each in requests if not (is_pattern(each.channel) or each.by_pattern)]
    if len(tokens) > len(named):
        raise BadRequest("there are more channelToken than channel; give one for each, in order")
    of_channel = dict(zip([each.channel for each in named], tokens, strict=False))
    return [
        msgspec.structs.replace(each, token=of_channel.get(each.channel) or None, presence=presence)
        if each in named
        else each
        for each in requests
    ]


def channel_requests(channels: Sequence[str], last_event_id: str | None) -> list[SubscribeItem]:
    """The position in each channel from the client's last event id; for patterns, also in channels
    that matched before. Raises `TooLarge` if an id for so many channels would not fit into a
    header."""
    named = [channel for channel in channels if not is_pattern(channel)]
    sse.encode_positions({channel: _longest(channel) for channel in named})
    since, event_id = sse.split_since(last_event_id or "")
    positions = sse.decode_positions(event_id)
    requests = []
    for channel in dict.fromkeys(channels):
        at = positions.pop(channel, None)
        if is_pattern(channel):
            requests.append(SubscribeItem(channel, timestamp=since))
        elif at is None:
            requests.append(SubscribeItem(channel))
        else:
            requests.append(_request_for(channel, at))
    if len(named) < len(requests):
        requests += [_request_for(*each, by_pattern=True) for each in positions.items()]
    return requests


def _request_for(channel: str, at: sse.StreamPosition, by_pattern: bool = False) -> SubscribeItem:
    return SubscribeItem(
        channel,
        serial=at.serial,
        epoch=at.epoch,
        document_version=at.document_version,
        document_epoch=at.document_epoch or None,
        by_pattern=by_pattern,
    )


def _longest(channel: str) -> sse.StreamPosition:
    position = sse.StreamPosition("epoch123", 10**17)
    if is_document(channel):
        position = position._replace(document_epoch="epoch123", document_version=10**17)
    return position


def _start_of(plan: Plan) -> sse.StreamPosition:
    """The start position, with the client's version of the document, or the version that it will be
    sent first."""
    epoch, serial = plan.start()
    wanted, part = plan.wanted, plan.feed.part
    current = None if part is None else part.version
    if current is None:
        return sse.StreamPosition(epoch, serial)
    version, of = current
    if wanted.document_version is not None:
        version, of = wanted.document_version, wanted.document_epoch or ""
    return sse.StreamPosition(epoch, serial, of, version)


async def follow(
    node: Node, connection: SseConnection, session: Session, wanted: Sequence[SubscribeItem]
) -> None:
    """Subscribes the connection's session, and reports the results like those of a WebSocket
    subscription."""
    if connection.session is not session:
        return
    named = [each for each in wanted if not is_pattern(each.channel)]
    patterns = await node.subscriptions.patterns.prepare(
        session, wanted, {each.channel for each in named}
    )
    plans, failures = await node.subscriptions.prepare(session, named)
    by_pattern = {each.channel for each in named if each.by_pattern}
    refused = [each for each in failures if each.channel not in by_pattern] + patterns.failures
    if not plans and not patterns.confirmed and refused:
        connection.disconnect(refused[0].error)
        return
    start = {plan.feed.channel: _start_of(plan) for plan in plans}
    event_id = sse.encode_positions(start)
    if isinstance(connection.encoder, SseVectorEncoder):
        connection.encoder.positions.update(start)
    if isinstance(connection.encoder, SsePatternEncoder):
        event_id = connection.encoder.event_id()
    confirmed = Subscribed(
        tuple(plan.confirmation() for plan in plans),
        tuple(refused),
        patterns=tuple(patterns.confirmed),
    )
    # With an id from the beginning, even a client that heard nothing yet can resume.
    connection.send(sse.encode(confirmed, event_id))
    await node.subscriptions.begin(session, plans)
    await node.subscriptions.patterns.begin(session, patterns.matched)

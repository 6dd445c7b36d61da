"""Server-sent events: a connection that only listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.names import is_document
from hubbub.domain.notices import Disconnect, Subscribed
from hubbub.domain.patterns import is_pattern
from hubbub.domain.requests import ChannelRequest
from hubbub.engine.node import Node
from hubbub.engine.sessions.plans import Plan
from hubbub.engine.sessions.session import Session
from hubbub.gateways.encoders import SSE, SseEncoder, SsePatternEncoder, SseVectorEncoder
from hubbub.gateways.outlet import Outlet
from hubbub.protocols import sse


class SseConnection(Outlet):
    """From the response's head to the end of the stream."""

    __slots__ = ()

    one_way = True
    technology = "sse"

    def data_received(self, data: bytes) -> None:
        """A listener has nothing to say; what it sends is ignored."""

    def farewell(self, error: HubbubError) -> bytes:
        return self.encoder.pack([self.encoder.encode(Disconnect(error))])

    def _close_soon(self) -> None:
        super()._close_soon()
        if self._backlog:
            self.transport.write(b"".join(self._backlog))
            self._backlog, self._backlog_bytes = None, 0
        self.transport.close()  # after what is still in its buffer


def encoder_of(channels: Sequence[str], now: float) -> SseEncoder:
    """One channel without a document: the shared encoding. Others: one of their own, with a
    position in each channel and document."""
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
    requests: Sequence[ChannelRequest], tokens: Sequence[str], presence: dict[str, Any] | None
) -> list[ChannelRequest]:
    """With a token for each channel, in their order (empty: none), and what presence is to show in
    all of them. Raises `BadRequest`."""
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


def channel_requests(channels: Sequence[str], last_event_id: str | None) -> list[ChannelRequest]:
    """Where to go on in each channel, by the last id that the client saw; of patterns, also in the
    channels that matched. Raises `TooLarge` if an id for so many channels would not fit into a
    header."""
    named = [channel for channel in channels if not is_pattern(channel)]
    sse.encode_positions({channel: _longest(channel) for channel in named})
    since, event_id = sse.split_since(last_event_id or "")
    positions = sse.decode_positions(event_id)
    requests = []
    for channel in dict.fromkeys(channels):
        at = positions.pop(channel, None)
        if is_pattern(channel):
            requests.append(ChannelRequest(channel, timestamp=since))
        elif at is None:
            requests.append(ChannelRequest(channel))
        else:
            requests.append(_request_for(channel, at))
    if len(named) < len(requests):
        requests += [_request_for(*each, by_pattern=True) for each in positions.items()]
    return requests


def _request_for(channel: str, at: sse.StreamPosition, by_pattern: bool = False) -> ChannelRequest:
    return ChannelRequest(
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
    """With the version of the document that the client has, or that it will be told first."""
    epoch, serial = plan.start()
    wanted, document = plan.wanted, plan.feed.document
    if document is None:
        return sse.StreamPosition(epoch, serial)
    if wanted.document_version is not None:
        version, of = wanted.document_version, wanted.document_epoch or ""
    else:
        version, of = document.state.version, document.state.epoch
    return sse.StreamPosition(epoch, serial, of, version)


async def follow(
    node: Node, connection: SseConnection, session: Session, wanted: Sequence[ChannelRequest]
) -> None:
    """Subscribe the connection's session, telling it what worked as a socket would be told."""
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

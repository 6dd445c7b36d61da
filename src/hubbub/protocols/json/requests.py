"""Requests in JSON, as the hub reads them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw

from hubbub.domain import requests
from hubbub.domain.errors import HubbubError, InvalidName, InvalidPayload, Malformed
from hubbub.domain.messages import JSON
from hubbub.domain.payloads import readable_json, typed_payload
from hubbub.domain.requests import Producer, PublishItem, Rejected, Request
from hubbub.protocols.envelopes import (
    check_batch,
    check_bounds,
    check_event_name,
    check_proof,
    unknown_event,
)
from hubbub.protocols.json import services as json_services
from hubbub.protocols.json import shapes as shapes
from hubbub.protocols.json import topics as json_topics

_heartbeat = msgspec.json.Decoder(shapes.Heartbeat).decode
_auth = msgspec.json.Decoder(shapes.AuthRequest).decode
_restore = msgspec.json.Decoder(shapes.SessionRestoreNotice).decode
_subscribe = msgspec.json.Decoder(shapes.SubscribeRequest).decode
_unsubscribe = msgspec.json.Decoder(shapes.UnsubscribeRequest).decode
_publish = msgspec.json.Decoder(shapes.ChannelPubRequest).decode
_publish_item = msgspec.json.Decoder(shapes.PubRequestInfo).decode
_any_publishes = msgspec.json.Decoder(shapes.AnyPublishes).decode
_any_request = msgspec.json.Decoder(shapes.AnyRequest).decode
_history = msgspec.json.Decoder(shapes.HistoryRequest).decode
_presence = msgspec.json.Decoder(shapes.PresenceRequest).decode

_NO_EXTRA = shapes.ChannelPubExtras()
_EMPTY = Raw(b"{}")
_NULL = Raw(b"null")
_HEARTBEATS = ("Ping", "Pong", "Close")


def read_request(event: str, payload: Raw) -> list[Request]:
    """All that the envelope asks for. What cannot be read of it comes back as rejections."""
    if event != "Publish" and event not in _READERS:
        return [Rejected(unknown_event(event), req_id_of(payload))]
    if not payload or payload == _NULL:
        if event not in _HEARTBEATS:
            return [Rejected(Malformed(f"{event}: Object missing required field `payload`"))]
        payload = _EMPTY
    try:
        if event == "Publish":
            return _read_publish(payload)
        return [_READERS[event](payload)]
    except msgspec.DecodeError as error:
        return [Rejected(malformed(event, error, "$.payload"), req_id_of(payload))]
    except HubbubError as error:
        return [Rejected(error, req_id_of(payload))]
    except RecursionError:
        return [Rejected(Malformed(f"{event}: the payload is nested too deeply"))]


def malformed(event: str, error: msgspec.DecodeError, path: str) -> Malformed:
    """`path` is where in the envelope the text began that was decoded."""
    found = str(error)
    if " - at `$" not in found:
        return Malformed(f"{event}: {found} - at `{path}`")
    return Malformed(f"{event}: {found.replace('`$', f'`{path}', 1)}")


def req_id_of(text: Raw) -> int:
    """The id of a request that may be wrong in every other way; 0 where there is none."""
    try:
        req_id = _any_request(text).req_id
    except (msgspec.DecodeError, RecursionError):
        return 0
    return req_id if type(req_id) is int and -(2**63) <= req_id < 2**63 else 0


def _read_ping(payload: Raw) -> Request:
    return requests.Ping(_heartbeat(payload).req_id or 0)


def _read_pong(payload: Raw) -> Request:
    return requests.Pong(_heartbeat(payload).req_id or 0)


def _read_close(payload: Raw) -> Request:
    _heartbeat(payload)
    return requests.Close()


def _read_auth(payload: Raw) -> Request:
    shape = _auth(payload)
    credentials = None
    if shape.credentials is not None:
        credentials, _ = shapes.given_payload(shape.credentials, "Auth: `$.payload.credentials`")
    return check_proof(requests.Authenticate(shape.req_id or 0, shape.token or None, credentials))


def _read_restore(payload: Raw) -> Request:
    shape = _restore(payload)
    positions = shape.positions or ()
    check_batch("SessionRestore", len(positions))
    if not shape.restore_key:
        raise Malformed("SessionRestore: `$.payload.restoreKey` is empty")
    return requests.Restore(
        shape.restore_key,
        shape.req_id or 0,
        tuple(
            requests.Position(position.channel, int(position.serial), position.epoch or "")
            for position in positions
        ),
    )


def _read_subscribe(payload: Raw) -> Request:
    shape = _subscribe(payload)
    check_batch("Subscribe", len(shape.channels))
    channels = tuple(
        requests.ChannelRequest(
            channel.channel, channel.timestamp, _serial(channel.serial), channel.epoch
        )
        for channel in shape.channels
    )
    return requests.Subscribe(channels, shape.req_id or 0)


def _read_unsubscribe(payload: Raw) -> Request:
    shape = _unsubscribe(payload)
    check_batch("Unsubscribe", len(shape.channels))
    return requests.Unsubscribe(shape.channels, shape.req_id or 0)


def _read_history(payload: Raw) -> Request:
    shape = _history(payload)
    return check_bounds(
        requests.History(
            shape.channel,
            shape.req_id or 0,
            _serial(shape.after),
            _serial(shape.before),
            shape.after_time,
            shape.before_time,
            shape.epoch,
            shape.limit or 0,
        )
    )


def _read_presence(payload: Raw) -> Request:
    shape = _presence(payload)
    return requests.PresenceQuery(shape.channel, shape.req_id or 0)


_READERS: dict[str, Callable[[Raw], Request]] = {
    "Ping": _read_ping,
    "Pong": _read_pong,
    "Close": _read_close,
    "Auth": _read_auth,
    "SessionRestore": _read_restore,
    "Subscribe": _read_subscribe,
    "Unsubscribe": _read_unsubscribe,
    "History": _read_history,
    "Presence": _read_presence,
    **json_topics.REQUEST_READERS,
    **json_services.REQUEST_READERS,
}


def _read_publish(payload: Raw) -> list[Request]:
    try:
        publishes = _publish(payload).publishes
        check_batch("Publish", len(publishes))
        return [requests.Publish(tuple([_item(each) for each in publishes]))]
    except (msgspec.ValidationError, InvalidName, InvalidPayload):
        return _read_items_apart(payload)


def _read_items_apart(payload: Raw) -> list[Request]:
    """A Publish with something wrong in it: the other items are published all the same, since
    each is answered by itself."""
    found = _read_each(payload)
    items = tuple(item for _, item in found if isinstance(item, PublishItem))
    rejected: list[Request] = [
        Rejected(item, req_id_of(text)) for text, item in found if isinstance(item, HubbubError)
    ]
    return [requests.Publish(items), *rejected] if items else rejected


def read_items(payload: Raw) -> list[PublishItem | HubbubError]:
    """The items of a batch, or what is wrong with each."""
    return [item for _, item in _read_each(payload)]


def _read_each(payload: Raw) -> list[tuple[Raw, PublishItem | HubbubError]]:
    publishes = _any_publishes(payload).publishes
    check_batch("Publish", len(publishes))
    return [(text, _read_item(text, index)) for index, text in enumerate(publishes)]


def _read_item(text: Raw, index: int) -> PublishItem | HubbubError:
    try:
        return _item(_publish_item(text), index)
    except msgspec.ValidationError as error:
        return malformed("Publish", error, f"$.payload.publishes[{index}]")
    except HubbubError as error:
        return error


def _item(shape: shapes.PubRequestInfo, index: int = 0) -> PublishItem:
    event = shape.event
    if event:
        check_event_name(event)
    payload = shape.payload
    if payload.json and payload.text is UNSET and payload.base64 is UNSET:
        body, content_type = readable_json(bytes(payload.json)), JSON
    else:
        body, content_type = shapes.given_payload(
            payload, f"Publish: `$.payload.publishes[{index}].payload`"
        )
    if shape.content_type:
        body, content_type = typed_payload(body, shape.content_type)
    producer = None if shape.producer is None else _producer(shape.producer)
    extra = shape.extra
    if extra is None and producer is None:
        return PublishItem(
            shape.channel, event or "", body, content_type, False, False, False, False, shape.req_id
        )
    extra = extra or _NO_EXTRA
    return PublishItem(
        shape.channel,
        event or "",
        body,
        content_type,
        extra.store,
        extra.push,
        extra.retain,
        extra.transient,
        shape.req_id,
        producer,
    )


def _producer(shape: shapes.ProducerInfo) -> Producer:
    return Producer(shape.id, int(shape.sequence), int(shape.fence or 0))


def _serial(serial: str | int | None) -> int | None:
    return None if serial is None else int(serial)

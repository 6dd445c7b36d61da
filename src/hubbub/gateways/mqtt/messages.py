"""Messages of channels as PUBLISH packets, and the reverse."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final

from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import BINARY, TEXT, Attributes, Message
from hubbub.domain.payloads import is_utf8, untouched_payload
from hubbub.domain.requests import PublishItem
from hubbub.protocols.mqtt.fields import Properties, Property
from hubbub.protocols.mqtt.names import topic_of
from hubbub.protocols.mqtt.packets import V5
from hubbub.protocols.mqtt.writing import publish

RESPONSE_TOPIC: Final = "mqtt.responseTopic"
CORRELATION: Final = "mqtt.correlation"
PAYLOAD_FORMAT: Final = "mqtt.payloadFormat"
USER_PROPERTIES: Final = "mqtt.user"
"""All user properties, as pairs, if a name is there twice."""
_OWN = "mqtt."


def item_from(
    channel: str,
    payload: bytes,
    qos: int,
    retain: bool,
    given: Properties,
    req_id: int | None = None,
) -> PublishItem:
    """Raises `InvalidPayload`."""
    content_type = given.get(Property.CONTENT_TYPE) or None
    if given.get(Property.PAYLOAD_FORMAT) and not is_utf8(payload):
        raise InvalidPayload("the payload is not UTF-8, but its format indicator says so")
    kept, kind = untouched_payload(payload, content_type)
    return PublishItem(
        channel,
        "",
        kept,
        kind,
        store=qos > 0,
        retain=retain,
        req_id=req_id,
        attributes=_attributes(qos, given, content_type),
    )


def _attributes(qos: int, given: Properties, content_type: str | None) -> Attributes | None:
    if not given:
        return None if qos == 2 else _PLAIN[qos]
    seconds = given.get(Property.MESSAGE_EXPIRY)
    return Attributes(
        ttl=None if seconds is None else seconds * 1000 or 1,
        headers=_headers(given) or None,
        media_type=content_type,
        qos=None if qos == 2 else qos,
    )


_PLAIN = (Attributes(qos=0), Attributes(qos=1))


def _headers(given: Properties) -> dict[str, Any]:
    pairs = given.get(Property.USER, ())
    headers: dict[str, Any] = dict(pairs)
    if len(headers) < len(pairs):
        headers = {USER_PROPERTIES: [list(pair) for pair in pairs]}
    if Property.PAYLOAD_FORMAT in given:
        headers[PAYLOAD_FORMAT] = given[Property.PAYLOAD_FORMAT]
    if Property.RESPONSE_TOPIC in given:
        headers[RESPONSE_TOPIC] = given[Property.RESPONSE_TOPIC]
    if Property.CORRELATION in given:
        headers[CORRELATION] = b64encode(given[Property.CORRELATION]).decode()
    return headers


def published_qos(message: Message) -> int:
    """The quality of service of the publisher. Other doors than this one publish as well as the
    channel permits: a message with a serial is never lost on the way."""
    qos = None if message.attributes is None else message.attributes.qos
    if qos is None:
        return 2 if message.serial else 0
    return qos


def packet_of(
    message: Message,
    version: int,
    qos: int,
    retain: bool,
    identifiers: tuple[int, ...],
    now: float,
    metadata: bool,
) -> bytes:
    """The packet id of a PUBLISH with `qos` above 0 is 0, and is set when it is sent. `now` is in
    seconds since 1970."""
    given: list[tuple[Property, Any]] = []
    if version == V5:
        given = _properties(message, now)
        given += [(Property.SUBSCRIPTION_ID, each) for each in identifiers]
        if metadata:
            given += [(Property.USER, pair) for pair in _metadata(message)]
    return publish(version, topic_of(message.channel), message.payload, qos, retain, 0, given)


def _properties(message: Message, now: float) -> list[tuple[Property, Any]]:
    attributes, given = message.attributes, list[tuple[Property, Any]]()
    spelt = None if attributes is None else attributes.media_type
    content_type = spelt or message.content_type
    headers = (None if attributes is None else attributes.headers) or {}
    if headers.get(PAYLOAD_FORMAT) in (0, 1):
        given.append((Property.PAYLOAD_FORMAT, headers[PAYLOAD_FORMAT]))
    if attributes is not None and attributes.ttl:
        rest = message.published_at + attributes.ttl - int(now * 1000)
        given.append((Property.MESSAGE_EXPIRY, min(max(1, -(-rest // 1000)), 0xFFFF_FFFF)))
    if spelt or content_type not in (TEXT, BINARY):
        given.append((Property.CONTENT_TYPE, content_type))
    if isinstance(headers.get(RESPONSE_TOPIC), str):
        given.append((Property.RESPONSE_TOPIC, headers[RESPONSE_TOPIC]))
    correlation = _binary(headers.get(CORRELATION))
    if correlation is not None:
        given.append((Property.CORRELATION, correlation))
    given += [(Property.USER, pair) for pair in _user_properties(headers)]
    return given


def _binary(value: object) -> bytes | None:
    """Other doors may have written something else than base64."""
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        return None


def _user_properties(headers: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = [
        (name, _as_text(value))
        for name, value in headers.items()
        if not name.startswith(_OWN) and isinstance(value, str | int | float)
    ]
    repeated = headers.get(USER_PROPERTIES)
    if isinstance(repeated, list):
        pairs += [(pair[0], pair[1]) for pair in repeated if _is_pair(pair)]
    return pairs


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)


def _as_text(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _metadata(message: Message) -> list[tuple[str, str]]:
    given = [
        ("hubbub-event", message.event),
        ("hubbub-msg-id", message.id),
        ("hubbub-publisher", message.publisher or ""),
        ("hubbub-serial", str(message.serial or "")),
    ]
    return [pair for pair in given if pair[1]]

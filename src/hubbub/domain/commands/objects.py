"""The four objects of Hubiquitus, read from JSON values and written as JSON values.

Reading checks the attributes in the order of the tables in docs/commands.md and stops at the first
invalid one: `CommandRefused` carries its status and names it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.commands.attributes import (
    Object,
    is_number,
    read_flag,
    read_jid,
    read_moment,
    read_object,
    read_priority,
    read_required,
    read_required_text,
    read_text,
)
from hubbub.domain.commands.dates import LAST_DATE, write_date
from hubbub.domain.commands.jids import (
    Jid,
    channel_id,
    is_usual_jid,
    parse_channel,
    parse_jid,
    parse_target,
)
from hubbub.domain.commands.status import CommandRefused, Status, invalid, missing, not_authorized
from hubbub.domain.envelope import check_object
from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.shown import shown

RELEVANCE_OFFSET: Final = "RELEVANCE_OFFSET"
"""A header: how many milliseconds after `published` a message stays relevant."""
MAX_MSG_RETRIEVAL: Final = "MAX_MSG_RETRIEVAL"
"""A header of channels: how many messages hGetLastMessages returns."""
ALERT: Final = "hAlert"
_ALERT_PRIORITY: Final = 2
DEFAULT_PRIORITY: Final = 1
MAX_PARTICIPANTS: Final = 1000
MAX_TIMEOUT_MS: Final = 60_000


class HMessage(msgspec.Struct, frozen=True):
    """A structured message. Dates are in milliseconds since 1970."""

    chid: str
    """`#name@domain`, or the JID of a user or session."""
    publisher: str
    """The publisher's JID as it was sent, with or without a resource."""
    msgid: str | None = None
    convid: str | None = None
    type: str | None = None
    priority: int | None = None
    relevance: int | None = None
    transient: bool | None = None
    location: dict[str, Any] | None = None
    author: str | None = None
    published: int | None = None
    headers: dict[str, Any] | None = None
    payload: Any = None
    more: dict[str, Any] = {}
    """Attributes that the hub does not know, kept unchanged."""


_KNOWN: Final = frozenset(HMessage.__struct_fields__) - {"more"}


class HChannel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A channel's metadata. The channel is identified by its name; `owner` and `participants` are
    bare JIDs."""

    channel: str
    owner: str
    participants: tuple[str, ...]
    active: bool
    chdesc: str | None = None
    priority: int | None = None
    location: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    host: Any = None


_Text = Annotated[str, Meta(min_length=1)]
_Moment = Annotated[int, Meta(ge=0, le=LAST_DATE)]


class HCommand(msgspec.Struct, frozen=True, rename={"timeout_ms": "timeout"}):
    """A command to the hub (`hnode@domain`) or to another user."""

    reqid: _Text
    sender: str
    entity: str
    cmd: _Text
    sent: _Moment | None = None
    """Milliseconds since 1970."""
    params: Any = None
    transient: bool | None = None
    requester: str | None = None
    timeout_ms: float | None = None


class HResult(msgspec.Struct, frozen=True):
    """The result of a command. `cmd` and `reqid` repeat the command's values unchanged."""

    cmd: Any
    reqid: Any
    status: int
    """A `Status`; plugins may return other numbers."""
    result: Any | UnsetType = UNSET
    """The result's data, or a text in case of an error."""


# -- commands and results -------------------------------------------------------------------------


def read_command(given: object) -> HCommand:
    """Checks the structure only; whether the sender is allowed is checked elsewhere. Raises
    `CommandRefused`."""
    try:
        command = msgspec.convert(given, HCommand)
    except msgspec.ValidationError:
        return _read_command_by_attributes(given)
    return command if _is_usual(command) else _read_command_by_attributes(given)


def _is_usual(command: HCommand) -> bool:
    """Whether the command needs no further check or conversion."""
    return (
        command.requester is None
        and command.timeout_ms is None
        and command.reqid.isascii()
        and command.cmd.isascii()
        and is_usual_jid(command.sender)
        and is_usual_jid(command.entity)
    )


def _read_command_by_attributes(given: object) -> HCommand:
    if not isinstance(given, dict):
        raise invalid(f"the hCommand is {shown(given)}; give an object")
    reqid = read_required_text(given, "reqid")
    sender = _text_of_jid(given, "sender")
    entity = _text_of_target(given)
    return HCommand(
        reqid=reqid,
        sender=sender,
        entity=entity,
        cmd=read_required_text(given, "cmd"),
        sent=read_moment(given, "sent"),
        params=given.get("params"),
        transient=read_flag(given, "transient"),
        requester=_read_requester(given),
        timeout_ms=_read_timeout(given),
    )


def write_command(command: HCommand) -> dict[str, Any]:
    return _present(
        reqid=command.reqid,
        sender=command.sender,
        requester=command.requester,
        entity=command.entity,
        sent=_written_date(command.sent),
        cmd=command.cmd,
        params=command.params,
        transient=command.transient,
        timeout=command.timeout_ms,
    )


def write_result(result: HResult) -> dict[str, Any]:
    written = {"cmd": result.cmd, "reqid": result.reqid, "status": int(result.status)}
    if result.result is not UNSET:
        written["result"] = result.result
    return written


def too_deep(result: HResult) -> HResult:
    """Returns the error result that replaces one too deeply nested to encode."""
    cmd = result.cmd if isinstance(result.cmd, str) else None
    reqid = result.reqid if isinstance(result.reqid, str) else None
    return HResult(cmd, reqid, Status.TECHNICAL, "the hResult is nested too deeply")


def refusal(given: object, refused: CommandRefused) -> HResult:
    """Returns the result of a command that could not be read or was refused."""
    known: Object = given if isinstance(given, dict) else {}
    return HResult(known.get("cmd"), known.get("reqid"), refused.status, refused.text)


def _text_of_jid(given: Object, name: str) -> str:
    return str(read_jid(name, read_required(given, name)))


def _text_of_target(given: Object) -> str:
    """Returns the command's target as text. A target is a JID; a channel's id has the form of a
    JID."""
    value = read_required(given, "entity")
    read_jid("entity", value)
    return str(value)


def _read_requester(given: Object) -> str | None:
    text = read_text(given, "requester")
    return None if text is None else str(read_jid("requester", text))


def _read_timeout(given: Object) -> float | None:
    value = given.get("timeout")
    if value is None:
        return None
    if not is_number(value) or value <= 0:
        raise invalid(f"timeout is {shown(value)}; give milliseconds, up to {MAX_TIMEOUT_MS}")
    return float(min(value, MAX_TIMEOUT_MS))


# -- channels -------------------------------------------------------------------------------------


def read_channel(given: object, sender: Jid) -> HChannel:
    """Reads the hChannel with which a sender creates or replaces a channel. Raises
    `CommandRefused`."""
    if not isinstance(given, dict):
        raise invalid(f"params is {shown(given)}; give an hChannel")
    name = _read_own_channel(given, sender.domain)
    chdesc = read_text(given, "chdesc")
    priority = read_priority(given)
    location, headers = (_read_default(given, name) for name in ("location", "headers"))
    owner = _read_owner(given, sender)
    participants = _read_participants(given)
    if given.get("active") is None:
        raise missing("active is missing")
    active = read_flag(given, "active") is True
    return HChannel(
        name,
        owner,
        participants,
        active,
        chdesc,
        priority,
        location,
        headers,
        given.get("host"),
    )


def _read_default(given: Object, name: str) -> dict[str, Any] | None:
    """Reads a default that messages without the attribute receive; it must be valid in a
    message."""
    value = read_object(given, name)
    try:
        check_object(name, value)
    except InvalidAttribute as error:
        raise invalid(error.message) from None
    return value


def write_channel(channel: HChannel, domain: str) -> dict[str, Any]:
    return _present(
        chid=channel_id(channel.channel, domain),
        chdesc=channel.chdesc,
        priority=channel.priority,
        location=channel.location,
        headers=channel.headers,
        owner=channel.owner,
        participants=list(channel.participants),
        active=channel.active,
        host=channel.host,
    )


def _read_own_channel(given: Object, domain: str) -> str:
    text = read_required_text(given, "chid")
    try:
        return parse_channel(text, domain)
    except CommandRefused as error:  # also one of another domain
        raise invalid(error.text) from None


def _read_owner(given: Object, sender: Jid) -> str:
    value = read_required(given, "owner")
    owner = parse_jid(value) if isinstance(value, str) else None
    if owner is None or owner.resource is not None:
        raise invalid(f"owner is {shown(value)}; give user@domain")
    if owner != sender.bare:
        raise not_authorized(f"owner is {shown(value)}, which is not the sender {sender.bare}")
    return str(owner)


def _read_participants(given: Object) -> tuple[str, ...]:
    value = read_required(given, "participants")
    if not isinstance(value, list):
        raise invalid(f"participants is {shown(value)}; give an array of user@domain")
    if len(value) > MAX_PARTICIPANTS:
        raise invalid(f"participants are {len(value)}; at most {MAX_PARTICIPANTS} are allowed")
    found: dict[str, None] = {}
    for each in value:
        jid = read_jid("participants", each)
        if jid.resource is not None:
            raise invalid(f"participants has {shown(each)}; give user@domain without a resource")
        found[str(jid)] = None
    return tuple(found)


# -- messages -------------------------------------------------------------------------------------


def read_message(given: object, sender: Jid) -> HMessage:
    """Reads the message that a sender publishes; `complete` fills in the hub's attributes. A
    `msgid` in the input is discarded. Raises `CommandRefused`."""
    if not isinstance(given, dict):
        raise missing(f"params is {shown(given)}; give an hMessage")
    chid = _read_target(given, sender.domain)
    convid = read_text(given, "convid")
    return HMessage(
        chid=chid,
        convid=None if convid == given.get("msgid") else convid,
        type=read_text(given, "type"),
        priority=read_priority(given),
        relevance=read_moment(given, "relevance"),
        transient=read_flag(given, "transient"),
        location=read_object(given, "location"),
        author=_read_author(given),
        publisher=_read_publisher(given, sender),
        published=read_moment(given, "published"),
        headers=_read_headers(given),
        payload=given.get("payload"),
        more={k: v for k, v in given.items() if k not in _KNOWN and v is not None},
    )


def complete(message: HMessage, channel: HChannel | None, msgid: str, now: int) -> HMessage:
    """Returns the message as it is delivered: with the hub's id and the defaults of the channel.
    `now`: milliseconds since 1970."""
    headers = dict(message.headers or {})
    for name, value in ((channel.headers if channel else None) or {}).items():
        if name != MAX_MSG_RETRIEVAL:
            headers.setdefault(name, value)
    priority = message.priority
    if priority is None:
        priority = channel.priority if channel else None
    if priority is None:
        priority = DEFAULT_PRIORITY
    if message.type == ALERT:
        priority = max(priority, _ALERT_PRIORITY)
    published = now if message.published is None else message.published
    return msgspec.structs.replace(
        message,
        msgid=msgid,
        convid=message.convid or msgid,
        priority=priority,
        published=published,
        headers=headers or None,
        relevance=_relevance(message.relevance, published, headers),
        location=message.location or (channel.location if channel else None),
    )


def write_message(message: HMessage) -> dict[str, Any]:
    written = _present(
        msgid=message.msgid,
        chid=message.chid,
        convid=message.convid,
        type=message.type,
        priority=message.priority,
        relevance=_written_date(message.relevance),
        transient=message.transient,
        location=message.location,
        author=message.author,
        publisher=message.publisher,
        published=_written_date(message.published),
        headers=message.headers,
        payload=message.payload,
    )
    return {**message.more, **written} if message.more else written


def _relevance(relevance: int | None, published: int, headers: Object) -> int | None:
    offset = number_of(headers.get(RELEVANCE_OFFSET))
    if offset is None:
        return relevance
    until = int(min(max(published + offset, 0), LAST_DATE))
    return until if relevance is None else max(relevance, until)


def number_of(value: object) -> float | None:
    """Returns a number, or a text that spells a number, as a float; else None."""
    if is_number(value):
        assert isinstance(value, int | float)
        return value
    if not isinstance(value, str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if is_number(number) else None


def _read_target(given: Object, domain: str) -> str:
    target = parse_target(read_required_text(given, "chid"), domain)
    return str(target) if isinstance(target, Jid) else channel_id(target, domain)


def _read_author(given: Object) -> str | None:
    text = read_text(given, "author")
    if text is not None:
        read_jid("author", text)
    return text


def _read_publisher(given: Object, sender: Jid) -> str:
    value = read_required(given, "publisher")
    publisher = read_jid("publisher", value)
    if publisher.bare != sender.bare:
        raise not_authorized(f"publisher is {shown(value)}, which is not the sender {sender.bare}")
    return str(value)


def _read_headers(given: Object) -> dict[str, Any] | None:
    headers = read_object(given, "headers")
    for name in (RELEVANCE_OFFSET, MAX_MSG_RETRIEVAL):
        value = headers.get(name) if headers else None
        if value is not None and not is_number(value):
            raise invalid(f"headers.{name} is {shown(value)}; give a number")
    return headers


def _written_date(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else write_date(milliseconds)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

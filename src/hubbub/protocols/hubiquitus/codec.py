"""The subprotocol hubbub.hubiquitus.v1: text frames with one event of Hubiquitus each.

    > {"name":"hConnect","args":[{"publisher":"ann@demo","password":"<token>"}]}
    < {"name":"hStatus","args":[{"status":2,"errorCode":0}]}
    < {"name":"attrs","args":[{"publisher":"ann@demo/s1","sid":"s1","rid":7}]}

Events become requests of a session and its notices become events, so that all that a session
promises holds here too. A unit is one line for each frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from hubbub.domain import notices, requests
from hubbub.domain.commands.jids import Jid, parse_jid
from hubbub.domain.commands.mapping import from_message
from hubbub.domain.commands.objects import HResult, refusal, write_message, write_result
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.domain.errors import (
    AuthenticationTimeout,
    HubbubError,
    InvalidToken,
    Malformed,
    NotAuthenticated,
)
from hubbub.domain.messages import Message
from hubbub.domain.names import user_channel
from hubbub.domain.notices import Notice
from hubbub.domain.requests import Request
from hubbub.protocols.hubiquitus.events import (
    ClientEvent,
    ConnectionStatus,
    HStatus,
    StatusCode,
    read_event,
    write_event,
    write_status,
)

SUBPROTOCOL: Final = "hubbub.hubiquitus.v1"
PING: Final = b"\x00"
"""The unit of a heartbeat, sent as a ping of the WebSocket."""
SILENCE: Final = b""
"""The unit of a notice that has no event in this protocol."""
_LINE: Final = b"\n"
_JSON_OBJECT: Final = "eyJ"
"""A JSON object in base64, and so a JSON Web Token, begins with this."""
_UNREADABLE: Final = HStatus(ConnectionStatus.CONNECTED, StatusCode.TECHNICAL)
_ATTACH_FAILED: Final = HStatus(ConnectionStatus.CONNECTING, StatusCode.ATTACH_FAILED)
_CONNECTED: Final = HStatus(ConnectionStatus.CONNECTED, StatusCode.NONE)
_REATTACHED: Final = HStatus(ConnectionStatus.REATTACHED, StatusCode.NONE)
_AGAIN: Final = HStatus(ConnectionStatus.CONNECTED, StatusCode.ALREADY_CONNECTED)
_BAD_JID: Final = HStatus(
    ConnectionStatus.DISCONNECTED, StatusCode.JID_MALFORMED, "publisher is no JID; give user@domain"
)


class _Connecting(msgspec.Struct, frozen=True):
    publisher: Jid


class _Attaching(msgspec.Struct, frozen=True):
    pass


class _Commanding(msgspec.Struct, frozen=True):
    command: Any


_Asked = _Connecting | _Attaching | _Commanding | HStatus
"""The origin of a pending request; an `HStatus` is its response."""


class HubiquitusCodec:
    """The hub's side of one connection; tracks which user is connected."""

    subprotocol = SUBPROTOCOL
    opcode = 1
    prepare = None

    def __init__(self, hub: str, rid: int) -> None:
        """`rid` is the number of the first event; see `attrs`."""
        self.hub = hub
        self.rid = rid
        """The number of events sent, counted from a random start."""
        self._sid = ""
        self._jid: Jid | None = None
        """The connected user, with the session as resource."""
        self._session_id = ""
        self._asked: dict[int, _Asked] = {}
        self._numbers = 0
        self._readers: dict[str, Callable[[Any], Request]] = {
            "hConnect": self._connect,
            "attach": self._attach,
            "hCommand": self._command,
            "hResult": self._result,
        }
        self._writers: dict[type[Notice], Callable[[Any], bytes]] = {
            notices.SessionInfo: self._opened,
            notices.Authenticated: self._authenticated,
            notices.RestoreKey: self._restorable,
            notices.SessionRestored: self._restored,
            notices.Failed: self._failed,
            notices.Disconnect: self._disconnected,
            notices.CommandAnswered: self._answered,
            notices.CommandReceived: self._received,
            notices.MessageDelivery: lambda notice: self.encode_message(notice.message),
            notices.Ping: lambda notice: PING,
        }

    # -- in -------------------------------------------------------------------------------------

    def decode(self, data: bytes) -> list[Request]:
        try:
            event = read_event(data)
            return [self._reader(event)(event.value)]
        except Malformed as error:
            return [self._say(msgspec.structs.replace(_UNREADABLE, text=error.message))]

    def _reader(self, event: ClientEvent) -> Callable[[Any], Request]:
        try:
            return self._readers[event.name]
        except KeyError:
            known = ", ".join(self._readers)
            raise Malformed(f"there is no event {event.name[:40]!r}; send {known}") from None

    def _connect(self, value: Any) -> Request:
        given = value if isinstance(value, dict) else {}
        if self._jid is not None:
            return self._say(_AGAIN)
        publisher = given.get("publisher")
        jid = parse_jid(publisher) if isinstance(publisher, str) else None
        if jid is None:
            return self._say(_BAD_JID)
        password = given.get("password")
        if not isinstance(password, str) or not password or jid.domain != self.hub:
            return self._say(_refused("the password or the domain of the publisher is wrong"))
        number = self._ask(_Connecting(jid))
        if password.startswith(_JSON_OBJECT) and password.count(".") == 2:
            return requests.Authenticate(number, token=password)
        proof = {"publisher": str(jid.bare), "password": password}
        return requests.Authenticate(number, credentials=msgspec.json.encode(proof))

    def _attach(self, value: Any) -> Request:
        given = value if isinstance(value, dict) else {}
        publisher, sid = given.get("publisher"), given.get("sid")
        wanted = isinstance(publisher, str) and isinstance(sid, str) and sid
        if self._jid is not None or not wanted:
            return self._say(_ATTACH_FAILED)
        attachment = requests.ResumedSession(str(publisher), _number(given.get("rid")))
        return requests.Restore(str(sid), self._ask(_Attaching()), attachment=attachment)

    def _command(self, value: Any) -> Request:
        number = self._ask(_Commanding(value))
        if self._jid is None:
            return requests.UndecodableRequest(
                NotAuthenticated("connect first: send hConnect"), number
            )
        if not isinstance(value, dict):
            return requests.UndecodableRequest(Malformed("the hCommand is no object"), number)
        return requests.SendCommand(value, number)

    def _result(self, value: Any) -> Request:
        if not isinstance(value, dict):
            raise Malformed("the hResult is no object")
        if self._jid is None:
            return self._say(HStatus(ConnectionStatus.DISCONNECTED, StatusCode.NOT_CONNECTED))
        return requests.AnswerCommand(value)

    def _ask(self, asked: _Asked) -> int:
        self._numbers += 1
        self._asked[self._numbers] = asked
        return self._numbers

    def _say(self, status: HStatus) -> Request:
        """A request that is answered with this status."""
        return requests.UndecodableRequest(Malformed(status.text), self._ask(status))

    # -- out ------------------------------------------------------------------------------------

    def encode(self, notice: Notice) -> bytes:
        writer = self._writers.get(type(notice))
        return SILENCE if writer is None else writer(notice)

    def encode_message(self, message: Message) -> bytes:
        if self._jid is None:
            return SILENCE
        found = from_message(message)
        if message.channel == user_channel(self._jid.user):
            found = msgspec.structs.replace(found, chid=str(self._jid.bare))
        return self._counted("hMessage", write_message(found))

    def join(self, units: Sequence[bytes]) -> bytes:
        return _LINE.join(units)

    def _counted(self, name: str, value: Any) -> bytes:
        event = write_event(name, value)
        self.rid += 1
        return event

    def _opened(self, notice: notices.SessionInfo) -> bytes:
        self._session_id = self._sid = notice.session_id
        return SILENCE if notice.user_id is None else self._begin(notice.user_id, _CONNECTED)

    def _begin(self, user_id: str, status: HStatus) -> bytes:
        self._jid = Jid(user_id, self.hub, self._session_id)
        return write_status(status) + _LINE + self._attributes()

    def _attributes(self) -> bytes:
        attributes = {"publisher": str(self._jid), "sid": self._sid, "rid": self.rid}
        return write_event("attrs", attributes)

    def _authenticated(self, notice: notices.Authenticated) -> bytes:
        asked = self._asked.pop(notice.req_id, None)
        if notice.error is not None:
            return write_status(_refused(notice.error.message))
        assert isinstance(asked, _Connecting)
        if notice.user_id != asked.publisher.user:
            return write_status(_refused("the password belongs to another user"))
        return self._begin(asked.publisher.user, _CONNECTED)

    def _restorable(self, notice: notices.RestoreKey) -> bytes:
        """The session's restore key becomes the `sid` with which the client may attach once."""
        self._sid = notice.restore_key
        return SILENCE if self._jid is None else self._attributes()

    def _restored(self, notice: notices.SessionRestored) -> bytes:
        self._asked.pop(notice.req_id, None)
        self._session_id = notice.session_id
        self._jid = Jid(notice.user_id or "", self.hub, notice.session_id)
        return write_status(_REATTACHED)

    def _failed(self, notice: notices.Failed) -> bytes:
        asked = self._asked.pop(notice.req_id, None)
        if isinstance(asked, HStatus):
            return write_status(asked)
        if isinstance(asked, _Attaching):
            return write_status(_ATTACH_FAILED)
        if isinstance(asked, _Connecting):
            return write_status(_refused(notice.error.message))
        if isinstance(asked, _Commanding):
            return self._counted("hResult", write_result(_failure(asked.command, notice.error)))
        return SILENCE

    def _disconnected(self, notice: notices.Disconnect) -> bytes:
        error = notice.error
        code = StatusCode.TECHNICAL
        if isinstance(error, AuthenticationTimeout):
            code = StatusCode.TIMEOUT
        elif isinstance(error, NotAuthenticated | InvalidToken):
            code = StatusCode.AUTHENTICATION_FAILED
        return write_status(HStatus(ConnectionStatus.DISCONNECTED, code, error.message))

    def _answered(self, notice: notices.CommandAnswered) -> bytes:
        self._asked.pop(notice.req_id, None)
        return self._counted("hResult", notice.result)

    def _received(self, notice: notices.CommandReceived) -> bytes:
        return SILENCE if self._jid is None else self._counted("hCommand", notice.command)


def _number(value: Any) -> int | None:
    """Clients send `rid` as a number or as a string."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _refused(text: str) -> HStatus:
    return HStatus(ConnectionStatus.DISCONNECTED, StatusCode.AUTHENTICATION_FAILED, text)


def _failure(command: Any, error: HubbubError) -> HResult:
    status = Status.TECHNICAL
    if isinstance(error, NotAuthenticated):
        status = Status.NOT_CONNECTED
    elif isinstance(error, Malformed):
        status = Status.INVALID
    return refusal(command, CommandRefused(status, error.message))

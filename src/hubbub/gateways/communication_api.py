"""Messages to peers over HTTP: sending them, and receiving messages for adapters."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hubbub.domain.communication.messages import (
    HUB_IDS,
    MAX_TEXT,
    MAX_TOKEN,
    MAX_TTL_MS,
    MessagePolicy,
)
from hubbub.domain.communication.wire import MessageBody, WrittenContent, from_wire
from hubbub.domain.errors import (
    BadRequest,
    Conflict,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    Unavailable,
)
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.engine.communication.http_inputs import HttpInputs
from hubbub.engine.communication.service import Communication
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, NoQuery, no_path, read_query
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.http import TEXT_UTF8, ReceivedRequest, Target
from hubbub.gateways.routes import Access, Routes

_encode = msgspec.json.Encoder().encode


class SendQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transient: Annotated[
        bool, Meta(description="Answer at once; the message may be lost in a crash.")
    ] = False


class Sent(msgspec.Struct, frozen=True):
    """The message's id."""

    id: str


def _text(but: str = "", least: int = 0) -> dict[str, Any]:
    """A text validated by `check_fields`. `but`: a pattern of forbidden values."""
    pattern = rf"^{but}[^\u0000-\u001f\u007f-\u009f]*$"
    return {"minLength": least, "maxLength": MAX_TEXT, "pattern": pattern}


_NO_NAME = "(?!collective:(component:)?$)(?!component:$)"
_OF_HUB = rf"(?!.*\.({'|'.join(each[1:] for each in HUB_IDS)})$)"
_ONE_OF = {"minProperties": 1, "maxProperties": 1}
_Field = Annotated[str, Meta(extra_json_schema=_text())]
_Needed = Annotated[str, Meta(extra_json_schema=_text(least=1))]


class HandedIn(MessageBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that came by an adapter. The hub assigns an id where there is none; without a
    sender, the adapter is the sender."""

    id: Annotated[str, Meta(extra_json_schema=_text(_OF_HUB))] = ""
    type: _Needed
    subtype: _Needed
    sender: Annotated[str, Meta(extra_json_schema=_text(_NO_NAME))] = ""
    receiver: Annotated[str, Meta(extra_json_schema=_text(_NO_NAME))] = ""
    conversation_id: _Field = ""
    language: _Field = ""
    content: Annotated[str | WrittenContent, Meta(extra_json_schema=_ONE_OF)] = ""
    ttl: Annotated[int, Meta(ge=0, le=MAX_TTL_MS, description="Milliseconds; 0: no limit.")] = 0
    security_token: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_TOKEN})] = ""
    delivery_policy: MessagePolicy = "UNACKNOWLEDGED"
    refers_to: _Field = ""
    headers: Annotated[dict[str, str], Meta(description="8,192 characters in all.")] = (
        msgspec.field(default_factory=dict)
    )


class NewMessage(HandedIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message, as it is sent. The hub assigns an id where there is none; a client is its own
    sender. Types `CONTROL` and `AUTH` are the hub's."""

    type: Annotated[str, Meta(extra_json_schema=_text("(?!(CONTROL|AUTH)$)", least=1))]
    sender: Annotated[str, Meta(extra_json_schema=_text(_NO_NAME, least=1))]


def _adapter_or_caller(request: ReceivedRequest, target: Target, hub: Hub, node: Node) -> Identity:
    """Admits anyone if the adapter authenticates its own requests."""
    if _input_of(node, hub, target.segments[5]) is None:
        return require_identity(request, target, hub, node)
    node.throttle.admit(hub.name, ANONYMOUS, request.address)
    return ANONYMOUS


def _input_of(node: Node, hub: Hub, adapter: str) -> HttpInputs | None:
    inputs = node.feature(Communication).http_inputs
    return inputs if inputs is not None and inputs.serves(hub, adapter) else None


COMMUNICATION_API = Routes(
    "/v1/hubs/{hub}/comm", "Communication", Access.HUB,
    (BadRequest, Conflict, QuotaExceeded, Unavailable),
)  # fmt: skip


@COMMUNICATION_API.serve("POST", "/messages", body=NewMessage, answers={200: Sent})
async def send_message(node: Node, request: HubRequest[SendQuery]) -> bytes:
    """Send a message to a peer, a collective, a component or nobody."""
    message, transient = from_wire(request.request.body), request.query.transient
    sent = await node.feature(Communication).send(request.hub, request.identity, message, transient)
    return _encode(Sent(sent))


@COMMUNICATION_API.serve(
    "POST", "/input/{adapter}", body=HandedIn, answers={200: Sent},
    caller=_adapter_or_caller, any_query=True,
    errors=(BadRequest, Conflict, NotFound, QuotaExceeded, Unavailable),
)  # fmt: skip
def hand_in_message(node: Node, request: HubRequest[NoQuery]) -> Coroutine[Any, Any, bytes] | None:
    """Hand in a message that came by an adapter."""
    adapter = request.path["adapter"]
    if not adapter:
        raise no_path(request.request)
    inputs = _input_of(node, request.hub, adapter)
    if inputs is not None:
        request.exchange.run(_receive(inputs, request, adapter))
        return None
    if not request.identity.trusted:
        raise NotPermitted("only services hand in messages of adapters")
    read_query(request.target, NoQuery)
    return _take_in(node, request, adapter)


async def _receive(inputs: HttpInputs, request: HubRequest[NoQuery], adapter: str) -> None:
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1")
        for name, value in request.request.headers.items()
    }
    answer = await inputs.receive(request.hub, adapter, headers, request.request.body)
    request.exchange.answer(answer.status, answer.body, TEXT_UTF8)


async def _take_in(node: Node, request: HubRequest[NoQuery], adapter: str) -> bytes:
    message = from_wire(request.request.body)
    return _encode(Sent(await node.feature(Communication).take_in(request.hub, adapter, message)))

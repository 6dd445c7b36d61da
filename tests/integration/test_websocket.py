"""WebSocket over real sockets: both subprotocols, and everything a client can get wrong."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from harness.raw import (
    BINARY,
    CLOSE,
    HANDSHAKE,
    PING,
    PONG,
    TEXT,
    RawConnection,
    RawWebSocket,
    client_frame,
)
from harness.running_hub import RunningHub, StartHub
from hubbub.domain import notices, requests
from hubbub.domain.notices import Notice
from hubbub.domain.requests import PublishItem, Request, SubscribeItem
from hubbub.protocols.protobuf.codec import PROTOBUF_V1

shared = pytest.mark.asyncio(loop_scope="module")
JSON_PROTOCOL = Subprotocol("hubbub.json.v1")
PROTO_PROTOCOL = Subprotocol("hubbub.proto.v1")


class ProtoSocket(RawWebSocket):
    """A client of the protobuf subprotocol."""

    @classmethod
    async def greeted(cls, address: str) -> ProtoSocket:
        return await cls.connect(address, f"Sec-WebSocket-Protocol: {PROTO_PROTOCOL}")

    def ask(self, *asked: Request) -> None:
        units = [PROTOBUF_V1.encode_request(request) for request in asked]
        self.send(client_frame(BINARY, PROTOBUF_V1.join(units)))

    async def hear(self) -> list[Notice]:
        opcode, payload = await self.receive()
        assert opcode == BINARY
        return PROTOBUF_V1.decode_notices(payload)


def envelope(event: str, **payload: Any) -> bytes:
    return json.dumps({"event": event, "payload": payload}).encode()


async def still_serves(hub: RunningHub) -> None:
    """Nobody else noticed anything."""
    socket = await hub.socket()
    await socket.send("Ping", reqID=3)
    assert await socket.expect("Pong") == {"reqID": 3}
    await socket.connection.close()


# -- handshake ----------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-01")
@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, None),
        ("hubbub.json.v1", "hubbub.json.v1"),
        ("hubbub.proto.v1", "hubbub.proto.v1"),
        ("hubbub.proto.v1, hubbub.json.v1", "hubbub.proto.v1"),
        ("mqtt, hubbub.json.v1", "hubbub.json.v1"),
    ],
)
@shared
async def test_the_first_offered_subprotocol_that_is_known_is_chosen(
    shared_hub: RunningHub, offered: str | None, chosen: str | None
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        extra = [f"Sec-WebSocket-Protocol: {offered}"] if offered else []
        client.request("GET /v1/hubs/acme/socket", *HANDSHAKE, *extra)
        answer = await client.response()
        assert answer.status == 101
        assert answer.headers.get("sec-websocket-protocol") == chosen
        # For the key in harness.raw, as RFC 6455 4.2.2 computes it; here in lower case.
        assert answer.headers["sec-websocket-accept"] == "icx+yqv66kxgm0fcwalwlflwtai="


@pytest.mark.spec("LIVE-01", "OPS-03")
@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (("Sec-WebSocket-Version: 12",), 426),
        (("Sec-WebSocket-Version: 13, 13",), 426),
        (("Sec-WebSocket-Key: short",), 400),
        (("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAAA=",), 400),
        (("Sec-WebSocket-Key: ????????????????????????",), 400),
        (("Sec-WebSocket-Protocol: mqtt",), 400),
        (("Sec-WebSocket-Protocol: hubbub.json.v2",), 400),
    ],
)
@shared
async def test_a_wrong_handshake_is_refused_in_http(
    shared_hub: RunningHub, wrong: tuple[str, ...], status: int
) -> None:
    names = {header.partition(":")[0] for header in wrong}
    right = [header for header in HANDSHAKE if header.partition(":")[0] not in names]
    async with await RawConnection.open(shared_hub.address) as client:
        client.request("GET /v1/hubs/acme/socket", *right, *wrong)
        answer = await client.response()
        assert answer.status == status, answer.body
        if status == 426:
            assert answer.headers["sec-websocket-version"] == "13"
        assert await client.rest() == b""


@pytest.mark.spec("LIVE-01", "OPS-03")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST /v1/hubs/acme/socket", 400),
        ("GET /v1/hubs/acme/elsewhere", 404),
        ("GET /v1/hubs/acme/socket/more", 404),
        ("GET /v1/echo", 404),
        ("GET /", 404),
    ],
)
@shared
async def test_a_handshake_at_the_wrong_place_is_refused(
    shared_hub: RunningHub, line: str, status: int
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(line, *HANDSHAKE)
        assert (await client.response()).status == status


@pytest.mark.spec("LIVE-01")
@shared
async def test_a_handshake_in_http_1_0_is_refused(shared_hub: RunningHub) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        lines = ["GET /v1/hubs/acme/socket HTTP/1.0", "Host: test", *HANDSHAKE, "", ""]
        client.send("\r\n".join(lines).encode())
        assert (await client.response()).status == 400


@pytest.mark.spec("LIVE-01")
@pytest.mark.parametrize(
    ("hub_name", "code"), [("nowhere", "hub_not_found"), ("%00", "invalid_name")]
)
@shared
async def test_who_connects_to_no_hub_can_read_why(
    shared_hub: RunningHub, hub_name: str, code: str
) -> None:
    token = shared_hub.token(hub=hub_name)
    headers = {"Authorization": f"Bearer {token}"}
    socket = await shared_hub.raw_socket(hub_name, additional_headers=headers)
    said = await socket.expect("Disconnect")
    assert (said["code"], said["reconnect"]) == (code, False)
    assert (await socket.closed())[0] in (4400, 4404)


@pytest.mark.spec("LIVE-01")
@shared
async def test_frames_behind_the_handshake_in_the_same_packet_are_read(
    shared_hub: RunningHub,
) -> None:
    async with await RawWebSocket.open(shared_hub.address) as client:
        lines = ["GET /v1/hubs/acme/socket HTTP/1.1", "Host: test", *HANDSHAKE, "", ""]
        ping = client_frame(TEXT, envelope("Ping", reqID=9))
        client.send("\r\n".join(lines).encode() + ping)
        assert (await client.response()).status == 101
        assert (await client.envelopes())[0]["event"] == "SessionInfo"
        assert await client.envelopes() == [{"event": "Pong", "payload": {"reqID": 9}}]


# -- both subprotocols --------------------------------------------------------------------------


@pytest.mark.spec("LIVE-01")
@shared
async def test_protobuf_and_json_clients_hear_each_other(shared_hub: RunningHub) -> None:
    json_client = await shared_hub.socket()
    await json_client.subscribe("w:both")
    async with await ProtoSocket.greeted(shared_hub.address) as proto_client:
        proto_client.ask(requests.Subscribe((SubscribeItem("w:both"),), req_id=4))
        (subscribed,) = await proto_client.hear()
        assert isinstance(subscribed, notices.Subscribed)
        assert (subscribed.req_id, subscribed.channels[0].channel) == (4, "w:both")

        item = PublishItem("w:both", "blob", b"\x00\xff", "image/png", req_id=5)
        proto_client.ask(requests.Publish((item,)))
        delivered = await json_client.find("Publish")
        assert delivered["payload"] == {"base64": "AP8="}
        assert delivered["contentType"] == "image/png"
        heard = [*await proto_client.hear(), *await proto_client.hear()]
        ack = next(each for each in heard if isinstance(each, notices.Published))
        own = next(each for each in heard if isinstance(each, notices.MessageDelivery))
        assert ack.results[0].message_id == own.message.id == delivered["msgID"]
        assert own.message.payload == b"\x00\xff"

        await json_client.publish("w:both", {"json": {"a": [1, None, "ü"]}})
        (heard_json,) = await proto_client.hear()
        assert isinstance(heard_json, notices.MessageDelivery)
        assert json.loads(heard_json.message.payload) == {"a": [1, None, "ü"]}
        assert heard_json.message.content_type == "application/json"


@pytest.mark.spec("LIVE-01")
@shared
async def test_several_envelopes_in_one_frame_are_handled_in_order(shared_hub: RunningHub) -> None:
    async with await RawWebSocket.connect(shared_hub.address) as client:
        batch = [
            envelope("Ping", reqID=1),
            b"",
            b"{",
            envelope("Nonsense"),
            envelope("Ping", reqID=2),
        ]
        client.send(client_frame(TEXT, b"\n".join(batch)))
        heard: list[dict[str, Any]] = []
        while len(heard) < 4:
            heard += await client.envelopes()
        assert [each["event"] for each in heard] == ["Pong", "Error", "Error", "Pong"]
        codes = [each["payload"]["error"]["code"] for each in heard[1:3]]
        assert codes == ["malformed", "unknown_event"]
    async with await ProtoSocket.greeted(shared_hub.address) as proto:
        proto.ask(requests.Ping(1), requests.Ping(2))
        assert [*await proto.hear(), *await proto.hear()] == [notices.Pong(1), notices.Pong(2)]


@pytest.mark.spec("LIVE-01", "LIVE-08")
@shared
async def test_a_publish_without_request_id_gets_no_reply(shared_hub: RunningHub) -> None:
    socket = await shared_hub.socket()
    silent = {"channel": "w:silent", "payload": {"json": 1}}
    denied = {"channel": "notification:x", "payload": {"json": 1}}
    await socket.send("Publish", publishes=[silent, denied])
    await socket.send("Ping", reqID=1)
    assert (await socket.next())["event"] == "Pong"


@pytest.mark.spec("LIVE-01", "OPS-03")
@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":\n1,\r\n"b":\t2}',
        b'"line\\nbreak \\u2028 \\u0000"',
        b'"\\"}\\n{\\"event\\":\\"Disconnect\\"}"',
        b"123456789012345678901234567890",
        b"-0.0",
        b'{"a":1,"a":2}',
        '"😀\u2028"'.encode(),
    ],
)
@shared
async def test_no_json_payload_breaks_the_frame_of_another(
    shared_hub: RunningHub, payload: bytes
) -> None:
    """The subscriber gets one readable envelope with the same value, and its stream goes on."""
    subscriber = await shared_hub.socket()
    await subscriber.subscribe("w:frames")
    async with await RawWebSocket.connect(shared_hub.address) as client:
        item = b'{"channel":"w:frames","payload":{"json":%b},"reqID":1}' % payload
        client.send(client_frame(TEXT, b'{"event":"Publish","payload":{"publishes":[%b]}}' % item))
        (ack,) = await client.envelopes()
        assert ack["payload"]["published"][0]["success"], ack
    delivered = await subscriber.expect("Publish")
    assert delivered["payload"]["json"] == json.loads(payload)
    await subscriber.send("Ping", reqID=1)
    assert (await subscriber.next())["event"] == "Pong"


@pytest.mark.spec("LIVE-01", "OPS-03")
@pytest.mark.parametrize(
    "payload",
    [
        b'"\\ud800"',
        b"[" * 300 + b"]" * 300,
        b"[" * 60_000 + b"]" * 60_000,
        b"NaN",
        b"Infinity",
        b"{'a':1}",
        b'{"a":1}}',
        b'"\x01"',
        b"01",
    ],
    ids=["lone surrogate", "deep", "very deep", "NaN", "Infinity", "quotes", "extra", "raw", "01"],
)
@shared
async def test_json_that_some_readers_choke_on_is_refused(
    shared_hub: RunningHub, payload: bytes
) -> None:
    subscriber = await shared_hub.socket()
    await subscriber.subscribe("w:choke")
    async with await RawWebSocket.connect(shared_hub.address) as client:
        item = b'{"channel":"w:choke","payload":{"json":%b},"reqID":1}' % payload
        client.send(client_frame(TEXT, b'{"event":"Publish","payload":{"publishes":[%b]}}' % item))
        (answer,) = await client.envelopes()
        refused = answer["payload"]
        error = refused["error"] if "error" in refused else refused["published"][0]["error"]
        assert error["code"] in ("malformed", "invalid_payload"), answer
    await subscriber.send("Ping", reqID=1)
    assert (await subscriber.next())["event"] == "Pong"


@pytest.mark.spec("LIVE-01", "LIVE-17", "OPS-03")
@pytest.mark.parametrize(
    ("sent", "code", "req_id"),
    [
        (b"", "malformed", None),
        (b"hello", "malformed", None),
        (b"[]", "malformed", None),
        (b"{}", "malformed", None),
        (b'{"event":1}', "malformed", None),
        (b'{"event":"Subscribe"}', "malformed", None),
        (b'{"event":"subscribe","payload":{"reqID":7}}', "unknown_event", 7),
        (b'{"event":"SessionInfo","payload":{"reqID":7}}', "unknown_event", 7),
        (b'{"event":"Subscribe","payload":{"reqID":7}}', "malformed", 7),
        (b'{"event":"Subscribe","payload":{"reqID":7,"channels":"a"}}', "malformed", 7),
        (b'{"event":"Subscribe","payload":{"reqID":7,"channels":["a"]}}', "malformed", 7),
        (b'{"event":"Subscribe","payload":{"reqID":"7","channels":[]}}', "malformed", None),
        (b'{"event":"Subscribe","payload":[]}', "malformed", None),
        (b'{"event":"Publish","payload":{}}', "malformed", None),
        (b'{"event":"Publish","payload":{"publishes":{}}}', "malformed", None),
        (b'{"event":"Auth","payload":{"reqID":7}}', "malformed", 7),
        (b'{"event":"Auth","payload":{"reqID":7,"token":1}}', "malformed", 7),
        (b'{"event":"History","payload":{"reqID":7}}', "malformed", 7),
        (b'{"event":"Ping","payload":{"reqID":99999999999999999999}}', "malformed", None),
        (b'{"event":"SessionRestore","payload":{"reqID":7}}', "malformed", 7),
        (b'{"event":"Ping","payload":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "malformed", None),
    ],
)
@shared
async def test_a_wrong_envelope_gets_an_error_and_the_session_goes_on(
    shared_hub: RunningHub, sent: bytes, code: str, req_id: int | None
) -> None:
    async with await RawWebSocket.connect(shared_hub.address) as client:
        client.send(client_frame(TEXT, sent))
        (answer,) = await client.envelopes()
        assert answer["event"] == "Error"
        assert answer["payload"]["error"]["code"] == code, answer
        assert answer["payload"].get("reqID") == req_id
        client.send(client_frame(TEXT, envelope("Ping")))
        assert (await client.envelopes())[0]["event"] == "Pong"


@pytest.mark.spec("LIVE-01", "LIVE-17", "OPS-03")
@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("DocumentChange", b'{"reqID":7,"channel":"doc:a","ops":[{"op":"add","value":"%b"}]}'),
        ("Subscribe", b'{"reqID":7,"channels":[{"channel":"w:%b"}]}'),
        ("Publish", b'{"publishes":[{"channel":"w:a","payload":{"json":"%b"},"reqID":7}]}'),
        ("RPC", b'{"reqID":7,"method":"m","payload":{"text":"%b \\\\ud83d"}}'),
    ],
)
@pytest.mark.parametrize("text", [b"\\ud800", b"a\\uDC00b", b"\\ud83d\\u0041"])
@shared
async def test_a_lone_surrogate_is_named_to_the_request_that_holds_it(
    shared_hub: RunningHub, event: str, payload: bytes, text: bytes
) -> None:
    async with await RawWebSocket.connect(shared_hub.address) as client:
        sent = b'{"event":"%b","payload":%b}' % (event.encode(), payload % text)
        client.send(client_frame(TEXT, sent))
        (answer,) = await client.envelopes()
        assert (answer["event"], answer["payload"]["reqID"]) == ("Error", 7)
        assert answer["payload"]["error"]["code"] == "malformed"
        assert "lone surrogate" in answer["payload"]["error"]["message"]


@pytest.mark.spec("LIVE-01", "OPS-03")
@pytest.mark.parametrize(
    "sent", [b"", b"\xff", b"\x0a\x05\x08\x14\x12\x01\xff", b"\x0a\x02\x08\x63"]
)
@shared
async def test_a_wrong_protobuf_frame_gets_an_error_and_the_session_goes_on(
    shared_hub: RunningHub, sent: bytes
) -> None:
    async with await ProtoSocket.greeted(shared_hub.address) as client:
        client.send(client_frame(BINARY, sent))
        (answer,) = await client.hear()
        assert isinstance(answer, notices.Failed)
        assert answer.error.code in ("malformed", "unknown_event")
        client.ask(requests.Ping(1))
        assert await client.hear() == [notices.Pong(1)]


@pytest.mark.spec("LIVE-01")
@shared
async def test_fields_that_the_hub_does_not_know_are_ignored(shared_hub: RunningHub) -> None:
    """A newer client may send them."""
    socket = await shared_hub.socket()
    await socket.send("Subscribe", reqID=1, channels=[{"channel": "w:new", "colour": 1}], more={})
    assert (await socket.expect("Subscribe"))["subscribedChannels"] == ["w:new"]


# -- frames -------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-01")
@shared
async def test_a_fragmented_message_with_a_ping_inside_is_put_together(
    shared_hub: RunningHub,
) -> None:
    async with await RawWebSocket.connect(shared_hub.address) as client:
        text = envelope("Ping", reqID=12)
        client.send(client_frame(TEXT, text[:5], fin=False))
        client.send(client_frame(0, text[5:9], fin=False))
        client.send(client_frame(PING, b"are you there"))
        client.send(client_frame(0, b"", fin=False))
        client.send(client_frame(0, text[9:]))
        assert await client.receive() == (PONG, b"are you there")
        assert await client.envelopes() == [{"event": "Pong", "payload": {"reqID": 12}}]


@pytest.mark.spec("LIVE-01")
@shared
async def test_a_frame_that_drips_in_byte_by_byte_is_read(shared_hub: RunningHub) -> None:
    async with await RawWebSocket.connect(shared_hub.address) as client:
        for byte in client_frame(TEXT, envelope("Ping", reqID=12)):
            client.send(bytes([byte]))
            await client.writer.drain()
        assert await client.envelopes() == [{"event": "Pong", "payload": {"reqID": 12}}]


@pytest.mark.spec("LIVE-01", "OPS-03")
@pytest.mark.parametrize(
    ("sent", "close_code"),
    [
        (client_frame(TEXT, b"{}", masked=False), 1002),
        (client_frame(3, b""), 1002),
        (client_frame(11, b""), 1002),
        (client_frame(TEXT, b"{}", rsv=4), 1002),
        (client_frame(TEXT, b"{}", rsv=1), 1002),
        (client_frame(0, b"x"), 1002),
        (client_frame(TEXT, b"a", fin=False) + client_frame(TEXT, b"b"), 1002),
        (client_frame(PING, b"x" * 126), 1002),
        (client_frame(PING, b"", fin=False), 1002),
        (client_frame(CLOSE, b"\x03"), 1002),
        (client_frame(CLOSE, (1005).to_bytes(2, "big")), 1002),
        (client_frame(CLOSE, (1000).to_bytes(2, "big") + b"\xff"), 1007),
        (b"\x81\xfe\x00\x01\x00\x00\x00\x00a", 1002),
        (b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1002),
        (client_frame(TEXT, b"\xff"), 1007),
        (client_frame(TEXT, b"\xed\xa0\x80"), 1007),
        (client_frame(TEXT, b"\xf0\x9f", fin=False) + client_frame(0, b"x"), 1007),
        (client_frame(BINARY, b"\x0a\x00"), 1003),
        (b"\x81\xff\x00\x00\x00\x00\x7f\xff\xff\xff", 1009),
    ],
    ids=lambda value: "frame" if isinstance(value, bytes) else None,
)
@shared
async def test_a_broken_frame_is_answered_with_the_standards_code(
    shared_hub: RunningHub, sent: bytes, close_code: int
) -> None:
    async with await RawWebSocket.connect(shared_hub.address) as client:
        # What was right before the broken frame is still answered.
        client.send(client_frame(TEXT, envelope("Ping", reqID=1)) + sent)
        assert (await client.envelopes())[0]["event"] == "Pong"
        (said,) = await client.envelopes()
        assert said["event"] == "Disconnect"
        assert said["payload"]["code"] == ("too_large" if close_code == 1009 else "malformed")
        assert said["payload"]["reconnect"] is False
        assert await client.close_code() == close_code
    await still_serves(shared_hub)


@pytest.mark.spec("LIVE-01")
@shared
async def test_text_on_a_protobuf_socket_is_refused(shared_hub: RunningHub) -> None:
    async with await ProtoSocket.greeted(shared_hub.address) as client:
        client.send(client_frame(TEXT, envelope("Ping")))
        (said,) = await client.hear()
        assert isinstance(said, notices.Disconnect)
        assert await client.close_code() == 1003


@pytest.mark.spec("LIVE-01", "LIVE-16")
async def test_a_message_over_the_limit_is_refused_whole_or_in_fragments(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(connection__ws__maxMessageBytes=1024)
    for frames in (
        [client_frame(TEXT, b"x" * 1025)],
        [client_frame(TEXT, b"x" * 600, fin=False), client_frame(0, b"x" * 600)],
    ):
        async with await RawWebSocket.connect(hub.address) as client:
            for each in frames:
                client.send(each)
            assert await client.close_code() == 1009
    async with await RawWebSocket.connect(hub.address) as client:
        ping = envelope("Ping", reqID=1)
        client.send(client_frame(TEXT, ping + b" " * (1024 - len(ping))))
        assert (await client.envelopes())[0]["event"] == "Pong"


@pytest.mark.spec("LIVE-01")
@pytest.mark.parametrize(
    ("payload", "echoed"), [(b"", b""), (b"\x03\xe8bye", b"\x03\xe8"), (b"\x0f\xa0", b"\x0f\xa0")]
)
@shared
async def test_a_close_is_answered_with_its_own_code(
    shared_hub: RunningHub, payload: bytes, echoed: bytes
) -> None:
    async with await RawWebSocket.connect(shared_hub.address) as client:
        client.send(client_frame(CLOSE, payload))
        opcode, answer = await client.receive()
        assert (opcode, answer[:2]) == (CLOSE, echoed)
        assert await client.rest() == b""


# -- compression --------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-01")
async def test_subscribers_that_share_compression_get_the_same_bytes(start_hub: StartHub) -> None:
    hub = await start_hub(connection__ws__compression=True)
    offer = "Sec-WebSocket-Extensions: permessage-deflate"
    subscribers = [await RawWebSocket.connect(hub.address, offer) for _ in range(3)]
    subscribe = envelope("Subscribe", channels=[{"channel": "z"}])
    for client in subscribers:
        client.send(client_frame(TEXT, subscribe))
        await client.receive()
    plain = await hub.socket()
    await plain.subscribe("z")
    text = "over and over " * 100
    async with await RawWebSocket.connect(hub.address, offer) as publisher:
        squeeze = zlib.compressobj(wbits=-15)
        item = {"channel": "z", "payload": {"text": text}, "reqID": 1}
        data = squeeze.compress(envelope("Publish", publishes=[item]))
        data += squeeze.flush(zlib.Z_SYNC_FLUSH)
        publisher.send(client_frame(TEXT, data.removesuffix(b"\x00\x00\xff\xff"), rsv=4))
        await publisher.receive()
    received = [await client.receive() for client in subscribers]
    assert received[0] == received[1] == received[2]
    _, squeezed = received[0]
    assert len(squeezed) < len(text) // 4
    delivered = zlib.decompressobj(wbits=-15).decompress(squeezed + b"\x00\x00\xff\xff")
    assert json.loads(delivered)["payload"]["payload"] == {"text": text}
    assert (await plain.expect("Publish"))["payload"] == {"text": text}
    for client in subscribers:
        await client.__aexit__()


@pytest.mark.spec("LIVE-01", "LIVE-16")
async def test_a_compressed_bomb_is_refused(start_hub: StartHub) -> None:
    hub = await start_hub(connection__ws__compression=True)
    offer = "Sec-WebSocket-Extensions: permessage-deflate"
    async with await RawWebSocket.connect(hub.address, offer) as client:
        squeeze = zlib.compressobj(wbits=-15)
        bomb = squeeze.compress(b"a" * 50_000_000) + squeeze.flush(zlib.Z_SYNC_FLUSH)
        client.send(client_frame(TEXT, bomb[:-4], rsv=4))
        assert await client.close_code() == 1009
    async with await RawWebSocket.connect(hub.address, offer) as client:
        client.send(client_frame(TEXT, b"\x00\x01\x02not deflate", rsv=4))
        assert await client.close_code() in (1002, 1007)
    await still_serves(hub)


@pytest.mark.spec("LIVE-01")
async def test_a_library_client_can_use_compression(start_hub: StartHub) -> None:
    hub = await start_hub(connection__ws__compression=True)
    url = f"ws://{hub.address}/v1/hubs/acme/socket"
    async with connect(url, subprotocols=[JSON_PROTOCOL], proxy=None) as client:
        assert client.subprotocol == JSON_PROTOCOL
        assert client.protocol.extensions
        assert json.loads(await client.recv())["event"] == "SessionInfo"
        await client.send(envelope("Ping", reqID=1).decode() + " " * 5000)
        assert json.loads(await client.recv())["event"] == "Pong"


@pytest.mark.spec("LIVE-01")
@shared
async def test_compression_is_not_used_unless_configured(shared_hub: RunningHub) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        offer = "Sec-WebSocket-Extensions: permessage-deflate"
        client.request("GET /v1/hubs/acme/socket", *HANDSHAKE, offer)
        assert "sec-websocket-extensions" not in (await client.response()).headers


@pytest.mark.spec("OPS-04")
@shared
async def test_the_echo_of_developer_mode_is_not_there_otherwise(shared_hub: RunningHub) -> None:
    async with shared_hub.http.get("/v1/echo") as answer:
        assert answer.status == 404

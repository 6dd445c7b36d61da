"""Light-PubSubHubbub from the publisher to the subscriber: the requests of the paper as it prints
them, and what arrives."""

from __future__ import annotations

import asyncio
import json
from zlib import crc32

import pytest

from harness.callbacks import Callbacks
from harness.light import Light
from harness.raw import RawConnection, Response
from harness.running_hub import RunningHub
from hubbub.client.webhooks.receiver import Delivery, Receiver
from hubbub.domain.webhooks import verify_signature

shared = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.spec("WEB-01")

ACCEPT = "Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
HEAD = ("User-Agent: Java/1.6.0_43", "Host: 127.0.0.1:8084", ACCEPT, "Connection: keep-alive")
NEWS = b"The 2014 FIFA World Cup will take place in Brazil from 12 June to 13 July 2014\r\n"


def printed(line: str, body: bytes = b"") -> bytes:
    """A request as in figures 3 to 6, with the headers in their order."""
    lines = [f"{line} HTTP/1.1"]
    if body:
        lines.append("Content-Type: text/plain")
    lines += HEAD
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@shared
@pytest.mark.parametrize("path", ["hub", "Hub"])
async def test_the_four_requests_of_the_paper_work_as_they_are_printed(
    demo: RunningHub, path: str
) -> None:
    """Two things are different: the port is where somebody listens, and so is the one that is
    taken back. The figures' lengths count a line break behind the body."""
    topic = f"sports-{path}".encode()
    async with Callbacks() as callbacks, await RawConnection.open(demo.address) as wire:

        async def say(line: str, body: bytes = b"") -> Response:
            wire.send(printed(line, body))
            return await wire.response()

        registered = await say(f"PUT /{path}/register", topic)
        assert (registered.status, registered.body) == (
            201,
            b"the topic '%b' is registered\n" % topic,
        )
        where = b'{"address":"127.0.0.1","port":"%d","topic":"%b"}\r\n' % (callbacks.port, topic)
        assert (await say(f"PUT /{path}/subscribe", where)).status == 200
        assert (await say(f"POST /{path}/publish/{topic.decode()}", NEWS)).status == 200

        told = await callbacks.next()
        assert (told.method, told.target, told.body) == ("POST", "/", NEWS)
        assert told.headers["content-type"] == "text/plain"

        query = f"address=127.0.0.1&idTopic={topic.decode()}&port={callbacks.port}"
        left = await say(f"DELETE /{path}/unsubscribe/?{query}")
        assert (left.status, b"any more" in left.body) == (200, True)
        again = await say(f"DELETE /{path}/unsubscribe/?{query}")
        assert (again.status, b"was not subscribed" in again.body) == (200, True)
        assert (await say(f"POST /{path}/publish/{topic.decode()}", b"late")).status == 200
    assert len(callbacks.received) == 1


@shared
async def test_the_same_with_curl(demo: RunningHub) -> None:
    base = f"http://{demo.address}/hub"

    async def curl(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "curl", "-sS", "--fail-with-body", *arguments, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output
        return output.decode()

    text = ("-H", "Content-Type: text/plain")
    async with Callbacks() as callbacks:
        where = json.dumps({"address": "127.0.0.1", "port": str(callbacks.port), "topic": "sports"})
        await curl("-X", "PUT", *text, "-d", "sports", f"{base}/register")
        await curl("-X", "PUT", *text, "-d", where, f"{base}/subscribe")
        await curl("-X", "POST", *text, "--data-binary", NEWS.decode(), f"{base}/publish/sports")
        assert (await callbacks.next()).body == NEWS
        query = f"address=127.0.0.1&idTopic=sports&port={callbacks.port}"
        assert "any more" in await curl("-X", "DELETE", f"{base}/unsubscribe/?{query}")
        printed_port = "address=127.0.0.1&idTopic=sports&port=14746"
        await curl("-X", "DELETE", f"{base}/unsubscribe/?{printed_port}")


@shared
async def test_what_is_published_without_subscribers_is_told_to_nobody(demo: RunningHub) -> None:
    light = Light(demo)
    await light.register("early")
    assert (await light.publish("early", "nobody is here")).status == 200

    async with Callbacks() as callbacks:
        await light.subscribe(callbacks.port, "early")
        await light.publish("early", "now")
        assert (await callbacks.next()).body == b"now"


@shared
async def test_a_subscriber_is_address_port_and_topic(demo: RunningHub) -> None:
    """The same three again are the same subscriber; another topic or port is another one."""
    light = Light(demo)
    async with Callbacks() as one, Callbacks() as two:
        for topic in ("triple-a", "triple-b"):
            await light.register(topic)
        await light.subscribe(one.port, "triple-a")
        await light.subscribe(str(one.port), "triple-a")
        await light.subscribe(one.port, "triple-b")
        await light.subscribe(two.port, "triple-a")
        await light.publish("triple-a", "a")
        assert (await two.next()).body == b"a"
        assert (await one.next()).body == b"a"
        await light.publish("triple-b", "b")
        assert (await one.next()).body == b"b"
        await light.unsubscribe(one.port, "triple-a")
        await light.publish("triple-a", "c")
        assert (await two.next()).body == b"c"
        await light.publish("triple-b", "d")
        assert (await one.next()).body == b"d"


@shared
@pytest.mark.parametrize(
    ("body", "content_type", "sent"),
    [
        ("<news>ä</news>".encode(), "application/xml", "application/xml"),
        (b'{\n  "a": 1\n}\n', "application/json", "application/json"),
        (b'{"a":1}', "application/json", "application/json"),
        (b"not JSON", "application/json", "application/json"),
        ("Grüße\r\n".encode(), "text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("Grüße".encode("latin-1"), "text/plain; charset=iso-8859-1", None),
        (bytes(range(256)), "application/octet-stream", "application/octet-stream"),
        (b"", "text/plain", "text/plain"),
    ],
)
async def test_any_body_is_forwarded_as_it_is(
    demo: RunningHub, body: bytes, content_type: str, sent: str | None
) -> None:
    light = Light(demo)
    topic = f"bodies-{crc32(body + content_type.encode()):x}"
    async with Callbacks() as callbacks:
        await light.register(topic)
        await light.subscribe(callbacks.port, topic)
        assert (await light.publish(topic, body, Content_Type=content_type)).status == 200

        told = await callbacks.next()
        assert told.body == body
        assert told.headers["content-type"].lower() == (sent or content_type)


@shared
async def test_a_topic_is_a_channel_that_others_see_and_publish_to(demo: RunningHub) -> None:
    light = Light(demo)
    await light.register("both-ways")
    socket = await demo.socket("demo")
    await socket.subscribe("both-ways")
    async with Callbacks() as callbacks:
        await light.subscribe(callbacks.port, "both-ways")
        await light.publish("both-ways", "from Light", Content_Type="text/plain")
        seen = await socket.find("Publish")
        assert seen["payload"] == {"text": "from Light"}
        assert (await callbacks.next()).body == b"from Light"

        await socket.publish("both-ways", {"text": "from a socket"})
        assert (await callbacks.next()).body == b"from a socket"


@pytest.mark.spec("WEB-02")
@shared
async def test_payloads_can_be_signed_and_encrypted(demo: RunningHub) -> None:
    light = Light(demo)
    key = "AAECAwQFBgcICQoLDA0ODw"
    async with Callbacks() as callbacks:
        await light.register("sealed")
        asked = {"secret": "s3cret", "algorithm": "sha512", "key": key, "path": "/in?a=b"}
        assert (await light.subscribe(callbacks.port, "sealed", **asked)).status == 200
        await light.publish("sealed", "for you only", Content_Type="text/plain")
        told = await callbacks.next()

    assert told.target == "/in?a=b"
    assert b"for you" not in told.body
    assert told.headers["content-encoding"] == "aes128gcm"
    assert told.headers["x-hub-signature"].startswith("sha512=")
    assert verify_signature(b"s3cret", told.headers["x-hub-signature"], told.body)
    read: list[Delivery] = []
    receiver = Receiver(secret="s3cret", key=key)
    receiver.answer("POST", told.target, told.headers, told.body, read.append)
    assert (read[0].text, read[0].content_type) == ("for you only", "text/plain")
    assert (read[0].hub, read[0].channel, read[0].attempt) == ("demo", "sealed", 1)

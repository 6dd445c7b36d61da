"""Clients hand events to streams; without NATS they are in the journal, stamped and durable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.journal import journal_events
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import Codec, TopicSocket
from hubbub.client import connect
from hubbub.domain import errors, notices, requests
from hubbub.domain.journal import STREAM_EVENT
from hubbub.domain.messages import BINARY, JSON
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import Quotas
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1

both = pytest.mark.parametrize(
    "codec", [JSON_V1, PROTOBUF_V1], ids=lambda codec: str(codec.subprotocol)
)
pytestmark = pytest.mark.spec("LIVE-18")

CLICKS = Grant("stream:clicks", publish=True)


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    """A server of the test's own, whose files the tests read."""
    return await start_server()


def events_of(folder: Path) -> list[Any]:
    return [
        each for each in journal_events(folder / "data" / "journal") if each.kind == STREAM_EVENT
    ]


@both
async def test_an_event_is_on_disk_with_user_and_session_when_it_is_acknowledged(
    hub: RunningHub, tmp_path: Path, codec: Codec
) -> None:
    async with await TopicSocket.open(hub, codec, hub.token(grants=(CLICKS,))) as socket:
        answer = await socket.ask(requests.Enqueue, "clicks", "click", b'{"a":1}', JSON)
        assert isinstance(answer, notices.Enqueued)
        (session,) = hub.server.node.hub("acme").sessions.values()
        (event,) = events_of(tmp_path)
    assert (event.hub, event.channel, event.event) == ("acme", "stream:clicks", "click")
    assert (event.user, event.session) == ("ann", session.id)
    assert (event.payload, event.content_type) == (b'{"a":1}', JSON)
    assert (event.message_id, event.technology) == (answer.message_id, "websocket")


async def test_http_submits_too(hub: RunningHub, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {hub.token(grants=(CLICKS,))}"}
    path = "/v1/hubs/acme/streams/clicks/events"
    async with hub.http.post(f"{path}?event=e", data=b"\xff", headers=headers) as answer:
        assert answer.status == 200
        message_id = (await answer.json())["msgID"]
    (event,) = events_of(tmp_path)
    assert (event.message_id, event.payload, event.content_type) == (message_id, b"\xff", BINARY)
    assert (event.user, event.session) == ("ann", None)


@pytest.mark.spec("LIVE-07")
async def test_only_who_is_granted_the_stream_may_submit(hub: RunningHub, tmp_path: Path) -> None:
    for grants, allowed in (
        ((), False),
        ((Grant("stream:views", publish=True),), False),
        ((Grant("stream:clicks", subscribe=True),), False),
        ((Grant("clicks", publish=True),), False),
        ((Grant("stream:*", publish=True),), True),
    ):
        async with await TopicSocket.open(hub, JSON_V1, hub.token(grants=grants)) as socket:
            answer = await socket.ask(requests.Enqueue, "clicks", "", b"1", JSON)
        if allowed:
            assert isinstance(answer, notices.Enqueued)
        else:
            assert answer.error.code == "not_permitted"
    assert len(events_of(tmp_path)) == 1


async def test_many_events_share_a_sync_and_none_is_lost(hub: RunningHub, tmp_path: Path) -> None:
    token = hub.token(level=Level.SERVICE)
    async with connect(f"ws://{hub.address}", hub="acme", token=token) as client:
        ids = [
            event_id
            for start in range(0, 120, 30)
            for event_id in await asyncio.gather(
                *(client.submit("clicks", {"n": start + n}) for n in range(30))
            )
        ]
    found = events_of(tmp_path)
    assert [event.message_id for event in found] == ids
    assert [event.payload for event in found] == [b'{"n":%d}' % n for n in range(120)]


async def test_without_a_journal_there_is_a_clear_error(start_server: StartHub) -> None:
    hub = await start_server(journal__enabled=False)
    token = hub.token(level=Level.SERVICE)
    async with connect(f"ws://{hub.address}", hub="acme", token=token) as client:
        with pytest.raises(errors.StreamUnavailable, match=r"journal\.enabled"):
            await client.submit("clicks", 1)


@pytest.mark.parametrize("stream", ["", "a*b", "x" * 300])
async def test_wrong_names_are_refused(hub: RunningHub, stream: str) -> None:
    token = hub.token(level=Level.SERVICE)
    async with connect(f"ws://{hub.address}", hub="acme", token=token) as client:
        with pytest.raises(errors.InvalidName):
            await client.submit(stream, 1)


async def test_a_quota_bounds_what_a_hub_hands_in_and_no_other_hub_pays(
    start_server: StartHub,
) -> None:
    quotas = Quotas(stream_bytes_per_second=1)
    hub = await start_server(open_hub("acme", quotas=quotas), open_hub("other"))

    async def submit(name: str) -> int:
        headers = {"Authorization": f"Bearer {hub.token(hub=name, level=Level.SERVICE)}"}
        path = f"/v1/hubs/{name}/streams/clicks/events?event=e"
        async with hub.http.post(path, data=b"x" * 700, headers=headers) as answer:
            return answer.status

    assert [await submit("acme") for _ in range(3)] == [200, 429, 429]
    assert [await submit("other") for _ in range(3)] == [200, 200, 200]

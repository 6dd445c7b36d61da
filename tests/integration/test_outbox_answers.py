"""The outbox and what a hub may answer, or not: each answer by a scripted hub, at the moment that
matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.scripted_hub import ScriptedHub, Visitor, scripted_hub
from hubbub.client import (
    ClientClosed,
    FileInUse,
    HubbubError,
    Options,
    Outbox,
    OutboxMismatch,
    Refusal,
    connect,
)
from hubbub.client.outbox.sender import OnRefused
from hubbub.domain import notices, requests
from hubbub.domain.errors import (
    Internal,
    InvalidToken,
    NotPermitted,
    ProducerFenced,
    RateLimited,
    SequenceGap,
    StoreUnavailable,
    TooLarge,
)
from hubbub.domain.notices import PublishResult
from hubbub.domain.requests import PublishItem

pytestmark = pytest.mark.spec("ONCE-02")

QUICK = Options(
    start_offline=True, backoff_first=0.01, backoff_longest=0.02, request_timeout=5, restore=False
)


class Desk:
    """A hub's side of one producer, as a test plays it."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self._results: list[PublishResult] = []

    async def opened(self, last: int = 0, fence: int = 1) -> str:
        request = await self.visitor.expect(requests.ProducerOpen)
        await self.visitor.say(
            notices.ProducerOpened(request.topic, request.producer, fence, last, request.req_id)
        )
        return request.producer

    async def puts(self, count: int) -> list[PublishItem]:
        """The next so many, in however many frames."""
        found: list[PublishItem] = []
        while len(found) < count:
            found += (await self.visitor.expect(requests.Publish)).items
        assert len(found) == count, found
        return found

    async def answer(self, *answers: tuple[PublishItem, HubbubError | None]) -> None:
        results = []
        for item, error in answers:
            assert item.req_id is not None
            assert item.producer is not None
            if error is None:
                serial = item.producer.sequence + 100
                results.append(PublishResult(item.req_id, f"m{serial}", serial))
            else:
                results.append(PublishResult(item.req_id, error=error))
        await self.visitor.say(notices.Published(tuple(results)))


def texts(items: list[PublishItem]) -> list[tuple[int, str]]:
    return [(item.producer.sequence, item.payload.decode()) for item in items if item.producer]


async def desk(hub: ScriptedHub) -> Desk:
    return Desk(await hub.visitor())


@asynccontextmanager
async def outbox_of(
    folder: Path, on_refused: OnRefused | None = None
) -> AsyncIterator[tuple[ScriptedHub, Outbox]]:
    """An outbox in this folder, and the hub that it sends to."""
    async with (
        scripted_hub() as hub,
        connect(hub.url, options=QUICK) as client,
        Outbox(client, folder / "outbox", on_refused=on_refused) as outbox,
    ):
        yield hub, outbox


async def offered(hub: ScriptedHub, outbox: Outbox, *given: str) -> tuple[Desk, list[PublishItem]]:
    """Put these texts; where the hub receives them, and what."""
    for text in given:
        await outbox.put("t", text)
    at = await desk(hub)
    await at.opened()
    return at, await at.puts(len(given))


async def test_puts_are_sent_in_order_with_producer_sequence_and_fence(tmp_path: Path) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        for text in "abc":
            await outbox.put("t", text, "greeting")
        at = await desk(hub)
        assert await at.opened(fence=4) == outbox.producer
        items = await at.puts(3)
        assert texts(items) == [(1, "a"), (2, "b"), (3, "c")]
        assert all(item.store and item.event == "greeting" for item in items)
        assert {item.producer.fence for item in items if item.producer} == {4}
        waiting = asyncio.create_task(outbox.put("t", "d", confirm=True))
        await at.answer(*((item, None) for item in items))
        (last,) = await at.puts(1)
        await at.answer((last, None))
        receipt = await waiting
        assert (receipt.id, receipt.serial, receipt.duplicate) == ("m104", 104, False)
        await outbox.drained()
        assert await outbox.waiting() == 0


async def test_what_was_not_answered_is_sent_again_under_the_same_sequence(tmp_path: Path) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        for text in "ab":
            await outbox.put("t", text)
        at = await desk(hub)
        await at.opened()
        first, _ = await at.puts(2)
        await at.answer((first, None))
        at.visitor.cut()
        at = await desk(hub)
        await at.opened(last=2, fence=2)  # the second one had arrived, the answer was lost
        (again,) = await at.puts(1)
        assert texts([again]) == [(2, "b")]
        await at.visitor.say(
            notices.Published((PublishResult(again.req_id or 0, "m102", 102, duplicate=True),))
        )
        await outbox.drained()


async def test_a_refused_put_gives_its_sequence_to_the_next(tmp_path: Path) -> None:
    told: list[Refusal] = []
    async with outbox_of(tmp_path, on_refused=told.append) as (hub, outbox):
        at, items = await offered(hub, outbox, *"abcd")
        gap = SequenceGap("expected 2")
        await at.answer(
            (items[0], None), (items[1], NotPermitted("no")), (items[2], gap), (items[3], gap)
        )
        await at.opened(last=1, fence=2)
        items = await at.puts(2)
        assert texts(items) == [(2, "c"), (3, "d")]
        await at.answer(*((item, None) for item in items))
        await outbox.drained()
        assert [(each.code, each.payload) for each in told] == [("not_permitted", b"b")]
        assert await outbox.refused() == told
        await outbox.put_again(told[0])
        (again,) = await at.puts(1)
        assert texts([again]) == [(4, "b")]
        await at.answer((again, None))
        await outbox.drained()
        assert await outbox.refused() == []


async def test_who_waits_for_the_confirmation_of_a_refused_put_gets_the_error(
    tmp_path: Path,
) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        refused = asyncio.create_task(outbox.put("t", "a", confirm=True))
        at = await desk(hub)
        await at.opened()
        (item,) = await at.puts(1)
        await at.answer((item, TooLarge("too large")))
        await at.opened(fence=2)
        with pytest.raises(TooLarge):
            await refused
        await outbox.drained()
        assert await outbox.refused() == []


async def test_a_put_that_was_stored_is_not_refused_whatever_the_hub_says_later(
    tmp_path: Path,
) -> None:
    """The answer was wrong, or that of a copy: the hub's count decides."""
    async with outbox_of(tmp_path) as (hub, outbox):
        await outbox.put("t", "a")
        at = await desk(hub)
        await at.opened()
        (item,) = await at.puts(1)
        await at.answer((item, NotPermitted("no")))
        await at.opened(last=1, fence=2)
        (item,) = await at.puts(1)
        assert texts([item]) == [(1, "a")]
        await at.answer((item, None))
        await outbox.drained()
        assert await outbox.refused() == []


async def test_after_a_crash_between_refusal_and_sending_the_next_has_the_sequence(
    tmp_path: Path,
) -> None:
    file = tmp_path / "outbox"
    async with scripted_hub() as hub:
        async with connect(hub.url, options=QUICK) as client, Outbox(client, file) as outbox:
            for text in "ab":
                await outbox.put("t", text)
            at = await desk(hub)
            await at.opened()
            items = await at.puts(2)
            await at.answer((items[0], NotPermitted("no")), (items[1], SequenceGap("expected 1")))
            await at.opened(fence=2)
            assert texts(await at.puts(1)) == [(1, "b")]
            await outbox.close(wait_seconds=0)  # it was stored, and nobody was told
        async with connect(hub.url, options=QUICK) as client, Outbox(client, file) as outbox:
            at = await desk(hub)
            await at.opened(last=1, fence=3)
            (item,) = await at.puts(1)
            assert texts([item]) == [(1, "b")]
            await at.answer((item, None))
            await outbox.drained()
            assert [each.payload for each in await outbox.refused()] == [b"a"]


@pytest.mark.parametrize(
    "error", [StoreUnavailable("full"), RateLimited("slow"), Internal("oops"), InvalidToken("old")]
)
async def test_what_may_work_later_is_tried_again_and_nothing_is_dropped(
    tmp_path: Path, error: HubbubError
) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        at, items = await offered(hub, outbox, *"ab")
        await at.answer((items[0], error), (items[1], SequenceGap("expected 1")))
        await at.opened(fence=2)
        items = await at.puts(2)
        assert texts(items) == [(1, "a"), (2, "b")]
        await at.answer(*((item, None) for item in items))
        await outbox.drained()
        assert await outbox.refused() == []


async def test_a_message_with_which_the_hub_fails_again_and_again_is_set_aside(
    tmp_path: Path,
) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        for text in "ab":
            await outbox.put("t", text)
        at = await desk(hub)
        for attempt in range(1, 4):
            await at.opened(fence=attempt)
            items = await at.puts(2)
            await at.answer((items[0], Internal("oops")), (items[1], SequenceGap("expected 1")))
        await at.opened(fence=4)
        (item,) = await at.puts(1)
        assert texts([item]) == [(1, "b")]
        await at.answer((item, None))
        await outbox.drained()
        assert [each.code for each in await outbox.refused()] == ["internal"]


async def test_a_message_that_ends_the_connection_is_found_and_set_aside(tmp_path: Path) -> None:
    """A frame beyond what the hub reads is not answered: the connection ends."""
    async with outbox_of(tmp_path) as (hub, outbox):
        await outbox.put("t", "fine")
        await outbox.put("t", "monster")
        await outbox.put("t", "also fine")
        stored = 0
        while stored < 2:
            at = await desk(hub)
            try:
                while stored < 2:
                    request = await at.visitor.next()
                    if isinstance(request, requests.ProducerOpen):
                        await at.visitor.say(
                            notices.ProducerOpened(
                                request.topic, request.producer, 1, stored, request.req_id
                            )
                        )
                    elif isinstance(request, requests.Publish):
                        if any(item.payload == b"monster" for item in request.items):
                            await at.visitor.say(notices.Disconnect(TooLarge("too large")))
                            at.visitor.cut()
                            break
                        for item in request.items:
                            assert item.producer is not None
                            assert item.producer.sequence == stored + 1
                            stored += 1
                            await at.answer((item, None))
            except TimeoutError:
                continue
        await outbox.drained()
        assert [each.payload for each in await outbox.refused()] == [b"monster"]


async def test_a_hub_that_went_back_gets_what_waits_from_there_on(tmp_path: Path) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        at, items = await offered(hub, outbox, *"ab")
        await at.answer(*((item, None) for item in items))
        await outbox.drained()
        await outbox.put("t", "c")
        (item,) = await at.puts(1)
        assert texts([item]) == [(3, "c")]
        await at.answer((item, SequenceGap("expected 1")))
        await at.opened(last=0, fence=2)
        (item,) = await at.puts(1)
        assert texts([item]) == [(1, "c")]
        await at.answer((item, None))
        await outbox.drained()


async def test_an_outbox_that_was_taken_over_says_so(tmp_path: Path) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        waiting = asyncio.create_task(outbox.put("t", "a", confirm=True))
        at = await desk(hub)
        await at.opened()
        (item,) = await at.puts(1)
        await at.answer((item, ProducerFenced("another took over")))
        with pytest.raises(ProducerFenced):
            await waiting
        with pytest.raises(ProducerFenced):
            await outbox.put("t", "b")
        with pytest.raises(ProducerFenced):
            await outbox.drained()


async def test_an_old_copy_of_an_outbox_says_so(tmp_path: Path) -> None:
    async with outbox_of(tmp_path) as (hub, outbox):
        waiting = asyncio.create_task(outbox.put("t", "a", confirm=True))
        at = await desk(hub)
        await at.opened(last=7)
        with pytest.raises(OutboxMismatch, match="old copy"):
            await waiting


async def test_a_second_outbox_on_the_same_file_is_refused(tmp_path: Path) -> None:
    async with (
        scripted_hub() as hub,
        connect(hub.url, options=QUICK) as client,
        Outbox(client, tmp_path / "outbox"),
    ):
        with pytest.raises(FileInUse, match="another process"):
            await Outbox(client, tmp_path / "outbox").open()


async def test_an_outbox_of_a_client_that_is_closed_keeps_its_messages(tmp_path: Path) -> None:
    async with scripted_hub() as hub:
        client = await connect(hub.url, options=QUICK)
        outbox = Outbox(client, tmp_path / "outbox")
        await outbox.open()
        waiting = asyncio.create_task(outbox.put("t", "a", confirm=True))
        at = await desk(hub)
        await at.opened()
        await at.puts(1)
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting
        assert await outbox.waiting() == 1
        await outbox.close()


async def test_a_put_while_the_hub_is_away_is_sent_when_it_is_back(tmp_path: Path) -> None:
    hub = ScriptedHub()
    server = await hub.start()
    server.close()
    await server.wait_closed()
    async with (
        connect(hub.url, options=QUICK) as client,
        Outbox(client, tmp_path / "outbox") as outbox,
    ):
        await outbox.put("t", "a")
        assert not client.connected
        async with await hub.start():
            at = await desk(hub)
            await at.opened()
            (item,) = await at.puts(1)
            await at.answer((item, None))
            await outbox.drained()

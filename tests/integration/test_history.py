"""History: pages by serial and time, both ways, from the store and from memory, and never a silent
gap."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.clock import FakeClock
from harness.running_hub import OPEN, RunningHub, Socket, StartHub, open_hub
from hubbub.domain.history import PAGE_BYTES
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("LIVE-13")

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
NO_HISTORY = msgspec.structs.replace(OPEN, live_history=False)
BOTH = pytest.mark.parametrize("rules", [OPEN, STORED], ids=["live-history", "stored"])
COUNT = 10
LARGE = "x" * 200_000
SECOND = 1000


class Reader:
    """A channel with messages 1 to 10, one published every second, and someone who reads it."""

    def __init__(self, hub: RunningHub, socket: Socket, clock: FakeClock) -> None:
        self.hub = hub
        self.socket = socket
        self.clock = clock
        self.started = int(clock.now() * 1000)

    def time(self, serial: int) -> int:
        """When a message was published."""
        return self.started + serial * SECOND

    def with_times(self, asked: dict[str, Any]) -> dict[str, Any]:
        times = {
            bound: self.time(asked[bound])
            for bound in ("afterTime", "beforeTime")
            if bound in asked
        }
        return asked | times

    async def publish(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(1)
            assert (await self.socket.publish("news", {"json": 0}, store=True))["success"]

    async def page(self, **asked: Any) -> dict[str, Any]:
        await self.socket.send("History", channel="news", reqID=3, **asked)
        page = await self.socket.find("History")
        assert page["reqID"] == 3
        assert "error" not in page, page
        return page

    async def delete_before(self, serial: int) -> None:
        await self.hub.delete_before("news", serial)


def serials(page: dict[str, Any]) -> list[int]:
    return [int(message["channelSerial"]) for message in page["messages"]]


async def reader(
    start_server: StartHub, rules: Rules, count: int = COUNT, **more: object
) -> Reader:
    clock = FakeClock()
    hub = await start_server(open_hub(rules=rules), clock=clock, **more)
    there = Reader(hub, await hub.socket(), clock)
    await there.publish(count)
    return there


PAGES: list[tuple[dict[str, Any], range, bool]] = [
    ({"after": "0"}, range(1, 11), False),
    ({"after": "0", "limit": 4}, range(1, 5), True),
    ({"after": "4", "limit": 3}, range(5, 8), True),
    ({"after": "7", "limit": 3}, range(8, 11), False),
    ({"after": "10"}, range(0), False),
    ({}, range(1, 11), False),
    ({"limit": 3}, range(8, 11), True),
    ({"before": "8", "limit": 3}, range(5, 8), True),
    ({"before": "4", "limit": 3}, range(1, 4), False),
    ({"before": "4", "limit": 9}, range(1, 4), False),
    ({"before": "1"}, range(0), False),
    ({"before": "999", "limit": 2}, range(9, 11), True),
    ({"afterTime": 3}, range(4, 11), False),
    ({"afterTime": 3, "limit": 2}, range(4, 6), True),
    ({"afterTime": 10}, range(0), False),
    ({"beforeTime": 4}, range(1, 4), False),
    ({"beforeTime": 8, "limit": 2}, range(6, 8), True),
    ({"beforeTime": 1}, range(0), False),
]
"""What is asked for, the serials of the answer, and whether there is more. Times are given by the
serial of the message that was published then."""


@BOTH
async def test_pages_by_serial_and_time_in_both_directions(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await reader(start_hub, rules)
    for asked, expected, more in PAGES:
        page = await there.page(**there.with_times(asked))
        assert serials(page) == list(expected), asked
        assert page["more"] is more, asked
        assert page["recovered"] is True, asked
        assert page["head"] == "10"


@BOTH
async def test_pages_put_together_are_everything_both_ways(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await reader(start_hub, rules)
    forwards: list[int] = []
    page = await there.page(after="0", limit=3)
    while True:
        forwards += serials(page)
        if not page["more"]:
            break
        page = await there.page(after=str(forwards[-1]), limit=3)
    backwards: list[int] = []
    page = await there.page(limit=3)
    while True:
        backwards = serials(page) + backwards
        if not page["more"]:
            break
        page = await there.page(before=str(backwards[0]), limit=3)
    assert forwards == backwards == list(range(1, COUNT + 1))


async def large(start_server: StartHub, rules: Rules) -> Reader:
    """Five messages, of which two fit into a page."""
    there = await reader(start_server, rules, 0)
    for _ in range(5):
        there.clock.advance(1)
        assert (await there.socket.publish("news", {"text": LARGE}, store=True))["success"]
    return there


@BOTH
@pytest.mark.spec("SEC-01", "LIVE-13")
async def test_large_messages_end_a_page_and_the_next_page_goes_on(
    start_hub: StartHub, rules: Rules
) -> None:
    assert 2 * len(LARGE) < PAGE_BYTES < 3 * len(LARGE)
    there = await large(start_hub, rules)
    for asked, expected, more in (
        ({"after": "0"}, [1, 2], True),
        ({"after": "2"}, [3, 4], True),
        ({"after": "4"}, [5], False),
        ({}, [4, 5], True),
        ({"before": "4"}, [2, 3], True),
        ({"before": "2"}, [1], False),
        ({"afterTime": there.time(3)}, [4, 5], False),
        ({"afterTime": there.time(1)}, [2, 3], True),
        ({"beforeTime": there.time(5)}, [3, 4], True),
    ):
        page = await there.page(**asked)
        assert (serials(page), page["more"], page["recovered"]) == (expected, more, True), asked
        path = "/v1/hubs/acme/channels/news/messages"
        async with there.hub.http.get(path, params=asked) as answer:
            page = await answer.json()
        assert (serials(page), page["more"], page["recovered"]) == (expected, more, True), asked


@BOTH
@pytest.mark.spec("SEC-01", "LIVE-10")
async def test_a_subscriber_that_missed_more_than_a_page_gets_all_of_it(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await large(start_hub, rules)
    back = await there.hub.socket()
    assert (await back.subscribe("news", serial="0"))["channels"][0]["recovered"] is True
    got = [int((await back.expect("Publish"))["channelSerial"]) for _ in range(5)]
    assert got == [1, 2, 3, 4, 5]


@BOTH
async def test_a_position_of_another_epoch_recovers_nothing(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await reader(start_hub, rules)
    for asked in ({"after": "3", "limit": 2}, {"before": "3"}, {"afterTime": there.time(3)}, {}):
        page = await there.page(epoch="other", **asked)
        assert page["recovered"] is False
        assert page["messages"] == []
        assert page["more"] is False, "there is nothing to page on to"
        assert page["epoch"] != "other"
    assert (await there.page(after="3", epoch=page["epoch"]))["recovered"] is True


@BOTH
async def test_a_position_that_was_never_reached_is_not_recovered(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await reader(start_hub, rules)
    page = await there.page(after="11")
    assert page["recovered"] is False
    assert page["messages"] == []


async def drop_first_five(there: Reader, rules: Rules) -> None:
    """What retention, or the bound of the live history, takes away: 1 to 5."""
    if rules.store:
        await there.delete_before(6)


LEFT_OVERS: list[tuple[dict[str, Any], range, bool]] = [
    ({"after": "5"}, range(6, 11), True),
    ({"after": "5", "limit": 2}, range(6, 8), True),
    ({"after": "4"}, range(6, 11), False),
    ({"after": "0", "limit": 2}, range(6, 8), False),
    ({"before": "11", "limit": 3}, range(8, 11), True),
    ({"before": "9", "limit": 3}, range(6, 9), True),
    ({"before": "8", "limit": 3}, range(6, 8), False),
    ({"before": "3"}, range(0), False),
    ({}, range(6, 11), False),
    ({"limit": 5}, range(6, 11), True),
    ({"afterTime": 6}, range(7, 11), True),
    ({"afterTime": 2}, range(6, 11), False),
    ({"afterTime": 2, "limit": 2}, range(6, 8), False),
    ({"afterTime": 10}, range(0), True),
    ({"beforeTime": 9, "limit": 2}, range(7, 9), True),
    ({"beforeTime": 8, "limit": 5}, range(6, 8), False),
    ({"beforeTime": 3}, range(0), False),
]
"""What is asked for where only 6 to 10 are left, the answer, and whether it is all of it."""


@BOTH
async def test_what_is_gone_is_never_passed_over_in_silence(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await reader(start_hub, rules, engine__maxLiveHistorySize=5)
    await drop_first_five(there, rules)
    for asked, expected, recovered in LEFT_OVERS:
        page = await there.page(**there.with_times(asked))
        assert serials(page) == list(expected), asked
        assert page["recovered"] is recovered, asked
        assert page["head"] == "10"


async def test_a_channel_whose_messages_are_all_gone_says_so(start_hub: StartHub) -> None:
    there = await reader(start_hub, STORED)
    await there.delete_before(11)
    for asked in ({"after": "3"}, {}, {"before": "5"}, {"afterTime": 0}):
        page = await there.page(**asked)
        assert page["messages"] == []
        assert page["recovered"] is False
    page = await there.page(after="10")
    assert page["recovered"] is True
    await there.publish(1)
    assert serials(await there.page(after="10")) == [11], "serials go on after retention"


async def test_a_channel_without_history_never_claims_to_have_recovered(
    start_hub: StartHub,
) -> None:
    there = await reader(start_hub, NO_HISTORY)
    page = await there.page(after="3")
    assert page["messages"] == []
    assert page["recovered"] is False
    assert (await there.page(after="10"))["recovered"] is True


@BOTH
async def test_an_untouched_channel_has_an_empty_history(start_hub: StartHub, rules: Rules) -> None:
    there = await reader(start_hub, rules, count=0)
    page = await there.page()
    assert (page["messages"], page["recovered"], page["more"]) == ([], True, False)
    assert page["head"] == "0"


@BOTH
async def test_a_subscriber_recovers_by_serial_or_by_time(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await reader(start_hub, rules)
    by_serial, by_time = await there.hub.socket(), await there.hub.socket()
    confirmed = await by_serial.subscribe("news", serial="7")
    assert confirmed["channels"][0]["recovered"] is True
    await by_time.subscribe("news", timestamp=there.time(7))
    await there.publish(1)
    for socket in (by_serial, by_time):
        got = [int((await socket.expect("Publish"))["channelSerial"]) for _ in range(4)]
        assert got == [8, 9, 10, 11]


@BOTH
async def test_a_subscriber_that_was_away_too_long_is_told_so(
    start_hub: StartHub, rules: Rules
) -> None:
    there = await reader(start_hub, rules, engine__maxLiveHistorySize=5)
    await drop_first_five(there, rules)
    late = await there.hub.socket()
    confirmed = await late.subscribe("news", serial="2")
    assert confirmed["channels"][0]["recovered"] is False
    assert [int((await late.expect("Publish"))["channelSerial"]) for _ in range(5)] == [
        6,
        7,
        8,
        9,
        10,
    ]


@pytest.mark.spec("OPS-03")
async def test_a_wrong_question_gets_a_clear_error(start_hub: StartHub) -> None:
    there = await reader(start_hub, OPEN, count=0)
    wrong: list[dict[str, Any]] = [
        {"after": "1", "before": "5"},
        {"after": "1", "afterTime": 5},
        {"limit": -1},
    ]
    for asked in wrong:
        await there.socket.send("History", channel="news", reqID=4, **asked)
        answer = (await there.socket.next())["payload"]
        assert answer["reqID"] == 4
        assert answer["error"]["code"] in ("bad_request", "malformed")


async def test_history_needs_the_permission_to_subscribe(start_hub: StartHub) -> None:
    there = await reader(start_hub, STORED)
    await there.hub.server.directory.put("acme", "rules", "default", Rules(store=True))
    await there.socket.send("History", channel="news", reqID=4, after="0")
    page = await there.socket.find("History")
    assert page["error"]["code"] == "not_permitted"
    assert page["messages"] == []


async def test_times_that_went_backwards_are_found_all_the_same(start_server: StartHub) -> None:
    there = await reader(start_server, STORED)
    there.clock.advance(-8)
    await there.publish(2)
    page = await there.page(afterTime=there.time(8))
    assert serials(page) == [9, 10]
    page = await there.page(beforeTime=there.time(5), limit=3)
    assert serials(page) == [4, 11, 12]

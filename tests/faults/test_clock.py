"""A clock that is set back or forward under a running hub, or between two of its lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.admin import admin_of
from harness.data_folder import history, post, running, serials, texts
from harness.running_hub import RunningHub
from hubbub.server.clock import SystemClock

HOUR = 3600.0
DAY = 24 * HOUR

pytestmark = pytest.mark.spec("OPS-03", "LIVE-12")


class WallClock(SystemClock):
    """The system's clock, off by what an operator did to it. Intervals are not touched."""

    def __init__(self) -> None:
        self.off = 0.0

    def now(self) -> float:
        return super().now() + self.off

    def set(self, seconds: float) -> None:
        self.off += seconds


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


async def publish_across_a_change(
    hub: RunningHub, clock: WallClock, channel: str, change: float
) -> list[int]:
    """Two messages before the clock is set, two after; answers their times."""
    for text in ("one", "two"):
        await post(hub, channel, text)
    clock.set(change)
    for text in ("three", "four"):
        await post(hub, channel, text)
    return [int(message["ts"]) for message in (await history(hub, channel))["messages"]]


@pytest.mark.parametrize("channel", ["log:a", "news"], ids=["stored", "live"])
@pytest.mark.parametrize("change", [-HOUR, HOUR], ids=["back", "forward"])
async def test_order_goes_on_and_history_by_time_stays_right(
    tmp_path: Path, clock: WallClock, channel: str, change: float
) -> None:
    async with running(tmp_path, clock) as hub:
        times = await publish_across_a_change(hub, clock, channel, change)
        page = await history(hub, channel)
        assert serials(page) == [1, 2, 3, 4]
        assert texts(page) == ["one", "two", "three", "four"]
        border = (times[0] + times[2]) // 2
        later = await history(hub, channel, afterTime=border)
        earlier = await history(hub, channel, beforeTime=border)
        old, new = ([1, 2], [3, 4]) if change > 0 else ([3, 4], [1, 2])
        assert serials(later) == new
        assert serials(earlier) == old


async def test_a_subscriber_misses_nothing_when_the_clock_is_set_back(
    tmp_path: Path, clock: WallClock
) -> None:
    async with running(tmp_path, clock) as hub:
        subscriber = await hub.socket()
        await subscriber.subscribe("log:a", "news")
        seen = []
        for change in (0.0, -DAY, 2 * DAY, -DAY):
            clock.set(change)
            for channel in ("log:a", "news"):
                await post(hub, channel, "hello")
                message = await subscriber.expect("Publish")
                seen.append((message["channel"], message["channelSerial"]))
        assert seen == [(c, str(n)) for n in (1, 2, 3, 4) for c in ("log:a", "news")]


async def test_a_hub_that_starts_in_its_own_past_goes_on_where_it_was(
    tmp_path: Path, clock: WallClock
) -> None:
    async with running(tmp_path, clock) as hub:
        await post(hub, "log:a", "one", retain="true")
        before = await history(hub, "log:a")
    clock.set(-30 * DAY)
    async with running(tmp_path, clock) as hub:
        assert (await post(hub, "log:a", "two"))["channelSerial"] == "2"
        page = await history(hub, "log:a")
        assert page["epoch"] == before["epoch"]
        assert serials(page) == [1, 2]
        late = await history(hub, "log:a", beforeTime=int(before["messages"][0]["ts"]))
        assert texts(late) == ["two"]


async def test_recovery_by_position_does_not_ask_the_clock(
    tmp_path: Path, clock: WallClock
) -> None:
    async with running(tmp_path, clock) as hub:
        for channel in ("log:a", "news"):
            await publish_across_a_change(hub, clock, channel, -DAY)
            page = await history(hub, channel)
            subscriber = await hub.socket()
            (confirmed,) = (await subscriber.subscribe(channel, serial="1", epoch=page["epoch"]))[
                "channels"
            ]
            assert confirmed["recovered"] is True
            found = [(await subscriber.expect("Publish"))["channelSerial"] for _ in range(3)]
            assert found == ["2", "3", "4"]


async def retained(hub: RunningHub, channel: str) -> dict[str, Any] | None:
    """What a new subscriber gets at once, if anything."""
    subscriber = await hub.socket()
    await subscriber.subscribe(channel)
    await subscriber.send("Ping", reqID=9)
    envelope = await subscriber.next()
    payload: dict[str, Any] = envelope["payload"]
    return payload if envelope["event"] == "Publish" else None


async def test_a_retained_message_outlives_a_clock_set_back_and_expires_when_its_time_has_come(
    tmp_path: Path, clock: WallClock
) -> None:
    async with running(tmp_path, clock, channel__retainMsgDuration=int(HOUR)) as hub:
        await post(hub, "log:a", "state", store="false", retain="true")
        for change, there in ((-DAY, True), (DAY, True), (HOUR + 1, False), (-HOUR, True)):
            clock.set(change)
            assert (await retained(hub, "log:a") is not None) is there
        clock.set(-DAY)
        await post(hub, "log:a", "newer", store="false", retain="true")
        kept = await retained(hub, "log:a")
        assert kept is not None
        assert kept["payload"] == {"text": "newer"}


async def test_upkeep_under_a_clock_set_back_deletes_nothing_too_early(
    tmp_path: Path, clock: WallClock
) -> None:
    async with running(tmp_path, clock) as hub:
        await post(hub, "log:a", "state", store="false", retain="true")
    clock.set(-DAY)
    async with running(tmp_path, clock) as hub:
        await hub.server.delete_expired()
        assert await retained(hub, "log:a") is not None


async def test_tokens_hold_until_their_time_by_the_hubs_clock_and_not_longer(
    tmp_path: Path, clock: WallClock
) -> None:
    """One made before the clock was set back seems to come from the future, which is no crime."""
    async with running(tmp_path, clock) as hub:
        token = hub.token("ann", ttl=HOUR)
        clock.set(-DAY)
        assert hub.server.tokens.verify(token, "acme").user_id == "ann"
        ann = await hub.socket(token=token)
        clock.set(DAY + HOUR + 10)
        refused = await hub.raw_socket(query=f"?token={token}")
        code, reason = await refused.closed()
        assert (code, "expired" in reason) == (4411, True)
        await ann.find("SessionRestore")
        fresh = hub.token("ann", ttl=HOUR)
        await ann.send("Auth", reqID=2, token=fresh)
        assert (await ann.find("Auth"))["success"] is True


@pytest.mark.spec("SEC-02")
async def test_a_revocation_reaches_tokens_from_before_the_clock_was_set_back(
    tmp_path: Path, clock: WallClock
) -> None:
    async with running(tmp_path, clock) as hub:
        token = hub.token("ann", ttl=2 * DAY)
        ann = await hub.socket(token=token)
        await ann.expect("SessionRestore")
        clock.set(-DAY)
        path = "/v1/admin/hubs/acme/revocations"
        revoked = await admin_of(hub)("POST", path, {"kind": "user", "subject": "ann"})
        assert revoked.status < 300, revoked.text
        assert (await ann.closed())[0] == 4411
        again = await hub.raw_socket(query=f"?token={token}")
        assert (await again.closed())[0] == 4411
        clock.set(1.0)
        fresh = await hub.socket(token=hub.token("ann", ttl=HOUR))
        await fresh.expect("SessionRestore")


@pytest.mark.parametrize("change", [-30 * DAY, 0.9 * HOUR], ids=["back", "forward"])
async def test_a_session_comes_back_although_the_clock_was_set(
    tmp_path: Path, clock: WallClock, change: float
) -> None:
    async with running(tmp_path, clock, session__restoreTtl=int(HOUR)) as hub:
        ann = await hub.socket(token=hub.token("ann", ttl=2 * HOUR))
        key = (await ann.expect("SessionRestore"))["restoreKey"]
        await ann.subscribe("log:a")
        ann.connection.transport.abort()
        clock.set(change)
        await post(hub, "log:a", "missed")
        back = await hub.socket()
        await back.send("SessionRestore", restoreKey=key)
        assert (await back.find("SessionRestored"))["userID"] == "ann"
        assert (await back.find("Publish"))["payload"] == {"text": "missed"}


async def test_no_heartbeat_limit_or_idle_time_goes_by_the_wall_clock(
    tmp_path: Path, clock: WallClock
) -> None:
    """The hands fly a year forward and back: nobody is cut off, nothing is throttled or closed."""
    async with running(
        tmp_path, clock, session__messagesPerSecond=1000, session__messageBurst=1000
    ) as hub:
        subscriber = await hub.socket()
        await subscriber.subscribe("news")
        epoch = (await history(hub, "news"))["epoch"]
        for change in (365 * DAY, -2 * 365 * DAY, 365 * DAY):
            clock.set(change)
            await hub.server.sweep()
            assert (await subscriber.publish("news", {"text": "still here"}))["success"]
            await subscriber.find("Publish")
        assert (await history(hub, "news"))["epoch"] == epoch
        assert hub.server.node.session_count == 1

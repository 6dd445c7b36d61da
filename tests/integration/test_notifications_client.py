"""Notifications in the Python client and on the command line."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from harness.admin import HUB, service_of
from harness.command import Ended
from harness.invoking import Run, at, invoke
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import until
from hubbub.client import Client, HubbubError, Notifications, Options, connect, sync
from hubbub.domain.permissions import Level

pytestmark = pytest.mark.spec("NOTE-01")

OWN = "notification:u:ann"


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(open_hub(user_channel=True))


async def create(hub: RunningHub, *numbers: int, channel: str = OWN) -> list[Any]:
    items = [{"id": f"n{n}", "event": "order", "payload": {"json": {"n": n}}} for n in numbers]
    path = f"{HUB}/channels/{channel}/notifications"
    reply = await service_of(hub)("POST", path, {"notifications": items})
    created: list[Any] = reply.json["created"]
    return created


async def take(inbox: Notifications, count: int) -> list[int]:
    async with asyncio.timeout(10):
        return [(await anext(inbox)).data["n"] for _ in range(count)]


def client_of(hub: RunningHub, user: str | None = "ann", options: Options | None = None) -> Client:
    token = hub.token(user) if user is not None else None
    return connect(f"ws://{hub.address}", hub="acme", token=token, options=options)


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_a_client_gets_new_ones_counts_and_marks_what_it_saw(
    hub: RunningHub, encoding: Literal["json", "protobuf"]
) -> None:
    await create(hub, 1)
    options = Options(encoding=encoding)
    async with client_of(hub, options=options) as client, client.notifications() as inbox:
        assert (await inbox.count()).unread == 1
        await create(hub, 2, 3)
        assert await take(inbox, 2) == [2, 3]
        await create(hub, 4)  # not handed out yet
        marked = await inbox.mark_seen()
        assert (marked.marked, marked.unread) == (3, 1)
        page = await inbox.page(unread=True)
        assert [each.data["n"] for each in page.notifications] == [4]
        assert not page.notifications[0].read
        marked = await inbox.mark_read("n4", "nobody")
        assert (marked.marked, marked.unread, marked.unknown) == (1, 0, ("nobody",))
        assert await take(inbox, 1) == [4]
        await until(lambda: inbox.unread == 0)
        assert inbox.state is not None
        assert inbox.state.total == 4


async def test_each_is_handed_out_once_over_a_lost_connection(hub: RunningHub) -> None:
    await create(hub, 1)
    async with client_of(hub) as client, client.notifications(since=0) as inbox:
        assert await take(inbox, 1) == [1]
        for session in list(hub.server.node.hubs["acme"].sessions.values()):
            session.connection.close()
        await create(hub, *range(2, 150))
        assert await take(inbox, 148) == list(range(2, 150))
        await create(hub, 150)
        assert await take(inbox, 1) == [150]


async def test_a_user_id_names_the_inbox_of_that_user(hub: RunningHub) -> None:
    async with client_of(hub) as client, client.notifications("ann") as inbox:
        await create(hub, 1)
        assert inbox.channel == OWN
        assert await take(inbox, 1) == [1]


async def test_who_is_nobody_has_no_channel_and_others_are_refused(hub: RunningHub) -> None:
    async with client_of(hub, None) as client:
        with pytest.raises(HubbubError, match="nobody is authenticated"):
            client.notifications()
        with pytest.raises(HubbubError, match="no permission"):
            await client.notifications(OWN).__aenter__()
        with pytest.raises(HubbubError, match="no permission"):
            await client.notifications(OWN).page()


async def test_the_client_without_asyncio_does_the_same(hub: RunningHub) -> None:
    token, address = hub.token("ann"), f"ws://{hub.address}"
    await create(hub, 1, 2)

    def work() -> tuple[list[int], int, int]:
        with (
            sync.connect(address, hub="acme", token=token) as client,
            client.notifications(since=0) as inbox,
        ):
            found = [next(inbox).data["n"] for _ in range(2)]
            return found, inbox.mark_seen().unread, inbox.count().total

    assert await asyncio.to_thread(work) == ([1, 2], 0, 2)


@pytest.fixture
def run(hub: RunningHub) -> Run:
    token = hub.token("root", hub="*", level=Level.ADMIN)

    async def run(*arguments: str) -> Ended:
        return await invoke(*arguments, **at(hub, token))

    return run


@pytest.mark.spec("UI-03")
async def test_the_command_line_creates_lists_marks_and_deletes(run: Run) -> None:
    made = await run(
        "notifications", "create", OWN, "--json", '{"n": 1}', "--id", "a", "--event", "order"
    )
    assert made.out == "a\n"
    again = await run(
        "notifications", "create", OWN, "--json", '{"n": 1}', "--id", "a", "--event", "order"
    )
    assert again.out == "a (it was there already)\n"
    other = await run("notifications", "create", OWN, "hello", "--id", "a")
    assert (other.code, "(conflict)" in other.err) == (1, True)
    assert (await run("notifications", "create", "news", "hello")).code == 1
    assert (await run("notifications", "create", OWN, "hello", "--expires-in", "3600")).code == 0
    listed = await run("notifications", "list", OWN)
    assert "order" in listed.out
    assert listed.err == "2 of 2 unread\n"
    marked = await run("notifications", "read", OWN, "a", "b")
    assert marked.out == "marked as read: 1; 1 unread\n"
    assert marked.err == "there is no notification b\n"
    assert (await run("notifications", "list", OWN, "--unread", "--json")).out.count("\n") == 1
    assert (await run("notifications", "unread", OWN, "--all")).out == (
        "marked as unread: 1; 2 unread\n"
    )
    assert (await run("notifications", "delete", OWN, "--all")).code == 2
    assert (await run("notifications", "delete", OWN, "--all", "--yes")).out == (
        "deleted: 2; 0 unread\n"
    )
    assert (await run("notifications", "read", OWN)).code == 2


@pytest.mark.spec("UI-03")
async def test_the_command_line_erases_a_user(run: Run, hub: RunningHub) -> None:
    await create(hub, 1, 2)
    erased = await run("users", "erase", "ann", "--yes", "--json")
    assert erased.out == (
        '{"notifications":2,"named":0,"pushTokens":0,"pushSubscriptions":0,'
        '"subscriptions":0,"participations":0,"ownedChannels":0,"durableSubscriptions":0,'
        '"webhooks":0,"peerSubscriptions":0,"peers":0,"sessions":0,"messages":0,"retained":0,'
        '"documentChanges":0,"producers":0,"left":0}\n'
    )

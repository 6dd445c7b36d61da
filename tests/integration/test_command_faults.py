"""Commands, owned channels and patterns while nodes are killed: each node is a process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from harness.cluster import Ground, NodeProcess, channel_of, eventually, node_processes
from hubbub.client import (
    Client,
    Command,
    CommandRefused,
    ConnectionLost,
    Message,
    Options,
    Status,
    Subscription,
    connect,
)
from hubbub.domain.errors import HubbubError, NotPermitted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("CMD-03")]

NAMES = ("east", "north", "west")
OPEN = {"public": True, "clientPublish": True, "store": True}
HUBS: dict[str, Any] = {
    "acme": {
        "settings": {"commands": True, "defaultRules": "open"},
        "rules": {"open": OPEN},
    }
}
QUICK = Options(backoff_first=0.05, backoff_longest=0.2)
Nodes = dict[str, NodeProcess]


class Town:
    """The nodes, and tokens of users."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._tokens: dict[str, str] = {}
        self._killed: set[str] = set()

    @asynccontextmanager
    async def client(self, user: str, node: str) -> AsyncIterator[Client]:
        if user not in self._tokens:
            self._tokens[user] = await self.nodes[node].token("acme", user)
        url = f"ws://127.0.0.1:{self.nodes[node].port}"
        async with connect(url, hub="acme", token=self._tokens[user], options=QUICK) as client:
            yield client

    async def kill(self, node: str) -> None:
        self._killed.add(node)
        self.nodes[node].signal(signal.SIGKILL)
        await self.nodes[node].ended()

    async def settled(self) -> None:
        """Killed nodes are back, and every node serves the channels of every node."""
        while self._killed:
            await self.nodes[self._killed.pop()].start()
        for node in NAMES:
            async with self.client("probe", node) as client:
                for owner in NAMES:
                    probe = channel_of(owner, NAMES, "probe")

                    async def served(client: Client = client, probe: str = probe) -> bool:
                        with suppress(HubbubError):
                            await client.publish(probe, 0, store=True)
                            return True
                        return False

                    await eventually(served)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(on: Ground, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with node_processes(tmp_path_factory.mktemp("nodes"), on, HUBS, *NAMES) as nodes:
        yield Town(nodes)


async def status_of(client: Client, cmd: str, params: object = None, **more: Any) -> Status:
    try:
        await client.command(cmd, params, **more)
    except CommandRefused as error:
        return error.status
    return Status.OK


async def test_a_command_whose_receiver_dies_with_its_node_always_has_a_result(town: Town) -> None:
    await town.settled()
    handed = asyncio.Event()

    async def hang(command: Command) -> None:
        handed.set()
        await asyncio.Event().wait()

    async with town.client("ann", "east") as ann, town.client("bob", "west") as bob:
        bob.on_command("hang", hang)
        asking = asyncio.ensure_future(status_of(ann, "hang", entity="bob@acme", timeout=3))
        await asyncio.wait_for(handed.wait(), 20)
        await town.kill("west")
        assert await asking is Status.TIMEOUT
        # Whether the node is known to be dead by now or not: nobody is there.
        for _ in range(3):
            found = await status_of(ann, "hang", entity="bob@acme", timeout=1)
            assert found in (Status.NOT_AVAILABLE, Status.TIMEOUT)
    await town.settled()

    async def nobody() -> bool:
        async with town.client("ann", "east") as again:
            return await status_of(again, "hang", entity="bob@acme", timeout=1) is (
                Status.NOT_AVAILABLE
            )

    await eventually(nobody, 30)


async def test_another_session_answers_when_one_dies_with_its_node(town: Town) -> None:
    await town.settled()
    handed = asyncio.Event()
    killed = asyncio.Event()

    async def hang(command: Command) -> None:
        handed.set()
        await asyncio.Event().wait()

    async def late(command: Command) -> str:
        await killed.wait()
        return "north"

    async with (
        town.client("ann", "east") as ann,
        town.client("bob", "north") as other,
        town.client("bob", "west") as bob,
    ):
        bob.on_command("work", hang)
        other.on_command("work", late)
        asking = asyncio.ensure_future(ann.command("work", entity="bob@acme", timeout=20))
        await asyncio.wait_for(handed.wait(), 20)
        await town.kill("west")
        killed.set()
        assert await asyncio.wait_for(asking, 20) == "north"


class Heard:
    """What a subscription got, by channel."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self.numbers: dict[str, list[int]] = {}
        self.serials: dict[str, list[int]] = {}
        self.gaps: list[Message] = []

    async def until(self, condition: Callable[[Heard], bool]) -> None:
        async with asyncio.timeout(40):
            async for event in self._subscription.events():
                if isinstance(event, Message):
                    self.numbers.setdefault(event.channel, []).append(event.data)
                    self.serials.setdefault(event.channel, []).append(event.serial)
                    if event.gap is not None:
                        self.gaps.append(event)
                if condition(self):
                    return

    def has(self, acknowledged: dict[str, list[int]]) -> bool:
        return all(
            set(numbers) <= set(self.numbers.get(channel, ()))
            for channel, numbers in acknowledged.items()
        )


async def put_all(client: Client, channel: str, numbers: range) -> list[int]:
    """Those that were acknowledged; what may or may not have arrived is sent on."""
    done = []
    for number in numbers:
        while True:
            try:
                await client.publish(channel, number, store=True)
            except ConnectionLost:
                raise
            except HubbubError as error:
                if not error.retry:
                    raise
                await asyncio.sleep(0.05)
                break
            done.append(number)
            break
    return done


@pytest.mark.spec("LIVE-19")
async def test_a_pattern_loses_nothing_when_the_owner_of_its_channels_is_killed(
    town: Town,
) -> None:
    await town.settled()
    async with town.client("ann", "east") as ann, town.client("bob", "north") as bob:
        heard = Heard(await ann.subscribe("room:*"))
        known = [channel_of("west", NAMES, f"room:known{number}") for number in range(3)]
        acknowledged = {channel: await put_all(bob, channel, range(3)) for channel in known}
        dying = asyncio.ensure_future(town.kill("west"))
        born = [channel_of("west", NAMES, f"room:born{number}") for number in range(10)]

        async def speak(channel: str) -> None:
            acknowledged.setdefault(channel, []).extend(await put_all(bob, channel, range(10, 40)))

        await asyncio.gather(*(speak(channel) for channel in (*known, *born)))
        await dying
        for channel in (*known, *born):  # the owner is gone for good by now: all get through
            while not (more := await put_all(bob, channel, range(100, 101))):
                pass
            acknowledged[channel] += more
        await heard.until(lambda each: each.has(acknowledged))
        for channel in (*known, *born):
            serials = heard.serials[channel]
            assert serials == list(range(1, len(serials) + 1)), channel
            numbers = heard.numbers[channel]
            assert len(numbers) == len(set(numbers)), "nothing twice"
        assert not heard.gaps


def record(channel: str, *participants: str, active: bool = True) -> dict[str, Any]:
    jids = [f"{each}@acme" for each in participants]
    return {"chid": channel, "owner": "ann@acme", "participants": jids, "active": active}


@pytest.mark.spec("CMD-02")
async def test_a_channel_made_inactive_under_load_accepts_nothing_afterwards(town: Town) -> None:
    await town.settled()
    channel = channel_of("west", NAMES, "load")
    people = ("ann", "bob", "eve")
    async with (
        town.client("ann", "east") as ann,
        town.client("bob", "west") as bob,
        town.client("eve", "north") as eve,
    ):
        await ann.command("hCreateUpdateChannel", record(channel, *people))
        heard = Heard(await eve.subscribe(channel))
        closed = asyncio.Event()
        accepted: list[int] = []
        numbers = count()

        async def speak(client: Client, user: str) -> int:
            """Until it is refused after the channel was closed; answers how many times."""
            refused = 0
            while refused < 20:
                after = closed.is_set()
                number = next(numbers)
                message = {"chid": channel, "publisher": f"{user}@acme", "payload": number}
                status = await status_of(client, "hPublish", {**message, "transient": False})
                if status is Status.OK:
                    assert not after, "nothing is accepted once the owner was told that it is done"
                    accepted.append(number)
                else:
                    assert status is Status.NOT_AUTHORIZED
                    refused += after
            return refused

        speaking = [
            asyncio.ensure_future(speak(client, user))
            for client, user in ((ann, "ann"), (bob, "bob"), (eve, "eve"))
        ]
        await heard.until(lambda each: len(each.numbers.get(channel, ())) >= 20)
        await ann.command("hCreateUpdateChannel", record(channel, *people, active=False))
        closed.set()
        assert await asyncio.gather(*speaking) == [20, 20, 20]
        await ann.command("hCreateUpdateChannel", record(channel, *people))
        said = {"chid": channel, "publisher": "bob@acme", "payload": -1, "transient": False}
        await bob.command("hPublish", said)
        await heard.until(lambda each: -1 in each.numbers[channel])
        assert sorted(heard.numbers[channel]) == [-1, *sorted(accepted)]
        first = heard.serials[channel][
            0
        ]  # of the channel or, where the test is repeated, of this try
        assert heard.serials[channel] == list(range(first, first + len(accepted) + 1))


@pytest.mark.spec("CMD-02")
async def test_a_participant_removed_on_another_node_hears_and_says_nothing_more(
    town: Town,
) -> None:
    await town.settled()
    channel = channel_of("north", NAMES, "removed")
    async with town.client("ann", "east") as ann, town.client("bob", "west") as bob:
        await ann.command("hCreateUpdateChannel", record(channel, "ann", "bob"))
        await bob.command("hSubscribe", {"chid": channel})
        heard = Heard(await bob.subscribe(channel))
        before = await put_all(ann, channel, range(20))
        speaking = asyncio.ensure_future(put_all(ann, channel, range(100, 200)))
        await heard.until(lambda each: each.has({channel: before}))
        await ann.command("hCreateUpdateChannel", record(channel, "ann"))
        await speaking
        secret = await put_all(ann, channel, range(1000, 1010))
        with pytest.raises(NotPermitted):
            await heard.until(lambda each: False)
        assert not set(secret) & set(heard.numbers[channel])
        assert await bob.command("hGetSubscriptions") == []
        for cmd, params in (
            ("hSubscribe", {"chid": channel}),
            ("hGetLastMessages", {"chid": channel}),
            ("hPublish", {"chid": channel, "publisher": "bob@acme", "payload": 1}),
        ):
            assert await status_of(bob, cmd, params) is Status.NOT_AUTHORIZED
        with pytest.raises(HubbubError):
            await bob.publish(channel, "back door")

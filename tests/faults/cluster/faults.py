"""What can happen to the parts of a cluster: to one node, or to all of them."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterable

import asyncpg

from benchmarks.soak.wire import LOST, Socket
from faults.cluster.scene import NAMES, NOW, OWN, Scene
from harness.cutting_proxy import CuttingProxy
from harness.postgres import connect, restart

Fault = Callable[[Scene, str, float], Awaitable[None]]
_END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE usename = $1 AND NOT pid = ANY($2)
"""
_SAID_TO_THE_FROZEN = 20
_LONGEST_PAUSE_SECONDS = 5.0
"""Of what was stopped for good: nothing changes by waiting longer."""

# -- nodes ----------------------------------------------------------------------------------------


async def kill(on: Scene, name: str, seconds: float) -> None:
    on.up.discard(name)
    await on.nodes[name].kill()
    await _come_back(on, name, seconds)


async def stop(on: Scene, name: str, seconds: float) -> None:
    """Clients go on using it until it sends them away."""
    on.nodes[name].signal(signal.SIGTERM)
    code = await on.nodes[name].ended(30)
    on.up.discard(name)
    assert code == 0, f"{name} ended with code {code}"
    await _come_back(on, name, seconds)


async def _come_back(on: Scene, name: str, seconds: float) -> None:
    await asyncio.sleep(min(seconds, _LONGEST_PAUSE_SECONDS))
    await on.nodes[name].start()
    on.up.add(name)


async def freeze(on: Scene, name: str, seconds: float) -> None:
    on.nodes[name].signal(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    on.nodes[name].signal(signal.SIGCONT)


async def wake_owner(on: Scene, name: str, seconds: float) -> None:
    """A node is frozen until another one owns its channel. What was said to it meanwhile it reads
    when it wakes, and believes that the channel is its own."""
    heir = NAMES[NAMES.index(name) - 1]
    async with on.connected(name) as woken, on.connected(heir) as other:
        on.nodes[name].signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
            while not await _say(on, other, OWN[name], f"heir-of-{name}-{next(on.numbers)}"):
                await asyncio.sleep(0.05)
            said = [f"woken-{name}-{next(on.numbers)}" for _ in range(_SAID_TO_THE_FROZEN)]
            asking = asyncio.ensure_future(_say_all(on, woken, OWN[name], said))
            await asyncio.sleep(0)
        finally:
            on.nodes[name].signal(signal.SIGCONT)
        await asking


async def _say_all(on: Scene, socket: Socket, channel: str, identifiers: list[str]) -> None:
    on.ledger.uncertain.update(identifiers)
    try:
        async with asyncio.timeout(30):
            for identifier in identifiers:
                await _send(socket, channel, identifier)
            for identifier in identifiers:
                kind = "accepted" if await _answered(on, socket, channel, identifier) else "refused"
                on.ledger.counts[f"publishes through a woken owner, {kind}"] += 1
    except LOST:
        on.ledger.counts["woken owners that sent their clients away"] += 1


async def _say(on: Scene, socket: Socket, channel: str, identifier: str) -> bool:
    await _send(socket, channel, identifier)
    return await _answered(on, socket, channel, identifier)


async def _send(socket: Socket, channel: str, identifier: str) -> None:
    item = {"channel": channel, "payload": {"json": {"id": identifier}}, "reqID": 1}
    await socket.send("Publish", publishes=[{**item, "extra": {"store": True}}])


async def _answered(on: Scene, socket: Socket, channel: str, identifier: str) -> bool:
    """Whether it was accepted; the books know it then."""
    (result,) = (await socket.find("Ack"))["published"]
    if result["success"]:
        on.ledger.uncertain.discard(identifier)
        on.ledger.acknowledge(channel, identifier, int(result["channelSerial"]))
    else:
        on.ledger.uncertain.add(identifier)
    return bool(result["success"])


async def roll(on: Scene, _: str, seconds: float) -> None:
    """Every node in turn, as in an upgrade."""
    for name in NAMES:
        await stop(on, name, seconds / 10)
        await on.settle()


async def upgrade(on: Scene, _: str, seconds: float) -> None:
    """Every node in turn is replaced by one that runs the code of this checkout."""
    for name in NAMES:
        on.nodes[name].run_code(NOW)
    await roll(on, _, seconds)


# -- the network ----------------------------------------------------------------------------------


async def cut_from_nats(on: Scene, name: str, seconds: float) -> None:
    """Its connections break, and new ones are refused."""
    await _cut(on.to_nats[name], seconds)


async def cut_from_postgres(on: Scene, name: str, seconds: float) -> None:
    await _cut([on.to_postgres[name]], seconds)


async def cut_from_all(on: Scene, name: str, seconds: float) -> None:
    await _cut([*on.to_nats[name], on.to_postgres[name]], seconds)


async def silence(on: Scene, name: str, seconds: float) -> None:
    """Nothing comes through to NATS, and nobody is told: the node still believes that it owns its
    channels, and so do those who take them over."""
    await _hold(on.to_nats[name], seconds)


async def pull_cable(on: Scene, name: str, seconds: float) -> None:
    """The same to NATS and PostgreSQL."""
    await _hold([*on.to_nats[name], on.to_postgres[name]], seconds)


async def unplug(on: Scene, name: str, seconds: float) -> None:
    """The same in the kernel: every packet between the node and the rest is lost, but for those of
    its clients."""
    network = on.nodes[name].network
    assert network is not None, "this fault needs networks of the nodes' own"
    network.pull("back")
    try:
        await asyncio.sleep(seconds)
    finally:
        network.plug_in("back")


async def _cut(ways: Iterable[CuttingProxy], seconds: float) -> None:
    for way in ways:
        way.refusing = True
        way.cut_all()
    await asyncio.sleep(seconds)
    for way in ways:
        way.refusing = False


async def _hold(ways: Iterable[CuttingProxy], seconds: float) -> None:
    for way in ways:
        way.hold()
    await asyncio.sleep(seconds)
    for way in ways:
        way.let_go()


# -- NATS and PostgreSQL --------------------------------------------------------------------------


async def kill_nats_server(on: Scene, name: str, seconds: float) -> None:
    """One of the three; each node's turn has another one."""
    number = NAMES.index(name)
    await on.nats.kill(number)
    await asyncio.sleep(seconds)
    await on.nats.start(number)


async def nats_away(on: Scene, _: str, seconds: float) -> None:
    await on.nats.kill_all()
    await asyncio.sleep(seconds)
    await on.nats.start_all()


async def nats_restarted(on: Scene, _: str, seconds: float) -> None:
    await nats_away(on, _, 0)
    await asyncio.sleep(min(seconds, _LONGEST_PAUSE_SECONDS))


async def postgres_away(on: Scene, _: str, seconds: float) -> None:
    await asyncio.to_thread(on.postgres.kill)
    await asyncio.sleep(seconds)
    await restart(on.postgres)


async def postgres_restarted(on: Scene, _: str, seconds: float) -> None:
    await asyncio.to_thread(on.postgres.stop)
    await restart(on.postgres)
    await asyncio.sleep(min(seconds, _LONGEST_PAUSE_SECONDS))


async def no_connections(on: Scene, _: str, seconds: float) -> None:
    """Another client takes all connections that the server has, also those of the nodes, and every
    one that becomes free."""
    taken: list[asyncpg.Connection[asyncpg.Record]] = []
    try:
        async with on.database.operator() as operator:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                await _take_what_is_free(on, taken)
                own = [connection.get_server_pid() for connection in taken]
                await operator.fetch(_END_OTHERS, on.database.name, own)
    finally:
        for connection in taken:
            connection.terminate()


async def _take_what_is_free(on: Scene, taken: list[asyncpg.Connection[asyncpg.Record]]) -> None:
    while True:
        try:
            taken.append(await connect(on.postgres, on.database.name))
        except asyncpg.TooManyConnectionsError:
            return


async def read_only(on: Scene, _: str, seconds: float) -> None:
    """All of PostgreSQL, for connections that exist as well as for new ones."""
    await _operate(on, "ALTER SYSTEM SET default_transaction_read_only = on")
    await asyncio.sleep(seconds)
    await _operate(on, "ALTER SYSTEM RESET default_transaction_read_only")


async def failed_over(on: Scene, _: str, seconds: float) -> None:
    """To a server that is not the first one yet: connections end, and those that are made
    meanwhile stay read-only."""
    role = on.database.name
    await _operate(on, f"ALTER ROLE {role} SET default_transaction_read_only = on", end=True)
    await asyncio.sleep(seconds)
    await _operate(on, f"ALTER ROLE {role} RESET default_transaction_read_only")


async def _operate(on: Scene, statement: str, end: bool = False) -> None:
    async with on.database.operator() as connection:
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(statement)
        await connection.fetch("SELECT pg_reload_conf()")
        if end:
            await connection.fetch(_END_OTHERS, on.database.name, [])


OF_A_NODE: dict[str, Fault] = {
    "kill": kill,
    "freeze": freeze,
    "stop": stop,
    "cut-nats": cut_from_nats,
    "cut-postgres": cut_from_postgres,
    "cut-all": cut_from_all,
    "two-owners": silence,
    "woken-owner": wake_owner,
    "cable": pull_cable,
    "unplug": unplug,
    "nats-server": kill_nats_server,
}
OF_ALL: dict[str, Fault] = {
    "roll": roll,
    "nats-restart": nats_restarted,
    "nats-away": nats_away,
    "postgres-restart": postgres_restarted,
    "postgres-away": postgres_away,
    "no-connections": no_connections,
    "read-only": read_only,
    "failed-over": failed_over,
}
UPGRADE = "upgrade"
FAULTS: dict[str, Fault] = {**OF_A_NODE, **OF_ALL, UPGRADE: upgrade}
GRACEFUL = ("stop", "roll", UPGRADE)
"""Nobody is refused anything meanwhile."""
NEEDS_NETWORKS = ("unplug",)

"""Three nodes, NATS and PostgreSQL on this machine, to try a cluster with: `make cluster`.

Everything is in a temporary folder and ends with Ctrl-C. A node that is killed is started again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import uvloop

from benchmarks.postgres import PASSWORD, USER, LocalPostgres, local_postgres
from hubbub.domain.names import partition_of
from hubbub.domain.ring import make_ring
from hubbub.server import nats_server
from hubbub.server.nats_server import NatsServer
from hubbub.server.supervisor import NotReady, Supervised, Supervisor, hubbub_command

NODES = ("east", "north", "west")
STEP = 10
"""Between the ports of two nodes; the one after each is its ZeroMQ door."""
CHANNEL = "news"


def settings_of(
    node: str, port: int, folder: Path, postgres: LocalPostgres, nats: NatsServer, secret: str
) -> dict[str, object]:
    database = {
        "host": "127.0.0.1",
        "port": postgres.port,
        "user": USER,
        "password": PASSWORD,
        "dbName": "postgres",
    }
    return {
        "listener": {"port": port},
        "storage": {"path": str(folder / "data"), "postgres": database},
        "sql": {"maxConnections": 4},
        "auth": {"session": {"secret": f"s{secret}"}, "admin": {"secret": f"a{secret}"}},
        "broker": {"host": nats.url, "user": nats_server.USER, "password": nats.password},
        "cluster": {"secretKey": secret, "node": node},
        "debug": {"level": "warning"},
    }


def banner(ports: dict[str, int], processes: dict[str, Supervised], folder: Path) -> str:
    partition = partition_of("demo", CHANNEL)
    owner = make_ring((node, "") for node in NODES).owners[partition]
    first, second = (node for node in NODES if node != owner)
    nodes = "\n".join(
        f"  {node:<6} http://127.0.0.1:{port}   process {processes[node].pid}"
        for node, port in ports.items()
    )
    hubbub = str(Path(sys.executable).parent / "hubbub")
    config = folder / NODES[0] / "hubbub.yaml"
    return f"""Three nodes are one hub:

{nodes}

  See the cluster       http://127.0.0.1:{ports[NODES[0]]}/dashboard#/cluster, with the token of
                        {hubbub} token --level admin --hub '*' --config {config}
  Subscribe on one      {hubbub} subscribe {CHANNEL} --url ws://127.0.0.1:{ports[first]}
  Publish on another    {hubbub} publish {CHANNEL} 'Hello' --url ws://127.0.0.1:{ports[second]}
  Kill the owner        kill -9 {processes[owner].pid}   ({owner} owns the channel `{CHANNEL}`)
  Go on                 {hubbub} publish {CHANNEL} 'Still here' --url ws://127.0.0.1:{ports[second]}

  With `log:orders --store` instead of `{CHANNEL}` messages are kept in PostgreSQL, and the
  subscriber sees no gap. A killed node is started again. Ctrl-C stops everything.
"""


def taken(ports: Iterable[int]) -> int | None:
    """The first port that something listens on already."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return port
    return None


async def run(first_port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with (
        tempfile.TemporaryDirectory(prefix="hubbub-cluster-") as name,
        local_postgres() as postgres,
    ):
        folder, secret = Path(name), secrets.token_hex(32)
        nats = NatsServer(folder)
        await nats.start()
        ports = {node: first_port + STEP * place for place, node in enumerate(NODES)}
        processes = {}
        for node, port in ports.items():
            home = folder / node
            home.mkdir()
            settings = settings_of(node, port, home, postgres, nats, secret)
            (home / "hubbub.yaml").write_text(json.dumps(settings))
            command = hubbub_command("serve", "--dev", "--config", str(home / "hubbub.yaml"))
            processes[node] = Supervised(node, command, {})

        def started_again(process: Supervised) -> None:
            print(f"{process.name} is back, as process {process.pid}", flush=True)

        supervisor = Supervisor(list(processes.values()), started_again)
        try:
            await supervisor.start()
            print(banner(ports, processes, folder), flush=True)
            await stop.wait()
        finally:
            await supervisor.stop(15)
            await nats.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="of the first node")
    options = parser.parse_args()
    firsts = [options.port + STEP * place for place in range(len(NODES))]
    port = taken(port for first in firsts for port in (first, first + 1))
    if port is not None:
        sys.exit(
            f"cluster: port {port} is in use, perhaps by another hub; stop that, or choose others: "
            'make cluster ARGS="--port 9000"'
        )
    try:
        uvloop.run(run(options.port))
    except NotReady as error:
        sys.exit(f"cluster: {error}")


if __name__ == "__main__":
    main()

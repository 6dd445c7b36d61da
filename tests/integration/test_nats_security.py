"""How a hub logs in at NATS: passwords, tokens, credentials files, TLS; and what it refuses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml
from nats.aio.msg import Msg

from benchmarks.servers import free_port
from harness.certificates import make_certificate
from harness.nats import running_nats
from harness.nats_accounts import Accounts
from harness.running_hub import StartHub, hub_settings, open_hub
from hubbub.domain.errors import Unavailable
from hubbub.domain.permissions import Level
from hubbub.protocols.hubbub_pb2 import ServiceAnswer
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("CLU-06", "OPS-04")


@asynccontextmanager
async def nats_with(folder: Path, configuration: str, port: int) -> AsyncIterator[None]:
    file = folder / "nats.conf"
    file.write_text(f'listen: "127.0.0.1:{port}"\n{configuration}')
    async with running_nats(["-c", str(file)], port):
        yield


async def refused(folder: Path, **broker: Any) -> str:
    """What the operator reads about a hub that does not start with these settings."""
    server = Server(hub_settings(folder / "other", open_hub(), broker__connectTimeout=1, **broker))
    with pytest.raises(Unavailable) as caught:
        await server.start()
    return str(caught.value)


async def test_a_password_opens_and_a_wrong_one_is_named(
    start_server: StartHub, tmp_path: Path
) -> None:
    port = free_port()
    host = f"nats://127.0.0.1:{port}"
    right = {"broker__host": host, "broker__user": "hub", "broker__password": "right"}
    async with nats_with(tmp_path, "authorization { user: hub, password: right }", port):
        await start_server(open_hub(), **right)
        said = await refused(tmp_path, **{**right, "broker__password": "wrong"})
        assert "Authorization Violation" in said
        assert "broker" in said
        assert "wrong" not in said


async def test_a_token_opens(start_server: StartHub, tmp_path: Path) -> None:
    port = free_port()
    host = f"nats://127.0.0.1:{port}"
    async with nats_with(tmp_path, "authorization { token: t0ken }", port):
        await start_server(open_hub(), broker__host=host, broker__token="t0ken")
        assert "Authorization Violation" in await refused(tmp_path, broker__host=host)


async def test_a_credentials_file_opens_and_that_of_strangers_does_not(
    start_server: StartHub, tmp_path: Path
) -> None:
    port = free_port()
    accounts, strangers = Accounts(), Accounts()
    accounts.write_credentials(tmp_path / "node.creds")
    strangers.write_credentials(tmp_path / "stranger.creds")
    host = f"nats://127.0.0.1:{port}"
    (tmp_path / "nats.conf").write_text(accounts.configuration(port))
    async with running_nats(["-c", str(tmp_path / "nats.conf")], port):
        creds = str(tmp_path / "node.creds")
        await start_server(open_hub(), broker__host=host, broker__credentialsFile=creds)
        stranger = str(tmp_path / "stranger.creds")
        said = await refused(tmp_path, broker__host=host, broker__credentialsFile=stranger)
        assert "Authorization Violation" in said


async def test_tls_is_used_and_only_with_a_server_that_can_be_trusted(
    start_server: StartHub, tmp_path: Path
) -> None:
    port = free_port()
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "others").mkdir()
    other, _ = make_certificate(tmp_path / "others")
    host = f"tls://127.0.0.1:{port}"
    tls = f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}'
    async with nats_with(tmp_path, tls, port):
        trusting = {"broker__host": host, "broker__tls__rootCert": str(certificate)}
        hub = await start_server(open_hub(), **trusting)
        broker = hub.server.programs.broker
        assert broker is not None
        assert broker.connected
        said = await refused(tmp_path, **{**trusting, "broker__tls__rootCert": str(other)})
        assert "certificate" in said.lower()
        said = await refused(tmp_path, broker__host=host)  # the system's authorities
        assert "certificate" in said.lower()


async def test_a_server_may_ask_for_the_nodes_own_certificate(
    start_server: StartHub, tmp_path: Path
) -> None:
    port = free_port()
    certificate, key = make_certificate(tmp_path)
    tls = (
        f'tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{certificate}", '
        "verify: true }"
    )
    settings = {
        "broker__host": f"nats://127.0.0.1:{port}",
        "broker__tls__enabled": True,
        "broker__tls__rootCert": str(certificate),
    }
    async with nats_with(tmp_path, tls, port):
        mine = {"broker__tls__cert": str(certificate), "broker__tls__key": str(key)}
        await start_server(open_hub(), **settings, **mine)
        assert "NATS at" in await refused(tmp_path, **settings)


async def test_a_server_that_is_not_there_is_named_with_the_key_to_look_at(tmp_path: Path) -> None:
    began = asyncio.get_running_loop().time()
    said = await refused(tmp_path, broker__host="nats://127.0.0.1:1")
    assert "nats://127.0.0.1:1" in said
    assert "broker.host" in said
    assert asyncio.get_running_loop().time() - began < 5


# -- permissions ----------------------------------------------------------------------------------

DEPLOY = Path(__file__).parents[2] / "deploy"
RED = (
    '{user: red, password: red, permissions: {subscribe: ["hubbub.rpc.red.>", "hubbub.auth.red.>"],'
    " allow_responses: true}}"
)


def deployed(file: str) -> str:
    """The part of a shipped configuration that is about accounts, with a service's user besides."""
    text = (DEPLOY / file).read_text()
    if file.endswith(".yaml"):
        text = next(yaml.safe_load_all(text))["data"]["nats.conf"]
    accounts = text[text.index("accounts {") :]
    nodes = accounts.index("{user: hubbub")
    return f"{accounts[:nodes]}{RED}\n{accounts[nodes:]}"


@pytest.mark.spec("SEC-02", "OPS-04")
@pytest.mark.parametrize("file", ["compose/nats.conf", "kubernetes/nats.yaml"])
async def test_the_shipped_permissions_are_enough_for_nodes_and_no_more(
    start_server: StartHub, tmp_path: Path, file: str
) -> None:
    port = free_port()
    configuration = tmp_path / "nats.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{tmp_path}/js" }}\n{deployed(file)}'
    )
    given = {**os.environ, "NATS_PASSWORD": "p", "NATS_SYSTEM_PASSWORD": "s"}
    host = f"nats://127.0.0.1:{port}"
    async with running_nats(["-c", str(configuration)], port, given):
        hub = await start_server(
            open_hub("red"),
            open_hub("blue"),
            broker__host=host,
            broker__user="hubbub",
            broker__password="p",
            streams__target="jetstream",
        )
        problems: list[str] = []

        async def note(error: Exception) -> None:
            problems.append(str(error))

        red = await nats.connect(host, user="red", password="red", error_cb=note)
        nodes = await nats.connect(host, user="hubbub", password="p", error_cb=note)

        async def answer(message: Msg) -> None:
            await message.respond(ServiceAnswer(payload=b"done").SerializeToString())

        await red.subscribe("hubbub.rpc.red.>", cb=answer)
        await red.flush()
        headers = {"Authorization": f"Bearer {hub.token(hub='red', level=Level.SERVICE)}"}
        url = "/v1/hubs/red"
        async with hub.http.post(f"{url}/rpc/pay.now", data=b"x", headers=headers) as called:
            assert (called.status, await called.read()) == (200, b"done")
        async with hub.http.post(
            f"{url}/streams/clicks/events", data=b"x", headers=headers
        ) as kept:
            assert kept.status in (200, 201, 202), await kept.text()
        assert not problems

        purge = "$JS.API.STREAM.PURGE.hubbub_streams"
        delete = "$JS.API.STREAM.DELETE.hubbub_streams"
        for subject in (purge, delete, "$SYS.REQ.SERVER.PING", "billing.pay"):
            await nodes.publish(subject, b"", reply="_INBOX.x")
            await nodes.flush()
        await red.subscribe("hubbub.rpc.blue.>")
        await red.publish("hubbub.rpc.blue.pay", b"")
        await red.flush()
        async with asyncio.timeout(10):
            while len(problems) < 6:
                await asyncio.sleep(0.01)
        assert all("permissions violation" in each.lower() for each in problems)
        await red.close()
        await nodes.close()

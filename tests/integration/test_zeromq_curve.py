"""CURVE: an encrypted door, whose keys say who comes in."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from harness.clock import FakeClock
from harness.running_hub import RunningHub, StartHub, hub_settings
from harness.topics import topic_hub
from harness.zeromq import ANY_PORT, ZeroMqClient, ZeroMqClients, zeromq_clients
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import Rules
from hubbub.server.settings import SettingsError, cautions, developer_settings, load
from hubbub.server.settings.zeromq import CurveClient
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("ONCE-04")

ANN, BOB, STRANGER = (zmq.curve_keypair() for _ in range(3))


def key_file(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "curve.key"


def client_of(pair: tuple[bytes, bytes], user: str, **more: Any) -> dict[str, Any]:
    return {"publicKey": pair[0].decode(), "hub": "acme", "user": user, **more}


async def start(start_server: StartHub, tmp_path: Path, **more: object) -> RunningHub:
    listed = [client_of(ANN, "ann"), client_of(BOB, "bob")]
    return await start_server(
        topic_hub(),
        topic_hub("closed", allow_anonymous=False),
        zeromq__endpoint=ANY_PORT,
        zeromq__curve__secretKeyFile=str(key_file(tmp_path)),
        zeromq__curve__clients=listed,
        **more,
    )


def with_key(clients: ZeroMqClients, pair: tuple[bytes, bytes], tmp_path: Path) -> ZeroMqClient:
    server = zmq.curve_public(key_file(tmp_path).read_bytes().strip())
    return clients.make(curve_publickey=pair[0], curve_secretkey=pair[1], curve_serverkey=server)


async def is_deaf_to(client: ZeroMqClient) -> bool:
    await client.send("ping")
    return not await client.socket.poll(300)


async def test_a_listed_key_is_all_the_credential_that_it_takes(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start(start_server, tmp_path)
    async with zeromq_clients(hub) as clients:
        ann, bob = (with_key(clients, pair, tmp_path) for pair in (ANN, BOB))
        assert await ann.ask("ping", "") == [b"Pong", b"acme"]
        assert (await ann.ask("subscribe", "", "orders"))[0] == b"SUBSCRIBED"
        assert await bob.put("", "orders", "by bob") == 1
        article = await ann.get("", "orders")
        assert article[3] == b"by bob"
        assert msgspec.json.decode(article[4])["publisher"] == "bob"
        assert (await bob.get("", "orders"))[0] == b"NotSubscribed"
        # A token speaks for itself, also over somebody's connection.
        assert (await bob.get(hub.token("ann"), "orders"))[3] == b"by bob"


async def test_others_do_not_get_in(
    start_server: StartHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hub = await start(start_server, tmp_path)
    async with zeromq_clients(hub) as clients:
        assert await is_deaf_to(clients.make())  # not encrypted
        assert await is_deaf_to(with_key(clients, STRANGER, tmp_path))
        thief = (ANN[0], STRANGER[1])  # the public key alone proves nothing
        assert await is_deaf_to(with_key(clients, thief, tmp_path))
        assert await with_key(clients, ANN, tmp_path).ask("ping") == [b"Pong", b"acme"]
    assert "its key is not known" in caplog.text
    secret = key_file(tmp_path).read_text().strip()
    for hidden in (secret, ANN[1].decode(), STRANGER[1].decode()):
        assert hidden not in caplog.text


async def test_unknown_keys_may_be_let_in_and_have_to_bring_a_token(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start(start_server, tmp_path, zeromq__curve__allowUnknown=True)
    async with zeromq_clients(hub) as clients:
        stranger = with_key(clients, STRANGER, tmp_path)
        assert (await stranger.refused("get", "", "t"))[0] == "not_authenticated"
        assert (await stranger.refused("get", "closed", "t"))[0] == "not_authenticated"
        token = hub.token("ann", "closed")
        assert await stranger.ask("ping", token) == [b"Pong", b"closed"]
        assert await is_deaf_to(clients.make())


async def test_a_key_has_the_permissions_that_are_given_to_it(
    start_server: StartHub, tmp_path: Path
) -> None:
    guarded = topic_hub()
    guarded = msgspec.structs.replace(guarded, rules={"default": Rules(store=True)}, namespaces={})
    channels = [{"channel": "out:*", "publish": True}]
    hub = await start_server(
        guarded,
        zeromq__endpoint=ANY_PORT,
        zeromq__curve__secretKeyFile=str(key_file(tmp_path)),
        zeromq__curve__clients=[client_of(ANN, "ann", channels=channels)],
    )
    async with zeromq_clients(hub) as clients:
        ann = with_key(clients, ANN, tmp_path)
        assert await ann.put("", "out:1", "x") == 1
        assert (await ann.refused("put", "", "in:1", "x"))[0] == "not_permitted"
        assert (await ann.refused("subscribe", "", "out:1"))[0] == "not_permitted"


async def test_a_key_ends_with_the_revocation_of_its_user_unless_it_is_newer(
    start_server: StartHub, tmp_path: Path
) -> None:
    clock = FakeClock()
    later = int(clock.now()) + 10
    hub = await start_server(
        topic_hub(),
        clock=clock,
        zeromq__endpoint=ANY_PORT,
        zeromq__curve__secretKeyFile=str(key_file(tmp_path)),
        zeromq__curve__clients=[client_of(ANN, "ann"), client_of(BOB, "ann", since=later)],
    )
    admin = hub.token("root", "*", Level.ADMIN)
    async with zeromq_clients(hub) as clients:
        old, new = (with_key(clients, pair, tmp_path) for pair in (ANN, BOB))
        assert await old.ask("ping", "") == [b"Pong", b"acme"]
        async with hub.http.post(
            "/v1/admin/hubs/acme/revocations",
            json={"kind": "user", "subject": "ann"},
            headers={"Authorization": f"Bearer {admin}"},
        ) as answer:
            assert answer.status < 300, await answer.text()
        clock.advance(20)
        assert (await old.refused("ping", ""))[0] == "invalid_token"
        assert await new.ask("ping", "") == [b"Pong", b"acme"]


async def test_the_key_of_the_server_is_made_once_and_only_its_owner_reads_it(
    start_server: StartHub, tmp_path: Path
) -> None:
    await start(start_server, tmp_path)
    file = key_file(tmp_path)
    made = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["curve.key"]
    await start(start_server, tmp_path, storage__path=str(tmp_path / "other"))
    assert file.read_bytes() == made


async def test_an_address_that_is_taken_is_named_and_can_be_tried_again(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start(start_server, tmp_path)
    taken = hub.server.zeromq
    settings = hub_settings(
        tmp_path / "second",
        topic_hub(),
        zeromq__endpoint=taken,
        zeromq__curve__secretKeyFile=str(key_file(tmp_path)),
    )
    second = Server(settings)
    with pytest.raises(OSError, match="Address already in use") as caught:
        await second.start()
    assert caught.value.filename == taken
    await hub.server.stop()
    second = Server(settings)
    await second.start()
    assert second.zeromq == taken
    await second.stop()


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (zmq.curve_keypair()[1], 0o644, "others may use it (mode 644); run: chmod 600"),
        (b"not a key", 0o600, "holds no CURVE key (hidden)"),
        (b"", 0o600, "holds no CURVE key"),
    ],
    ids=["unsafe", "damaged", "empty"],
)
async def test_a_key_that_is_unsafe_or_damaged_is_refused(
    start_server: StartHub, tmp_path: Path, content: bytes, mode: int, said: str
) -> None:
    file = key_file(tmp_path)
    file.parent.mkdir()
    file.write_bytes(content)
    file.chmod(mode)
    with pytest.raises(SettingsError) as caught:
        await start(start_server, tmp_path)
    assert said in str(caught.value)
    assert not content or content.decode() not in str(caught.value)


KEY = ANN[0].decode()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"endpoint": "localhost:8001"}, "expected an address such as tcp://127.0.0.1:8001"),
        ({"endpoint": "tcp://x:y"}, "expected an address"),
        ({"endpoint": "udp://127.0.0.1:1"}, "expected an address"),
        ({"maxInFlight": 5}, "no effect without zeromq.endpoint"),
        ({"endpoint": ANY_PORT, "curve": {"allowUnknown": True}}, "secretKeyFile is missing"),
        ({"curve": {"clients": [{"publicKey": "x", "hub": "a", "user": "u"}]}}, "40 characters"),
        ({"curve": {"clients": [{"publicKey": KEY, "hub": "a"}]}}, "without `user` and `channels`"),
        ({"curve": {"clients": [{"publicKey": KEY, "hub": "a", "user": "u"}] * 2}}, "twice"),
        ({"curve": {"clients": [{"publicKey": KEY}]}}, "a list of mappings"),
        ({"curve": {"clients": {KEY: "a"}}}, "a list of mappings"),
        ({"endpont": ANY_PORT}, "did you mean zeromq.endpoint?"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    tmp_path: Path, keys: dict[str, Any], said: str
) -> None:
    if "curve" in keys and "endpoint" not in keys:
        keys = {"endpoint": ANY_PORT, "curve": {**keys["curve"], "secretKeyFile": "k"}}
    file = tmp_path / "hubbub.yaml"
    file.write_text(msgspec.json.encode({"zeromq": keys}).decode())
    with pytest.raises(SettingsError) as caught:
        load(file, {})
    assert said in str(caught.value)


def test_a_door_that_others_can_reach_without_encryption_is_cautioned_against() -> None:
    def found(**keys: object) -> list[str]:
        settings = load(None, {}, {f"zeromq.{key}": value for key, value in keys.items()})
        return [each for each in cautions(settings) if "zeromq" in each]

    assert found(endpoint="tcp://0.0.0.0:8001")
    assert found(endpoint="tcp://*:8001")
    assert not found(endpoint="tcp://127.0.0.1:8001")
    assert not found(endpoint="tcp://[::1]:8001")
    assert not found(endpoint="ipc:///run/topics")
    assert not found(**{"endpoint": "tcp://0.0.0.0:8001", "curve.secretKeyFile": "k"})


def test_developer_mode_has_a_door_on_this_machine_only() -> None:
    def door(**keys: object) -> str | None:
        return developer_settings(load(None, {}, keys)).zeromq.endpoint

    assert load(None, {}).zeromq.endpoint is None
    assert door() == "tcp://127.0.0.1:8001"
    assert door(**{"listener.port": 9000}) == "tcp://127.0.0.1:9001"
    assert door(**{"listener.port": 0}) == "tcp://127.0.0.1:*"
    assert door(**{"zeromq.endpoint": "tcp://127.0.0.1:5555"}) == "tcp://127.0.0.1:5555"
    with pytest.raises(SettingsError, match="others can reach"):
        door(**{"zeromq.endpoint": "tcp://0.0.0.0:5555"})


def test_clients_are_read_as_documented() -> None:
    channel = {"channel": "a:*", "subscribe": True}
    keys = {
        "zeromq.endpoint": ANY_PORT,
        "zeromq.curve.secretKeyFile": "k",
        "zeromq.curve.clients": [
            {"publicKey": KEY, "hub": "a", "level": "service", "channels": [channel]}
        ],
    }
    assert load(None, {}, keys).zeromq.curve.clients == (
        CurveClient(KEY, "a", None, "service", (Grant("a:*", subscribe=True),)),
    )

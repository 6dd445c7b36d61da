"""Bytes that are no text go from one end to the other as they are."""

from __future__ import annotations

import asyncio
import json
import tempfile
from base64 import b64decode, b64encode
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest

from harness.admin import HUB, admin_of, service_of
from harness.certificates import make_certificate
from harness.ftp import ftp_server
from harness.invoking import at, invoke
from harness.mail import PASSWORD, dovecot, mail_server
from harness.receivers import Received, Receiver, Reply, whole_answer
from harness.restoring import restore_hub
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import STORED, HttpTopic
from hubbub.client.people import People
from hubbub.domain.permissions import Level
from hubbub.server.backup.making import back_up

pytestmark = pytest.mark.spec("COMM-12")

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) + b"\xff\xfe\x00IEND\xaeB`\x82"


def sent_content(request: Received) -> Any:
    body = json.loads(request.body)
    content = body.get("message", body).get("content")
    return b64decode(content["base64"]) if isinstance(content, dict) else content


async def people_of(hub: RunningHub, server: Receiver) -> People:
    """Ann is reached over REST; a callback hears of messages to nobody."""
    people = People(f"ws://{hub.address}", "acme", hub.token("desk", level=Level.SERVICE))
    await people.set_adapter("pager", "rest", {})
    await people.set_adapter("loud", "channel", {"channel": "alarms"})
    await people.set_peer("ann", [{"adapter": "pager", "parameters": [f"{server.url}/ann"]}])
    await people.register_callback("all", f"{server.url}/all")
    return people


async def test_bytes_reach_a_peer_a_callback_a_channel_and_the_log_unchanged(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=STORED, callback_addresses="loopback"))
    async with Receiver(lambda _: 204) as server:
        people = await people_of(hub, server)
        await people.send(PNG, to="ann", sender="ci", id="m-1")
        assert await people.send(PNG, to="ann", sender="ci", id="m-1") == "m-1"
        (pushed,) = await server.got(1)
        assert sent_content(pushed) == PNG
        assert json.loads(pushed.body)["message"]["language"] == "binary"
        await people.send(PNG, sender="ci", type="NEWS")
        assert sent_content((await server.got(2))[1]) == PNG

        await people.set_peer("bob", [{"adapter": "loud", "parameters": []}])
        topic = HttpTopic(hub, "alarms", hub.token("desk", level=Level.SERVICE))
        await topic.subscribe("reader")
        await people.send(PNG, to="bob", sender="ci")
        (article,) = (await topic.get("reader", wait=10)).json["messages"]
        assert b64decode(article["payload"]["base64"]) == PNG
    found = [each["message"]["content"] async for each in people.messages(receiver="ann")]
    assert found == [PNG]


async def test_a_follower_of_a_channel_gets_the_bytes_of_its_messages(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED, callback_addresses="loopback"))
    async with Receiver(lambda _: 204) as server:
        people = await people_of(hub, server)
        await people.follow("ann", "pictures")
        service = service_of(hub)
        path = "/v1/hubs/acme/topics/pictures/messages"
        reply = await service("POST", path, data=PNG, Content_Type="image/png")
        assert reply.status == 200, reply.text
        (pushed,) = await server.got(1)
    assert sent_content(pushed) == PNG
    assert json.loads(pushed.body)["message"]["headers"]["contentType"] == "image/png"


async def test_bytes_that_a_rest_server_gives_come_in_unchanged(start_hub: StartHub) -> None:
    content = {"base64": b64encode(PNG).decode()}
    message = {"id": "r-1", "type": "A", "subtype": "b", "receiver": "ann", "content": content}
    waiting = [json.dumps(message).encode()]

    def answer(request: Received) -> Reply:
        if request.path != "/source":
            return 204
        return whole_answer(200, waiting.pop()) if waiting else 204

    hub = await start_hub(open_hub(callback_addresses="loopback"))
    async with Receiver(answer) as server:
        people = await people_of(hub, server)
        await people.set_adapter(
            "source", "rest-pull", {"url": f"{server.url}/source"}, interval_ms=60_000
        )
        (pushed,) = await server.got(1)
    assert sent_content(pushed) == PNG


@pytest.mark.parametrize("kind", ["folder", "ftp"])
async def test_a_picture_in_a_folder_arrives_and_what_is_refused_stays(
    start_server: StartHub, tmp_path: Path, kind: str
) -> None:
    inbox = tmp_path / "files" / "acme"
    inbox.mkdir(parents=True)
    (inbox / "a.png").write_bytes(PNG)
    (inbox / "large.bin").write_bytes(PNG * 10)
    taken = {"id": "m-1", "type": "A", "subtype": "b", "receiver": "ann", "content": "else"}
    (inbox / "taken.json").write_text(json.dumps(taken))
    (inbox / "wrong.json").write_text(json.dumps({**taken, "id": "x.verdict"}))
    hub = await start_server(
        open_hub(callback_addresses="loopback"), adapters__files=str(tmp_path / "files")
    )
    with ftp_server(inbox, "pass") as port:
        async with Receiver(lambda _: 204) as server:
            people = await people_of(hub, server)
            await people.send("the first", to="ann", sender="ci", id="m-1")
            login = {"host": "127.0.0.1", "port": port, "username": "hub"}
            remote = {**login, "security": "none", "done": "delete"} if kind == "ftp" else {}
            settings = {**remote, "receiver": "ann", "stableSeconds": 0, "maxBytes": 1000}
            secrets = {"password": "pass"} if remote else {}
            await people.set_adapter("drop", kind, settings, secrets=secrets, interval_ms=50)

            def of(path: str) -> list[Any]:
                return [sent_content(each) for each in server.messages if each.path == path]

            async with asyncio.timeout(20):
                while len(of("/ann")) < 2 or len(of("/all")) < 2 or (inbox / "a.png").exists():
                    await asyncio.sleep(0.05)
            assert of("/ann") == ["the first", PNG]
            assert all("id" in each for each in of("/all"))
            statuses = await service_of(hub)("GET", f"{HUB}/adapter-status")
            assert "drop" in statuses.text
    assert {each.name for each in inbox.iterdir() if each.is_file()} == {
        "large.bin", "taken.json", "wrong.json",
    }  # fmt: skip
    assert (inbox / "large.bin").read_bytes() == PNG * 10


async def test_a_picture_goes_out_by_mail_and_comes_in_by_mail(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(open_hub(callback_addresses="loopback"))
    certificate = make_certificate(tmp_path)
    with tempfile.TemporaryDirectory() as folder, dovecot(Path(folder) / "d", certificate) as boxes:
        async with mail_server() as smtp, Receiver(lambda _: 204) as server:
            people = await people_of(hub, server)
            plain = {"host": "127.0.0.1", "security": "none"}
            out = {**plain, "port": smtp.port, "sender": "hub@example.org"}
            await people.set_adapter("email", "email", out)
            bob = {"adapter": "email", "parameters": ["bob@example.org"]}
            await people.set_peer("bob", [bob])
            named = {"file": "a.png", "contentType": "image/png"}
            await people.send(PNG, to="bob", sender="ci", headers=named)
            async with asyncio.timeout(20):
                while not smtp.mails:
                    await asyncio.sleep(0.05)
            (mail,) = smtp.mails
            assert (mail.get_content(), mail.get_filename()) == (PNG, "a.png")

            answer = EmailMessage()
            answer["From"], answer["In-Reply-To"] = "bob@example.org", mail["Message-ID"]
            answer.set_content("and mine")
            answer.add_attachment(PNG[::-1], "image", "png", filename="b.png")
            await asyncio.to_thread(boxes.append, "hub", answer.as_bytes(policy=SMTP))
            box = {**plain, "port": boxes.port, "username": "hub", "receiver": "ann"}
            secrets = {"password": PASSWORD}
            await people.set_adapter(
                "inbox", "email-in", {**box, "done": "delete"}, secrets=secrets, interval_ms=100
            )
            text, picture = await server.got(2)
            assert (sent_content(text), sent_content(picture)) == ("and mine", PNG[::-1])
            assert json.loads(picture.body)["message"]["sender"] == "bob"
            async with asyncio.timeout(20):
                while await asyncio.to_thread(boxes.mails, "hub"):
                    await asyncio.sleep(0.05)


async def test_the_command_line_sends_a_file_as_it_is(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(open_hub(callback_addresses="loopback"))
    file = tmp_path / "a.png"
    async with Receiver(lambda _: 204) as server:
        await people_of(hub, server)
        environment = at(hub, hub.token("root", hub="*", level=Level.ADMIN))
        for data in (PNG, "grün\r\n".encode()):
            file.write_bytes(data)
            ended = await invoke(
                "send", "--file", str(file), "--to", "ann", "--from", "ci", **environment
            )
            assert ended.code == 0, ended.err
        pictured, written = await server.got(2)
    assert sent_content(pictured) == PNG
    assert sent_content(written) == "grün\r\n"


async def test_a_content_that_is_not_exactly_one_of_text_and_bytes_is_refused(
    start_hub: StartHub,
) -> None:
    service = service_of(await start_hub(open_hub()))
    wrong: tuple[Any, ...] = (
        {},
        {"text": "a", "base64": "YQ=="},
        {"base64": "?"},
        {"bytes": "YQ=="},
        5,
        ["a"],
    )
    for content in wrong:
        body = {"type": "A", "subtype": "b", "sender": "ci", "content": content}
        reply = await service("POST", "/v1/hubs/acme/comm/messages", body)
        assert (reply.status, "content" in reply.message) == (422, True), content
    body = {"type": "A", "subtype": "b", "sender": "ci", "content": {"text": "a"}, "id": "m-1"}
    assert (await service("POST", "/v1/hubs/acme/comm/messages", body)).status == 200
    plain = {**body, "content": "a"}
    assert (await service("POST", "/v1/hubs/acme/comm/messages", plain)).status == 200
    listed = await service("GET", f"{HUB}/messages?id=m-1")
    assert [each["message"]["content"] for each in listed.json["items"]] == ["a"]


async def test_bytes_that_wait_survive_a_restart_a_restore_and_are_erased_with_their_receiver(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(open_hub(callback_addresses="loopback"))
    async with Receiver(lambda _: 503) as server:
        people = await people_of(hub, server)
        await people.send(PNG, to="ann", sender="ci", id="m-1")
        await server.got(1)
        await hub.close()
        server.received.clear()
        server.respond = lambda _: 204
        hub = await start_server(open_hub(callback_addresses="loopback"))
        assert sent_content((await server.got(1))[0]) == PNG

        archive, *_ = back_up(tmp_path / "data", tmp_path / "backup.tar.gz", with_secrets=True)
        admin = admin_of(hub)
        assert (await admin("DELETE", f"{HUB}/users/ann")).status == 200
        assert "base64" not in (await admin("GET", f"{HUB}/messages")).text
        assert (await restore_hub(hub, archive))["state"] == "done"
        logged = (await admin("GET", f"{HUB}/messages?receiver=ann")).json["items"]
        assert [b64decode(each["message"]["content"]["base64"]) for each in logged] == [PNG]

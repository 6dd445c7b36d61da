"""Adapters to real servers of their medium: mail, FTP, and feeds over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import tempfile
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest

import hubbub.connectors.adapters.included  # noqa: F401  declares them
from harness.adapters import adapter_context, delivery, make_adapter
from harness.certificates import make_certificate
from harness.ftp import ftp_server
from harness.mail import PASSWORD, Dovecot, dovecot, mail_server
from harness.receivers import Received, Receiver, Reply, whole_answer
from hubbub.ports.adapters import AdapterFailed, Pulled, TemporaryFailure

pytestmark = [pytest.mark.spec("COMM-03")]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


# -- mail out -------------------------------------------------------------------------------------


def smtp(port: int, **settings: Any) -> dict[str, Any]:
    usual = {"host": "127.0.0.1", "port": port, "sender": "hub@example.org", "timeoutSeconds": 5.0}
    return {**usual, "security": "none", **settings}


async def send(settings: dict[str, Any], address: str = "ann@example.org", **fields: Any) -> None:
    async with adapter_context() as context:
        out: Any = make_adapter("email", settings, context)
        await out.push(delivery(address, **fields))


async def test_a_server_that_drops_the_connection_after_data_gets_the_same_mail_again() -> None:
    async with mail_server() as server:
        server.drops_after_data = 1
        with pytest.raises(TemporaryFailure):
            await send(smtp(server.port))
        await send(smtp(server.port))
        first, again = server.mails
    assert first["Message-ID"] == again["Message-ID"]


@pytest.mark.parametrize("way", ["starttls", "tls"])
async def test_mail_goes_over_tls_to_who_is_trusted_alone(
    way: str, certificate: tuple[Path, Path], server_tls: ssl.SSLContext
) -> None:
    async with mail_server(server_tls, from_the_start=way == "tls") as server:
        with pytest.raises(TemporaryFailure, match=r"(?i)certificate"):
            await send(smtp(server.port, security=way))
        trusted = certificate[0].read_text()
        await send(smtp(server.port, security=way, certificateAuthorities=trusted))
        assert len(server.mails) == 1


async def test_mail_never_goes_without_tls_where_tls_is_wanted() -> None:
    async with mail_server() as server:
        with pytest.raises(TemporaryFailure, match="STARTTLS"):
            await send(smtp(server.port, security="starttls"))
        assert server.mails == []


@pytest.mark.parametrize(
    ("answer", "failure"),
    [("550 no such user", AdapterFailed), ("450 greylisted", TemporaryFailure)],
)
async def test_a_refused_recipient_is_final_or_not_as_its_code_says(
    answer: str, failure: type[Exception]
) -> None:
    async with mail_server() as server:
        server.rcpt_answer = answer
        with pytest.raises(failure, match=answer[4:]):
            await send(smtp(server.port))


async def test_a_wrong_password_is_tried_again_later_and_is_not_told() -> None:
    async with mail_server(login=True) as server:
        server.password = "right"
        with pytest.raises(TemporaryFailure) as caught:
            await send(smtp(server.port, username="hub", password="wrong-one"))
    assert "wrong-one" not in str(caught.value)
    assert caught.value.retry_after_seconds == 60.0


async def test_addresses_of_other_scripts_arrive() -> None:
    async with mail_server() as server:
        await send(smtp(server.port), "jörg@example.org", content="grüß dich")
        assert server.recipients == ["jörg@example.org"]
        assert server.mails[0].get_content().strip() == "grüß dich"


# -- HTTP out -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 301, 400, 401, 404, 410, 422, 408, 425, 429,
                                    500, 502, 503])  # fmt: skip
async def test_statuses_of_http_are_success_final_or_to_be_tried_again(status: int) -> None:
    async with Receiver(lambda _: whole_answer(status)) as server, adapter_context() as context:
        out: Any = make_adapter("rest", {"url": server.url}, context)
        if status < 300:
            await out.push(delivery())
        else:
            later = status in (408, 425, 429) or status >= 500
            with pytest.raises(TemporaryFailure if later else AdapterFailed, match=str(status)):
                await out.push(delivery())
        (asked,) = server.received
        assert asked.headers["idempotency-key"] == "key-1"


# -- mail in --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mailboxes(certificate: tuple[Path, Path]) -> Iterator[Dovecot]:
    with tempfile.TemporaryDirectory() as name, dovecot(Path(name) / "d", certificate) as server:
        yield server


def imap(mailboxes: Dovecot, user: str, trusted: Path, **settings: Any) -> dict[str, Any]:
    usual = {"host": "127.0.0.1", "port": mailboxes.tls_port, "timeoutSeconds": 10.0}
    access = {"username": user, "password": PASSWORD}
    return {**usual, **access, "certificateAuthorities": trusted.read_text(), **settings}


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def picture_mail(subject: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "ann@example.org", subject
    mail.set_content("the text")
    mail.add_attachment(PNG, "image", "png", filename="a.png")
    return mail


async def pull_all(settings: dict[str, Any]) -> list[Pulled]:
    found = []
    async with adapter_context() as context:
        incoming: Any = make_adapter("email-in", settings, context)
        while (pulled := await incoming.pull()) is not None:
            await incoming.settle(pulled.receipt)
            found.append(pulled)
        await incoming.close()
    return found


async def test_all_of_a_mailbox_is_read_however_broken_and_large_it_is(
    mailboxes: Dovecot, certificate: tuple[Path, Path]
) -> None:
    large = EmailMessage()
    large["From"], large["Subject"] = "ann@example.org", "large"
    large.set_content("the text")
    large.add_attachment(b"x" * 3_000_000, "application", "zip", filename="big.zip")
    mails = [
        b"From: ann@example.org\r\nSubject: =?iso-8859-1?q?gr=FC=DFe?=\r\n\r\nhello",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain; "
        b"charset=klingon\r\nContent-Transfer-Encoding: base64\r\n\r\n!!!not base64",
        b"\xff\xfe\xfd no headers at all \x00",
        b"From: x@example.org\r\nAuto-Submitted: auto-replied\r\n\r\naway",
        large.as_bytes(),
    ]
    for raw in mails:
        await asyncio.to_thread(mailboxes.append, "broken", raw)
    found = await pull_all(imap(mailboxes, "broken", certificate[0]))
    subjects = [each.message.headers["subject"] for each in found]
    assert subjects == ["grüße", "", "", "large", "large"]
    assert [each.message.content for each in found[-2:]] == ["the text", "x" * 3_000_000]
    assert await asyncio.to_thread(mailboxes.mails, "broken", "UNSEEN") == []
    assert len(await asyncio.to_thread(mailboxes.mails, "broken")) == 5


@pytest.mark.spec("COMM-12")
@pytest.mark.parametrize("done", ["seen", "delete"])
async def test_a_mail_that_cannot_be_taken_stays_unseen_and_is_told_once(
    mailboxes: Dovecot, certificate: tuple[Path, Path], done: str
) -> None:
    user = f"stays-{done}"
    mails = [picture_mail(name) for name in ("small", "large", "refused")]
    mails[1].add_attachment(b"x" * 100_000, "image", "png", filename="large.png")
    for mail in mails:
        await asyncio.to_thread(mailboxes.append, user, mail.as_bytes(policy=SMTP))
    async with adapter_context() as context:
        settings = imap(mailboxes, user, certificate[0], maxBytes=50_000, done=done)
        incoming: Any = make_adapter("email-in", settings, context)
        text, picture = await incoming.pull(), None
        await incoming.settle(text.receipt)
        assert len(await asyncio.to_thread(mailboxes.mails, user, "UNSEEN")) == 3, "half taken"
        picture = await incoming.pull()
        assert picture.message.content == PNG
        await incoming.settle(picture.receipt)
        await incoming.refuse((await incoming.pull()).receipt)
        with pytest.raises(AdapterFailed, match=r"is left where it is: it has more than 50000"):
            await incoming.pull()
        assert await incoming.pull() is None
        await incoming.close()
    unseen = await asyncio.to_thread(mailboxes.mails, user, "UNSEEN")
    assert [each["Subject"] for each in unseen] == ["large", "refused"]
    left = await asyncio.to_thread(mailboxes.mails, user)
    assert len(left) == (3 if done == "seen" else 2)


@pytest.mark.parametrize("done", ["delete", "move"])
async def test_mail_that_was_stored_goes_where_it_is_told(
    mailboxes: Dovecot, certificate: tuple[Path, Path], done: str
) -> None:
    user = f"user-{done}"
    await asyncio.to_thread(mailboxes.append, user, b"From: ann@example.org\r\n\r\nhello")
    (found,) = await pull_all(imap(mailboxes, user, certificate[0], done=done))
    assert found.message.headers["from"] == "ann@example.org"
    assert await asyncio.to_thread(mailboxes.mails, user) == []
    if done == "move":
        assert len(await asyncio.to_thread(mailboxes.mails, user, "ALL", "Done")) == 1


async def test_a_wrong_password_of_a_mailbox_is_not_told(
    mailboxes: Dovecot, certificate: tuple[Path, Path]
) -> None:
    with pytest.raises(TemporaryFailure, match=r"login of 'eve' is refused") as caught:
        await pull_all(imap(mailboxes, "eve", certificate[0], password="wrong-one"))
    assert "wrong-one" not in str(caught.value)
    with pytest.raises(TemporaryFailure, match="no folder 'Nowhere'"):
        await pull_all(imap(mailboxes, "eve", certificate[0], folder="Nowhere"))


# -- FTP ------------------------------------------------------------------------------------------


def ftp(port: int, **settings: Any) -> dict[str, Any]:
    usual = {"host": "127.0.0.1", "port": port, "username": "hub", "password": "pass"}
    return {**usual, "security": "none", "stableSeconds": 2, "timeoutSeconds": 10.0, **settings}


async def test_a_file_that_is_still_being_written_is_left_until_it_is_whole(tmp_path: Path) -> None:
    with ftp_server(tmp_path, "pass", masquerade="10.9.8.7") as port:
        async with adapter_context() as context:
            clock: Any = context.clock
            incoming: Any = make_adapter("ftp", ftp(port), context)
            (tmp_path / "a.txt").write_text("one")
            assert await incoming.pull() is None
            clock.advance(1)
            (tmp_path / "a.txt").write_text("one, two")
            assert await incoming.pull() is None
            clock.advance(3)
            found = await incoming.pull()
            assert found.message.content == "one, two"
            await incoming.settle(found.receipt)
            await incoming.settle(found.receipt)
            assert (tmp_path / ".done" / "a.txt").exists()
            assert await incoming.pull() is None


async def test_files_may_be_deleted_and_large_ones_are_left(tmp_path: Path) -> None:
    (tmp_path / "large").write_text("x" * 100)
    (tmp_path / "small").write_text("x")
    with ftp_server(tmp_path, "pass") as port:
        async with adapter_context() as context:
            settings = ftp(port, stableSeconds=0, maxBytes=10, done="delete")
            incoming: Any = make_adapter("ftp", settings, context)
            found = await incoming.pull()
            await incoming.settle(found.receipt)
            with pytest.raises(AdapterFailed, match="'large' is left where it is"):
                await incoming.pull()
            assert await incoming.pull() is None
    assert [each.name for each in tmp_path.iterdir()] == ["large"]


@pytest.mark.spec("COMM-12")
@pytest.mark.parametrize("done", ["delete", "move"])
async def test_a_file_on_ftp_that_is_written_again_after_it_was_read_is_read_again(
    tmp_path: Path, done: str
) -> None:
    with ftp_server(tmp_path, "pass") as port:
        async with adapter_context() as context:
            incoming: Any = make_adapter("ftp", ftp(port, stableSeconds=0, done=done), context)
            for number, text in enumerate(("one", "two, and more")):
                (tmp_path / "a").write_text(text)
                found = await incoming.pull()
                assert found.message.content == text
                if number == 0:
                    (tmp_path / "a").write_text("in between")
                await incoming.settle(found.receipt)
                assert (tmp_path / "a").exists() == (number == 0)


@pytest.mark.spec("COMM-12")
async def test_files_of_one_name_do_not_replace_each_other_where_they_are_put_away(
    tmp_path: Path,
) -> None:
    with ftp_server(tmp_path, "pass") as port:
        async with adapter_context() as context:
            incoming: Any = make_adapter("ftp", ftp(port, stableSeconds=0), context)
            for text in ("one", "two"):
                (tmp_path / "a").write_text(text)
                await incoming.settle((await incoming.pull()).receipt)
    assert {each.read_text() for each in (tmp_path / ".done").iterdir()} == {"one", "two"}


@pytest.mark.spec("COMM-12")
async def test_names_on_ftp_need_not_be_utf8(tmp_path: Path) -> None:
    names = [b"\xff\xe9", "grün à".encode(), "x\u3000y".encode()]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(name)
    with ftp_server(tmp_path, "pass") as port:
        async with adapter_context() as context:
            settings = ftp(port, stableSeconds=0, done="delete")
            incoming: Any = make_adapter("ftp", settings, context)
            contents = []
            while (found := await incoming.pull()) is not None:
                content = found.message.content
                contents.append(content if isinstance(content, bytes) else content.encode())
                await incoming.settle(found.receipt)
    assert sorted(contents) == sorted(names)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("COMM-12")
async def test_a_file_that_the_server_does_not_give_holds_up_no_other(tmp_path: Path) -> None:
    with ftp_server(tmp_path, "pass", secret_files=["closed"]) as port:
        async with adapter_context() as context:
            incoming: Any = make_adapter("ftp", ftp(port, stableSeconds=0), context)
            for number, name in enumerate(("closed", "open")):
                (tmp_path / name).write_text(name)
                os.utime(tmp_path / name, (1000 + number, 1000 + number))
            found = await incoming.pull()
            assert found.message.content == "open"
            await incoming.settle(found.receipt)
            with pytest.raises(AdapterFailed, match="'closed' is left where it is"):
                await incoming.pull()
    assert (tmp_path / "closed").exists()


async def test_a_wrong_password_of_ftp_is_not_told(tmp_path: Path) -> None:
    with ftp_server(tmp_path, "right") as port:
        async with adapter_context() as context:
            incoming: Any = make_adapter("ftp", ftp(port, password="wrong-one"), context)
            with pytest.raises(TemporaryFailure, match=r"login of 'hub' is refused") as caught:
                await incoming.pull()
    assert "wrong-one" not in str(caught.value)


# -- feeds ----------------------------------------------------------------------------------------


def rss(*titles: str) -> bytes:
    items = "".join(f"<item><guid>{title}</guid><title>{title}</title></item>" for title in titles)
    return f'<rss version="2.0"><channel><title>News</title>{items}</channel></rss>'.encode()


async def test_new_entries_come_once_and_the_oldest_first() -> None:
    current = [rss("two", "one")]

    def answer(request: Received) -> Reply:
        tag = f'"{len(current[0])}"'
        if request.headers.get("if-none-match") == tag:
            return 304
        return whole_answer(
            200, current[0], ETag=tag, Last_Modified="Tue, 17 Nov 2026 10:00:00 GMT"
        )

    async with Receiver(answer) as server, adapter_context() as context:
        incoming: Any = make_adapter("feed", {"url": f"{server.url}/rss"}, context)
        titles = []
        for _ in range(2):
            found = await incoming.pull()
            titles.append(found.message.headers["title"])
            await incoming.settle(found.receipt)
        assert await incoming.pull() is None
        assert server.received[-1].headers["if-none-match"]
        assert server.received[-1].headers["if-modified-since"].startswith("Tue")
        current[0] = rss("three", "two", "one")
        found = await incoming.pull()
        assert [*titles, found.message.headers["title"]] == ["one", "two", "three"]


BOMB = b"""<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">
]><rss version="2.0"><channel><title>&c;</title></channel></rss>"""


@pytest.mark.parametrize("body", [BOMB, BOMB.decode().encode("utf-16"), b"<html>no", b"\x00\xff"])
async def test_entity_bombs_and_what_is_no_feed_are_refused(body: bytes) -> None:
    async with Receiver(lambda _: whole_answer(200, body)) as server, adapter_context() as context:
        incoming: Any = make_adapter("feed", {"url": server.url}, context)
        with pytest.raises(AdapterFailed, match=r"entities|no feed"):
            await incoming.pull()


# -- chat -----------------------------------------------------------------------------------------


async def test_an_invitation_that_cannot_be_accepted_holds_up_no_message() -> None:
    event = {
        "type": "m.room.message",
        "event_id": "$1",
        "sender": "@ann:example.org",
        "content": {"msgtype": "m.text", "body": "hello"},
    }
    synced = {
        "next_batch": "s1",
        "rooms": {
            "join": {"!room": {"timeline": {"events": [event]}}},
            "invite": {"!gone": {}, "!open": {}},
        },
    }

    def answer(request: Received) -> Reply:
        if "/join/" in request.path:
            return 404 if "gone" in request.path else whole_answer(200, b"{}")
        if "/sync" in request.path:
            return whole_answer(200, json.dumps(synced).encode())
        return whole_answer(200, b'{"user_id": "@hub:example.org"}')

    async with Receiver(answer) as server, adapter_context() as context:
        settings = {"homeserver": server.url, "accessToken": "t", "acceptInvitations": True}
        source: Any = make_adapter("matrix-in", settings, context)
        pulled = await source.pull()
        assert pulled.message.content == "hello"
        assert sum("/join/" in each.path for each in server.received) == 2

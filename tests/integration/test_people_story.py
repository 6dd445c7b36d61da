"""From a build that fails to the answer of a person: e-mail, a channel, a push."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from harness.admin import HUB, client_of, service_of
from harness.certificates import make_certificate
from harness.journal import QUIET, journalled
from harness.mail import PASSWORD, Dovecot, dovecot, mail_server
from harness.push_services import BrowserService
from harness.running_hub import RunningHub, StartHub
from harness.views import rows, tables_of, talks, view
from hubbub.domain.journal import POLICY_VERDICT, JournalEvent
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules

SECONDS = 20.0


async def until(found: Callable[[], Any]) -> Any:
    """What a blocking question answers, once it answers something."""
    async with asyncio.timeout(SECONDS):
        while not (answer := await asyncio.to_thread(found)):
            await asyncio.sleep(0.05)
    return answer


def answer_to(mail: EmailMessage, text: str) -> EmailMessage:
    """What a mail program makes of "reply"."""
    answer = EmailMessage()
    answer["From"], answer["To"] = "Ann <ann@example.org>", mail["From"]
    answer["Subject"] = f"Re: {mail['Subject']}"
    answer["Message-ID"] = "<answer-1@example.org>"
    answer["In-Reply-To"] = mail["Message-ID"]
    answer["References"] = f"{mail['References']} {mail['Message-ID']}"
    quoted = "\n".join(f"> {line}" for line in mail.get_content().splitlines())
    answer.set_content(f"{text}\n\nOn Tuesday ci wrote:\n{quoted}\n")
    return answer


async def set_up(hub: RunningHub, smtp: int, mailboxes: Dovecot) -> None:
    service = service_of(hub)
    mail = {"host": "127.0.0.1", "security": "none"}
    adapters: dict[str, dict[str, Any]] = {
        "email": {"kind": "email", "settings": {**mail, "port": smtp, "sender": "hub@example.org"}},
        "inbox": {
            "kind": "email-in",
            "settings": {**mail, "port": mailboxes.port, "username": "hub"},
            "secrets": {"password": PASSWORD},
        },
        "channel": {"kind": "channel"},
        "push": {"kind": "push"},
    }
    peers = {
        "ann": [{"adapter": "email", "parameters": ["ann@example.org"]}],
        "bob": [{"adapter": "channel", "parameters": ["for-bob"]}],
        "eve": [{"adapter": "push", "parameters": []}],
    }
    calls = [
        *(("PUT", f"{HUB}/adapters/{name}", body) for name, body in adapters.items()),
        *(("PUT", f"{HUB}/peers/{name}", {"addresses": each}) for name, each in peers.items()),
        ("PUT", f"{HUB}/collectives/ops", {"members": list(peers)}),
        ("POST", f"{HUB}/routes", {"type": "BUILD", "route": ["collective:ops"]}),
    ]
    for method, path, body in calls:
        answer = await service(method, path, body)
        assert answer.status < 300, answer.text


@pytest.mark.spec("COMM-01", "COMM-03", "COMM-04", "PIPE-03")
async def test_a_build_fails_three_people_hear_of_it_and_one_answers_by_mail(
    start_server: StartHub, tmp_path: Path
) -> None:
    stored = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
    settings = HubSettings(
        callback_addresses="loopback", allow_anonymous=True, default_rules="stored"
    )
    hub = await start_server(HubConfiguration("acme", settings, {"stored": stored}), **QUIET)
    service = service_of(hub)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with dovecot(folder / "dovecot", make_certificate(folder)) as mailboxes:
            async with mail_server() as smtp, BrowserService() as browsers:
                smtp.deliver = lambda to, raw: mailboxes.append(to.partition("@")[0], raw)
                await set_up(hub, smtp.port, mailboxes)
                browser = browsers.browser("/eve")
                body = {"platform": "webpush", "token": browser.subscription}
                token = await client_of(hub, "eve")("PUT", "/v1/hubs/acme/push-tokens", body)
                assert token.status == 200
                socket = await hub.socket()
                await socket.subscribe("for-bob")

                build = {"type": "BUILD", "subtype": "FAILED", "sender": "component:ci"}
                said = {**build, "content": "it is red", "conversationID": "build 7"}
                sent = await service("POST", "/v1/hubs/acme/comm/messages", said)
                assert sent.status == 200, sent.text
                first = sent.json["id"]

                (mail,) = await until(lambda: mailboxes.mails("ann"))
                assert (mail["Subject"], mail.get_content().strip()) == ("build 7", "it is red")
                heard = await socket.find("Publish")
                assert heard["payload"] == {"text": "it is red"}
                shown = browser.read((await browsers.got(1))[0])
                assert (shown["title"], shown["body"]) == ("build 7", "it is red")

                raw = answer_to(mail, "I am on it").as_bytes()
                await asyncio.to_thread(mailboxes.append, "hub", raw)
                pulled = await service("POST", f"{HUB}/adapters/inbox/pull")
                assert pulled.status < 300, pulled.text
                answer = await _logged(service, "ann")
                assert answer["content"] == "I am on it"
                assert answer["refersTo"] == first
                assert answer["conversationID"] == "build 7"
                assert (answer["type"], answer["subtype"]) == ("MAIL", "REPLY")

    def answered(events: list[JournalEvent]) -> bool:
        verdict = any(each.kind == POLICY_VERDICT for each in events)
        return verdict and any(each.refers_to == first for each in events)

    events = await journalled(tmp_path / "data" / "journal", answered)
    sources = talks(**tables_of(events))
    ((asker, answerer, seconds),) = [
        (asker, answerer, taken / 1e6)
        for asker, answerer, taken in rows(
            view("replies", sources), "asker", "answerer", "response_time"
        )
    ]
    assert (asker, answerer) == ("component:ci", "ann")
    assert 0 < seconds < SECONDS
    columns = ("policy", "deliveries", "met")
    assert rows(view("policy_success", sources), *columns) == [("TO_ALL_MEMBERS", 1, 1)]
    reached = rows(view("adapter_success", sources), "adapter", "policy", "delivered")
    channels = ("channel", "email", "push")
    assert reached == [(name, "TO_ALL_CHANNELS", 1) for name in channels]


async def _logged(service: Any, sender: str) -> dict[str, Any]:
    async with asyncio.timeout(SECONDS):
        while True:
            found = (await service("GET", f"{HUB}/messages?sender={sender}")).json["items"]
            if found:
                return dict(found[0]["message"])
            await asyncio.sleep(0.05)

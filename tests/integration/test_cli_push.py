"""`hubbub push` and `hubbub publish --push`, against a real server and a push service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from harness.command import Ended
from harness.invoking import answer, at, invoke, lines
from harness.push_services import BrowserService, Fcm, pem, push_hub
from harness.running_hub import RunningHub, StartHub
from hubbub.domain.permissions import Level

pytestmark = pytest.mark.spec("UI-03", "PUSH-01")


class Commands:
    """As an administrator, for the hub `acme`."""

    def __init__(self, hub: RunningHub, *words: str) -> None:
        self._words = words
        self._environment = at(hub, hub.token("root", hub="*", level=Level.ADMIN))

    async def __call__(self, *arguments: str) -> Ended:
        return await invoke(*self._words, *arguments, **self._environment)


async def test_devices_and_followings_and_what_reaches_them(start_hub: StartHub) -> None:
    hub = await start_hub(push_hub())
    run = Commands(hub, "push")
    async with BrowserService() as service:
        browser = service.browser()
        assert "has no devices" in (await run("tokens", "ann")).err
        device = (await run("register", "ann", "webpush", json.dumps(browser.subscription))).out
        (listed,) = await lines(run, "tokens", "ann")
        assert listed["id"] == device.strip()
        assert (await run("follow", "ann", "news")).code == 0
        (followed,) = await lines(run, "followings", "ann")
        assert followed["channel"] == "news"

        publish = Commands(hub, "publish")
        options = '{"title": "Hello"}'
        assert (await publish("news", "hi", "--push-options", options)).code == 0
        (first,) = await service.got(1)
        assert browser.read(first)["title"] == "Hello"
        assert (await publish("news", "hi", "--push")).code == 0
        second = (await service.got(2))[1]
        assert "title" not in browser.read(second)

        assert (await run("send", "ann", "--title", "Sale", "--ttl", "60")).out.startswith("push-")
        assert browser.read((await service.got(3))[2])["title"] == "Sale"
        (tested,) = await lines(run, "test", "ann")
        assert (tested["outcome"], tested["status"]) == ("ok", 201)
        shown = await answer(run, "status")
        assert shown["platforms"]["webpush"]["outcomes"]["ok"] == 4

        assert (await run("unfollow", "ann", "news")).code == 0
        assert (await run("unregister", "ann", "webpush", listed["id"])).code == 0
        gone = await run("unregister", "ann", "webpush", listed["id"])
        assert (gone.code, "no such push token" in gone.err) == (1, True)


async def test_keys_and_accounts(start_server: StartHub, tmp_path: Path) -> None:
    hub = await start_server(push_hub())
    run = Commands(hub, "push")
    key = (await run("rotate-key")).out.strip()
    account = tmp_path / "account.json"
    account.write_text(json.dumps(Fcm().account))
    assert (await run("set-fcm", str(account))).out == "proj-1 push@proj-1.example\n"
    p8 = tmp_path / "AuthKey.p8"
    p8.write_text(pem(ec.generate_private_key(ec.SECP256R1())))
    apns = await run("set-apns", str(p8), "--key-id", "K", "--team-id", "T", "--topic", "org.app")
    assert apns.code == 0, apns.err
    found = {each["platform"]: each for each in await lines(run, "credentials")}
    assert found["webpush"]["key"] == key
    assert (found["fcm"]["projectID"], found["apns"]["teamID"]) == ("proj-1", "T")
    account.write_text("no json")
    assert (await run("set-fcm", str(account))).code == 2

"""What may go wrong under an open dashboard, and who may want it to: thieves, viewers who post,
hostile names in the inspector; a hub that is upgraded, a token that ends."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.dev_hub import HOSTILE, MARKUP, DevHub, seed
from harness.thread_receiver import ThreadReceiver

from .acts import press, subscribe
from .conftest import ROOT, Dashboard
from .routes import PAGES

pytestmark = [
    pytest.mark.spec("UI-01"),
    pytest.mark.timeout(120),
]

DEMO = "/v1/admin/hubs/demo"


@pytest.fixture(scope="module")
def login() -> Iterator[ThreadReceiver]:
    """Where the organisation decides about passwords."""
    with ThreadReceiver().serving() as receiver:
        receiver.answer = {"success": True, "userID": MARKUP}
        yield receiver


@pytest.fixture(scope="module")
def dev_hub(tmp_path_factory: pytest.TempPathFactory, login: ThreadReceiver) -> Iterator[DevHub]:
    hub = DevHub(tmp_path_factory.mktemp("faults"), ADMIN_URL=f"{login.url}/login")
    seed(hub)
    yield hub
    hub.close()


def test_an_administrator_logs_in_by_password_and_a_hostile_name_is_text(
    visitor: Dashboard, dev_hub: DevHub, login: ThreadReceiver
) -> None:
    page = visitor.page
    page.goto(f"{dev_hub.address}/dashboard")
    login.status = 403
    page.get_by_label("User").fill("olga")
    page.get_by_label("Password").fill("wrong")
    press(page, "Log in")
    page.get_by_role("alert").wait_for()
    login.status = 200
    page.get_by_label("Password").fill("right")
    press(page, "Log in")
    page.get_by_role("button", name="Log out").wait_for()
    page.locator(".foot").get_by_text(MARKUP).wait_for()
    assert json.loads(login.wait_for("/login", 2)[1]) == {"user": "olga", "password": "right"}
    visitor.check()


def test_hostile_channels_and_events_are_text_in_the_inspector(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("inspector?hub=demo", "Inspector")
    page.get_by_role("textbox", name="User").fill(MARKUP)
    press(page, "Connect")
    page.get_by_role("heading", name="Session", exact=True).wait_for()
    for name in HOSTILE[:-1]:
        subscribe(page, name)
        publish = {"channel": name, "payload": {"json": {MARKUP: MARKUP}}, "event": MARKUP}
        headers = {"headers": {"x-hostile": MARKUP}, "author": MARKUP}
        dev_hub.call("POST", f"{DEMO}/messages", {"publishes": [{**publish, **headers}]})
        messages = page.get_by_role("region", name="Messages")
        messages.get_by_text(MARKUP).first.wait_for()
        messages.locator("summary").first.click()
        page.get_by_role("table", name="Presence").get_by_text(MARKUP).first.wait_for()
    log = page.get_by_role("region", name="Event log")
    log.locator("details", has_text="Publish").first.locator("summary").first.click()
    log.locator("summary", has_text="abc⟨202e⟩gnp.exe").first.wait_for()
    press(page, "Copy as code")
    page.locator("dialog pre").wait_for()
    dashboard.check()


THIEF = {"Sec-Fetch-Site": "same-origin", "Hubbub-Dashboard": "1"}


def steal(hub: DevHub, cookie: str, path: str, method: str = "GET", **headers: str) -> int:
    """The status of a request of somebody who has the cookie, and no browser that would tell where
    the request comes from."""
    request = urllib.request.Request(hub.address + path, method=method)
    request.add_header("Cookie", f"__Host-hubbub={cookie}")
    for name, value in headers.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_stolen_cookie_opens_the_page_alone_and_nothing_once_its_owner_logs_out(
    visitor: Dashboard, dev_hub: DevHub
) -> None:
    visitor.enter(dev_hub.admin)
    (cookie,) = (each["value"] for each in visitor.page.context.cookies())
    assert visitor.page.evaluate("document.cookie") == ""
    assert steal(dev_hub, cookie, "/dashboard/api/hubs") == 403  # it does not say where it is from
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Hubbub-Dashboard": "1"}
    assert steal(dev_hub, cookie, "/dashboard/api/hubs", **elsewhere) == 403
    shop = "/dashboard/api/hubs/shop"
    assert steal(dev_hub, cookie, shop, "DELETE", **{"Sec-Fetch-Site": "same-origin"}) == 403
    assert steal(dev_hub, cookie, "/v1/admin/hubs", **THIEF) == 401  # no other door knows it
    assert steal(dev_hub, cookie, "/dashboard/api/token/refresh", "POST", **THIEF) == 404
    assert steal(dev_hub, cookie, "/dashboard/api/hubs", **THIEF) == 200
    press(visitor.page, "Log out")
    visitor.page.get_by_role("button", name="Log in").wait_for()
    assert steal(dev_hub, cookie, "/dashboard/api/hubs", **THIEF) == 401
    visitor.check()


WRITES = """async (writes) => {
  const statuses = {};
  for (const [method, path, body] of writes) {
    const headers = { "Hubbub-Dashboard": "1", "Content-Type": "application/json" };
    const said = await fetch("/dashboard/api/hubs/demo" + path,
      { method, headers, ...(body !== null && { body: JSON.stringify(body) }) });
    statuses[method + " " + path] = said.status;
  }
  return statuses;
}"""
POSTED: tuple[tuple[str, str, object], ...] = (
    ("PUT", "/rules/chatroom", {}),
    ("DELETE", "/rules/chatroom", None),
    ("PUT", "/settings", {}),
    ("DELETE", "", None),
    ("POST", "/messages", {"publishes": []}),
    ("POST", "/tokens", {"level": "client"}),
    ("POST", "/revocations", {"kind": "hub"}),
    ("POST", "/traces", {"channel": "ledger:may"}),
    ("POST", "/rules/chatroom/dry-run", {}),
    ("PUT", "/peers/ann", {}),
    ("PUT", "/adapters/desk", {"kind": "rest"}),
    ("POST", "/dead-deliveries/replay", {}),
    ("POST", "/dead-deliveries/discard", {"keys": ["1.0"]}),
    ("DELETE", "/users/ann", None),
    ("POST", "/push/keys", None),
    ("PUT", "/push/credentials/apns", {"keyID": "k", "teamID": "t", "key": "k"}),
    ("PUT", "/channels/doc:plan/document", {}),
    ("POST", "/channels/notification:news/notifications", {"notifications": []}),
    ("GET", "/peers", None),
    ("GET", "/channels/doc:plan/document", None),
    ("GET", "/channels/notification:news/notifications", None),
)


ACTS = (
    *("Save", "Save the account", "Delete", "Remove", "Discard", "Discard these", "Erase"),
    *("Issue", "Publish", "Send", "Create", "Listen"),
)


def test_a_viewer_sees_every_page_finds_no_act_and_is_refused_who_posts_by_hand(
    visitor: Dashboard, dev_hub: DevHub
) -> None:
    visitor.enter(dev_hub.token("--level", "viewer", "--hub", "demo", "--user", "vera"))
    page = visitor.page
    for shown in PAGES:
        if shown.name in ("hubs", "audit", "table"):
            continue
        visitor.go(shown.route, shown.heading if shown.name != "overview" else None)
        for word in ACTS:
            for act in page.get_by_role("button", name=word, exact=True).all():
                inspector = shown.name == "inspector" and not act.is_disabled()
                assert act.is_disabled() or inspector, (shown.name, word)
    statuses = page.evaluate(WRITES, POSTED)
    assert set(statuses.values()) == {403}, statuses
    assert dev_hub.call("GET", f"{DEMO}/rules/chatroom")["presence"] is True
    visitor.check()


def test_a_page_whose_token_ends_asks_for_another_and_goes_on_where_it_was(
    visitor: Dashboard, dev_hub: DevHub
) -> None:
    page = visitor.page
    visitor.enter(dev_hub.token("--level", "admin", "--hub", "*", "--user", "brief", "--ttl", "6"))
    visitor.go("access?hub=demo", "Access")  # a page that asks for nothing by itself
    page.get_by_role("button", name="Log in").wait_for()
    assert page.get_by_role("heading", level=1, name="Access").count() == 0
    page.get_by_label("Or a token").fill(dev_hub.admin)
    press(page, "Log in")
    page.get_by_role("heading", level=1, name="Access").wait_for()
    page.locator(".link-state.live").wait_for()
    visitor.check()


def upgraded(folder: Path) -> Path:
    """The hub's program as another build, whose pages have other names."""
    package = folder / "hubbub"
    shutil.copytree(ROOT / "src" / "hubbub", package)
    web = package / "web" / "dashboard"
    names = {each.name for each in web.glob("*-*.js")}
    for file in web.iterdir():
        if file.suffix in (".br", ".gz"):
            file.unlink()  # of the old build
            continue
        text = file.read_text()
        for name in names:
            text = text.replace(name, f"new-{name}")
        (web / (f"new-{file.name}" if file.name in names else file.name)).write_text(text)
        if file.name in names:
            file.unlink()
    return folder


def test_a_hub_is_upgraded_under_an_open_page_which_goes_on_and_loads_the_new_build(
    dashboard: Dashboard, dev_hub: DevHub, tmp_path: Path
) -> None:
    page = dashboard.page
    dashboard.go("overview", "Overview")
    page.locator(".link-state.live").wait_for()
    dev_hub.restart(PYTHONPATH=str(upgraded(tmp_path)))
    page.locator(".link-state.live").wait_for()  # again, with the cookie that it has
    page.get_by_role("link", name="Rules and hubs").click()
    page.get_by_text("Was the hub upgraded?").wait_for()
    with page.expect_response("**/dashboard/new-rules-*.js"):
        press(page, "Try again")
    page.get_by_role("heading", level=1, name="Rules and hubs").wait_for()
    page.get_by_role("link", name="chatroom").wait_for()
    dashboard.wrong = [each for each in dashboard.wrong if "WebSocket" not in each]  # while away
    dashboard.check()


def test_a_hub_that_is_away_is_said_to_be_and_nobody_is_logged_out_by_that(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page: Any = dashboard.page
    dashboard.go("sessions?hub=demo", "Sessions")
    page.locator(".link-state.live").wait_for()
    page.context.set_offline(True)
    dev_hub.restart()
    page.get_by_text("connection lost, trying again").wait_for()
    page.get_by_label("Search sessions").fill("ann")
    page.get_by_text("the hub cannot be reached").first.wait_for()
    page.context.set_offline(False)
    page.locator(".link-state.live").wait_for()
    page.get_by_role("heading", level=1, name="Sessions").wait_for()
    dashboard.wrong = [each for each in dashboard.wrong if "WebSocket" not in each]
    dashboard.check()

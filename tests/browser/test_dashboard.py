"""The dashboard in a real browser: from login to logout, every page, and what one can do there."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from harness.dev_hub import MARKUP, DevHub

from .acts import confirm, subscribe, until
from .conftest import Dashboard
from .routes import MONTH, PAGES, Shown

pytestmark = [
    pytest.mark.spec("UI-01"),
    pytest.mark.timeout(120),
]


def test_the_printed_link_opens_the_dashboard_once(visitor: Dashboard, dev_hub: DevHub) -> None:
    page = visitor.page
    page.goto(f"{dev_hub.address}/dashboard#ticket={dev_hub.ticket}")
    page.get_by_role("heading", name="Overview").wait_for()
    assert "ticket" not in page.url
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    page.goto("about:blank")
    page.goto(f"{dev_hub.address}/dashboard#ticket={dev_hub.ticket}")
    page.get_by_text("used already").wait_for()
    visitor.check()


def test_a_wrong_token_is_refused_and_after_logout_the_cookie_is_worth_nothing(
    visitor: Dashboard, dev_hub: DevHub
) -> None:
    page = visitor.page
    page.goto(f"{dev_hub.address}/dashboard")
    page.get_by_label("Token").fill("not a token")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").wait_for()
    visitor.enter(dev_hub.admin)
    cookies = page.context.cookies()
    assert [(each["name"], each["httpOnly"], each["sameSite"]) for each in cookies] == [
        ("__Host-hubbub", True, "Strict")
    ]
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    page.context.add_cookies(cookies)
    page.reload()
    page.get_by_role("button", name="Log in").wait_for()
    visitor.check()


@pytest.mark.parametrize("shown", PAGES, ids=lambda shown: shown.name)
def test_every_page_shows_its_data_and_runs_nothing_of_it(
    dashboard: Dashboard, shown: Shown
) -> None:
    dashboard.go(shown.route, shown.heading)
    dashboard.page.get_by_text(shown.text).first.wait_for()
    assert dashboard.page.locator(".trouble").count() == 0, dashboard.page.locator(
        ".trouble"
    ).first.inner_text()
    dashboard.check()


def test_the_overview_is_live(dashboard: Dashboard) -> None:
    dashboard.go("overview", "Overview")
    dashboard.page.locator(".link-state.live").wait_for()
    dashboard.page.locator(".stat.in .value", has_text=re.compile(r"[1-9]\d*/s")).wait_for()
    dashboard.page.locator("canvas").first.wait_for()
    dashboard.check()


def test_rows_of_hubs_follow_each_tick_and_change_places_every_15_seconds_at_most(
    dashboard: Dashboard,
) -> None:
    page, sockets = dashboard.page, list[Any]()

    def accept(socket: Any) -> None:
        sockets.append(socket)
        socket.send(json.dumps({"event": "SessionInfo", "payload": {"sessionID": "s"}}))

    page.route_web_socket("**/dashboard/socket", accept)
    page.goto(f"{dashboard.address}/dashboard#/overview")
    page.locator(".link-state.live").wait_for()

    def tick(second: int, **sessions: int) -> None:
        names = ("subscriptions", "messagesIn", "messagesOut", "bytesIn", "bytesOut")
        rest = dict.fromkeys(names, 7000 + second)
        hubs = {name: {**rest, "sessions": each} for name, each in sessions.items()}
        counted = {"at": 1000 * (1_800_000_000 + second), "sessions": 1, **rest, "hubs": hubs}
        told = {"channel": "counters", "payload": {"json": counted}}
        sockets[-1].send(json.dumps({"event": "Publish", "payload": told}))

    def shown(*rows: str) -> None:
        for at, row in enumerate(rows):
            table = page.get_by_role("table", name="Hubs").locator(f'[data-at="{at}"]')
            table.filter(has_text=re.compile(row)).wait_for()

    def first_tick_is_heard() -> bool:
        """A tick that comes before the page listens is lost."""
        tick(0)
        return bool(page.get_by_text("No hub is in use.").is_visible())

    until(first_tick_is_heard)
    tick(1, quiet=3, busy=9)
    shown("busy97,001", "quiet37,001")
    tick(2, quiet=30, busy=9)
    shown("busy97,002", "quiet307,002")
    tick(3, quiet=30, busy=9, new=1)
    shown("quiet307,003", "busy97,003", "new17,003")
    tick(4, quiet=30, new=99)
    shown("new997,004", "quiet307,004")
    tick(20, quiet=300, new=99)
    shown("quiet3007,020", "new997,020")
    assert page.get_by_role("table", name="Hubs").locator("[data-at]").count() == 2
    dashboard.check()


def test_a_month_of_the_pipeline_is_drawn_by_the_hour_and_its_gaps_are_gaps(
    dashboard: Dashboard,
) -> None:
    dashboard.go(MONTH.route, MONTH.heading)
    chart = dashboard.page.locator("figure", has_text="Messages by the hour")
    chart.locator("canvas").wait_for()
    chart.get_by_text("Table").click()
    rows = chart.locator("tbody tr")
    rows.nth(199).wait_for()
    chart.get_by_text("older").wait_for()  # 31 days of hours, without the two that are not known
    shown = chart.locator("tbody").inner_text()
    assert re.search(r"\d,\d{3}", shown)
    assert not re.search(r"\d\.\d", shown)
    dashboard.go("data", "Data")
    dashboard.page.get_by_text("Brought up to date").wait_for()
    dashboard.check()


def test_hostile_names_are_text_and_lead_to_their_channel(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.go("channels?hub=demo", "Channels")
    page.get_by_role("link", name=MARKUP).click()
    page.get_by_role("heading", level=1, name=MARKUP).wait_for()
    dashboard.go("channels?hub=demo", "Channels")
    page.get_by_role("link", name="abc⟨202e⟩gnp.exe").wait_for()
    page.get_by_role("link", name="../../etc/passwd").click()
    page.get_by_role("heading", level=1, name="../../etc/passwd").wait_for()
    dashboard.check()


def test_hostile_users_payloads_and_headers_are_text_and_trusted_types_are_on(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    message = {
        "channel": "ledger:may",
        "payload": {"json": {MARKUP: [MARKUP]}},
        "event": MARKUP,
        "headers": {MARKUP: MARKUP},
        "author": MARKUP,
        "extra": {"store": True},
    }
    dev_hub.call("POST", "/v1/admin/hubs/demo/messages", {"publishes": [message]})
    dashboard.go("sessions?hub=demo&q=onerror", "Sessions")
    page.get_by_role("cell", name=MARKUP).wait_for()
    page.get_by_role("table", name="Sessions").get_by_role("link").first.click()
    page.get_by_text(MARKUP).first.wait_for()
    dashboard.go("channels/room%3Aall?hub=demo", "room:all")
    page.get_by_role("cell", name=MARKUP).first.wait_for()
    dashboard.go("channels/ledger%3Amay?hub=demo", "ledger:may")
    page.get_by_role("button", name="Read", exact=True).click()
    page.get_by_role("table", name="Messages").get_by_text(MARKUP).first.wait_for()
    refused = """() => { try { document.body.insertAdjacentHTML('beforeend', '<i>'); return ''; }
        catch (error) { return String(error); } }"""
    assert "TrustedHTML" in page.evaluate(refused)
    dashboard.wrong = [each for each in dashboard.wrong if "TrustedHTML" not in each]
    dashboard.check()


ELSEWHERE = "http://127.0.0.1:65000"
"""Another origin of the same site: the browser sends it the cookie along."""
ATTACK = """async (hub) => {
  const post = (path, body) =>
    fetch(hub + path, { method: "POST", body, credentials: "include", mode: "no-cors" })
      .catch(() => {}); // the answer is kept from the page; the request was made
  await post("/dashboard/api/hubs", '{"hub": "stolen"}');
  await post("/dashboard/logout", "");
  const read = await fetch(hub + "/dashboard/me", { credentials: "include" })
    .then((answer) => answer.status, (error) => error.name);
  const socket = new WebSocket(hub.replace("http", "ws") + "/dashboard/socket", "hubbub.json.v1");
  const opened = await new Promise((done) => {
    socket.onopen = () => done(true);
    socket.onerror = () => done(false);
  });
  const form = document.forms[0];
  form.action = hub + "/dashboard/logout";
  form.submit();
  return [read, opened];
}"""


def test_a_page_of_another_origin_reads_changes_frames_and_watches_nothing(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    html = f"""<iframe src="{dev_hub.address}/dashboard"></iframe>
        <iframe name="there"></iframe><form method="post" target="there"></form>"""
    page.route(f"{ELSEWHERE}/**", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto(ELSEWHERE)
    assert page.evaluate(ATTACK, dev_hub.address) == ["TypeError", False]
    assert page.frames[1].url.startswith("chrome-error:")  # in place of the dashboard
    dashboard.wrong.clear()  # the console says what was refused
    dashboard.go("rules?hub=demo", "Rules and hubs")  # neither logged out nor changed
    page.get_by_role("link", name="chatroom").wait_for()
    hubs = dev_hub.call("GET", "/v1/admin/hubs")["items"]
    assert "stolen" not in {each["hub"] for each in hubs}
    dashboard.check()


def test_a_page_of_a_hub_that_was_upgraded_meanwhile_says_so_and_loads_again(
    dashboard: Dashboard,
) -> None:
    """The new build has other names for the code of its pages: the old ones are gone."""
    page = dashboard.page
    dashboard.go("overview", "Overview")
    old = re.compile(r"/dashboard/audit-\w+\.js$")
    page.route(old, lambda route: route.fulfill(status=404))
    page.get_by_role("link", name="Audit").click()
    page.get_by_text("Was the hub upgraded?").wait_for()
    page.unroute(old)
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", level=1, name="Audit").wait_for()
    dashboard.check()


def test_rules_are_changed_and_a_change_of_somebody_else_is_shown_not_overwritten(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("rules/rules/ledger?hub=demo&show=rules", "Rules and hubs")
    page.get_by_label("retain").check()
    stored = dev_hub.call("GET", "/v1/admin/hubs/demo/rules/ledger")
    dev_hub.call("PUT", "/v1/admin/hubs/demo/rules/ledger", {**stored, "maxAgeSeconds": 777})
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Somebody else changed this").wait_for()
    page.get_by_role("cell", name="777").wait_for()
    page.get_by_role("button", name="Take theirs").click()
    page.get_by_label("retain").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved").wait_for()
    now = dev_hub.call("GET", "/v1/admin/hubs/demo/rules/ledger")
    assert (now["retain"], now["maxAgeSeconds"]) == (True, 777)
    dashboard.check()


def test_a_token_is_issued_and_the_audit_log_says_who_did_it(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.go("access?hub=demo", "Access")
    page.get_by_label("User").fill("ann")
    page.get_by_role("button", name="Issue").click()
    assert page.locator("dialog pre").inner_text().startswith("ey")
    dashboard.go("audit", "Audit")
    page.get_by_role("button", name="token.issue").first.click()
    page.get_by_role("heading", name="What changed").wait_for()
    dashboard.check()


def test_a_message_is_published_and_read_on_the_page_of_a_channel(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.go("channels/ledger%3Amay?hub=demo", "ledger:may")
    page.get_by_role("textbox", name="Payload").fill("from the dashboard")
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("Published to ledger:may").wait_for()
    page.get_by_role("button", name="Read", exact=True).click()
    page.get_by_role("table", name="Messages").get_by_text("from the dashboard").first.wait_for()
    dashboard.check()


def test_a_session_is_disconnected(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.go("sessions?hub=demo", "Sessions")
    page.get_by_role("table", name="Sessions").get_by_role("link").last.click()
    page.get_by_role("button", name="Disconnect").click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_text("Disconnected").wait_for()
    page.get_by_role("heading", level=1, name="Sessions").wait_for()
    dashboard.check()


def test_the_inspector_is_a_client(dashboard: Dashboard, dev_hub: DevHub) -> None:
    page = dashboard.page
    dashboard.go("inspector?hub=demo", "Inspector")
    page.get_by_role("textbox", name="User").fill("ann")
    page.get_by_role("button", name="Connect", exact=True).click()
    page.get_by_role("heading", name="Session").wait_for()
    subscribe(page, "room:tea")
    page.get_by_text("1 member").wait_for()
    page.get_by_role("textbox", name="Payload").fill(MARKUP)
    page.get_by_role("button", name="Publish").last.click()
    page.get_by_label("Messages").get_by_text(MARKUP).first.wait_for()
    page.get_by_role("region", name="Event log").get_by_text("Ack", exact=True).wait_for()
    page.get_by_role("button", name="Cut network").click()
    page.get_by_role("region", name="Event log").get_by_text(
        "SessionRestored", exact=True
    ).wait_for()
    subscribe(page, "notification:news")
    notices = page.get_by_role("table", name="Notifications")
    notices.get_by_text("Maintenance").wait_for()
    page.get_by_role("heading", name="2 unread").wait_for()
    notices.get_by_role("button", name="Mark read").first.click()
    page.get_by_role("heading", name="1 unread").wait_for()
    subscribe(page, "doc:plan")
    page.locator(".code").get_by_text("Release plan").wait_for()
    page.get_by_role("button", name="Change", exact=True).click()  # its title is "Hello" then
    page.locator(".code").get_by_text("Hello").wait_for()
    plan = {"title": "Changed elsewhere"}
    dev_hub.call("PUT", "/v1/admin/hubs/demo/channels/doc:plan/document", plan)
    page.locator(".code").get_by_text("Changed elsewhere").wait_for()
    log = page.get_by_role("region", name="Event log")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Set", exact=True).click()
    page.get_by_role("table", name="Filters").get_by_role("button", name="Remove").click()
    log.get_by_text("UnsetFilter", exact=True).nth(1).wait_for()  # asked and answered
    page.get_by_role("button", name="Command", exact=True).click()
    page.get_by_role("button", name="Send", exact=True).click()
    log.get_by_text("HResult", exact=True).wait_for()
    page.get_by_role("button", name="Authenticate", exact=True).first.click()
    token = dev_hub.token("--hub", "demo", "--user", "eve", "--grant", "*=ps")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Authenticate", exact=True).last.click()
    page.get_by_role("definition").get_by_text("eve", exact=True).wait_for()
    page.get_by_role("button", name="Copy as code").click()
    code = page.locator("dialog pre")
    assert "doc:plan" in code.inner_text()
    page.locator("dialog").get_by_role("button", name="Python").click()
    assert "from hubbub.client import connect" in code.inner_text()
    dashboard.check()


def test_keys_lead_to_pages_search_and_rows(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.go("overview?hub=demo", "Hub demo")
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.get_by_role("heading", level=1, name="Channels").wait_for()
    page.get_by_role("link", name="ledger:may").wait_for()
    for key, row in (("j", 0), ("j", 1), ("k", 0)):
        page.keyboard.press(key)
        page.locator(f"[data-at='{row}'] a:focus").wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("ledger")
    page.get_by_role("link", name=MARKUP).wait_for(state="detached")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    dashboard.check()


def test_a_webhook_is_paused_resumed_and_removed_and_a_subscription_removed(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    hook = {"channel": "ledger:june", "callback": "http://127.0.0.1:9/acts"}
    dev_hub.call("POST", "/v1/hubs/demo/webhooks", hook)
    dev_hub.call("PUT", "/v1/hubs/demo/topics/orders/subscriptions/acts", {})
    dashboard.go("delivery?hub=demo&show=webhooks", "Delivery")
    page.get_by_role("link", name="http://127.0.0.1:9/acts").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Resume", exact=True).click()
    page.get_by_role("button", name="Pause", exact=True).wait_for()
    confirm(page, "Remove", "Removed")
    page.get_by_role("heading", level=1, name="Delivery").wait_for()
    assert page.get_by_role("link", name="http://127.0.0.1:9/acts").count() == 0
    dashboard.go("delivery?hub=demo", "Delivery")
    page.get_by_role("link", name="acts", exact=True).click()
    confirm(page, "Remove", "Removed")
    dev_hub.call("GET", "/v1/hubs/demo/topics/orders/subscriptions/acts", expect=404)
    dashboard.check()


def test_notifications_are_created_marked_and_deleted(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("notifications?hub=demo&channel=notification%3Aacts", "Notifications and push")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("heading", name="1 unread of 1").wait_for()
    page.get_by_role("button", name="Mark read").click()
    page.get_by_role("heading", name="0 unread of 1").wait_for()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_role("button", name="Mark unread").wait_for(state="detached")
    dashboard.check()


def test_a_link_that_is_followed_while_the_page_changes_its_address_is_followed(
    dashboard: Dashboard,
) -> None:
    dashboard.go("rules?hub=demo", "Rules and hubs")
    dashboard.page.get_by_role("searchbox").first.evaluate(
        """(field) => {
            location.hash = "#/access?hub=demo"; // its event comes later
            field.value = "news";
            field.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
    )
    dashboard.page.get_by_role("heading", level=1, name="Access").wait_for()


def test_a_hub_is_created_and_deleted_and_a_user_revoked(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("rules?hub=demo&show=hubs", "Rules and hubs")
    page.get_by_role("textbox", name="Name", exact=True).fill("acts")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("link", name="acts", exact=True).wait_for()
    dashboard.go("rules?hub=acts&show=hub", "Rules and hubs")
    page.get_by_role("button", name="Delete the hub acts").click()
    page.get_by_role("button", name="Yes, do it").click()
    page.wait_for_url("**show=hubs**")
    assert "acts" not in {each["hub"] for each in dev_hub.call("GET", "/v1/admin/hubs")["items"]}
    dashboard.go("access?hub=demo&show=revocations", "Access")
    page.get_by_role("textbox", name="user").fill("mallory")
    page.get_by_role("button", name="Revoke", exact=True).click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_role("table", name="Revocations").first.get_by_text("mallory").wait_for()
    dashboard.go("audit", "Audit")
    for did in ("revocation.add", "hub.delete"):
        page.get_by_role("button", name=did).first.wait_for()
    dashboard.check()

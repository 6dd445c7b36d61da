"""Every act of the dashboard's pages in a real browser, and its effect at the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from harness.dev_hub import MARKUP, DevHub, seed
from harness.push_services import Fcm, pem
from harness.thread_receiver import ThreadReceiver

from .acts import confirm, create, delete, fill, press, subscribe, until
from .conftest import ROOT, Dashboard

pytestmark = [
    pytest.mark.spec("UI-01"),
    pytest.mark.timeout(120),
]

DEMO = "/v1/admin/hubs/demo"


@pytest.fixture(scope="module")
def dev_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevHub]:
    """Webhooks give up after the first try."""
    hub = DevHub(tmp_path_factory.mktemp("acts"), WEBHOOKS_RETRIES="0")
    seed(hub)
    yield hub
    hub.close()


@pytest.fixture
def receiver() -> Iterator[ThreadReceiver]:
    with ThreadReceiver().serving() as receiver:
        yield receiver


def audited(hub: DevHub, action: str) -> list[Any]:
    """Who did this in the hub `demo`, the newest first."""
    found: list[Any] = hub.call("GET", f"{DEMO}/audit?action={action}")["items"]
    return found


# -- rules, namespaces, routes, hubs ---------------------------------------------------------------


def test_rules_are_made_tried_out_assigned_to_a_namespace_and_deleted(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    url = dev_hub.address.replace("http", "ws", 1)
    crowd = str(ROOT / "tests" / "browser" / "crowd.py")
    dashboard.go("rules?hub=demo", "Rules and hubs")
    create(page, "rules", "tryout", "Rules", {"public": True, "allowAnonymous": True})
    assert dev_hub.call("GET", f"{DEMO}/rules/tryout")["allowAnonymous"] is True
    dashboard.go("rules?hub=demo&show=namespaces", "Rules and hubs")
    create(page, "namespace", "tryout", "Namespace", {"rules": "tryout"})
    assert dev_hub.call("GET", f"{DEMO}/namespaces/tryout")["rules"] == "tryout"
    dev_hub.run(crowd, url, "demo", "", "2", "1", "tryout")
    dashboard.go("channels?hub=demo&q=tryout%3Aall&live=1", "Channels")
    page.get_by_role("row", name="tryout:all 2").wait_for()
    dashboard.go("rules/rules/tryout?hub=demo&show=rules", "Rules and hubs")
    page.get_by_label("public", exact=True).uncheck()
    press(page, "What would it touch?", "4 of 4 subscriptions that were looked at would end")
    assert dev_hub.call("GET", f"{DEMO}/rules/tryout")["public"] is True
    press(page, "Close")
    dashboard.go("rules?hub=demo&show=namespaces", "Rules and hubs")
    delete(page, "tryout")
    dashboard.go("rules?hub=demo&show=rules", "Rules and hubs")
    delete(page, "tryout")
    dev_hub.call("GET", f"{DEMO}/namespaces/tryout", expect=404)
    dev_hub.call("GET", f"{DEMO}/rules/tryout", expect=404)
    dashboard.check()


def test_mine_is_kept_over_what_somebody_else_saved(dashboard: Dashboard, dev_hub: DevHub) -> None:
    page = dashboard.page
    dev_hub.call("PUT", f"{DEMO}/rules/contested", {"store": True})
    dashboard.go("rules/rules/contested?hub=demo&show=rules", "Rules and hubs")
    page.get_by_label("presence", exact=True).check()
    dev_hub.call("PUT", f"{DEMO}/rules/contested", {"store": True, "maxAgeSeconds": 777})
    press(page, "Save", "Somebody else changed this")
    press(page, "Keep mine, then save")
    press(page, "Save", "Saved")
    now = dev_hub.call("GET", f"{DEMO}/rules/contested")
    assert (now["presence"], now.get("maxAgeSeconds", 0)) == (True, 0)
    dashboard.check()


def test_routes_to_services_auth_providers_and_settings_of_a_hub_are_changed(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("rules?hub=demo&show=rpc-routes", "Rules and hubs")
    route = {"method": "acts.*", "url": "http://127.0.0.1:9/acts"}
    create(page, "route", "acts", "RpcRoute", route)
    assert dev_hub.call("GET", f"{DEMO}/rpc-routes/acts")["method"] == "acts.*"
    delete(page, "acts")
    dev_hub.call("GET", f"{DEMO}/rpc-routes/acts", expect=404)
    dashboard.go("access?hub=demo&show=providers", "Access")
    create(page, "auth provider", "acts", "AuthProvider", {"url": "http://127.0.0.1:9/who"})
    assert dev_hub.call("GET", f"{DEMO}/auth-providers/acts")["url"] == "http://127.0.0.1:9/who"
    delete(page, "acts")
    dev_hub.call("GET", f"{DEMO}/auth-providers/acts", expect=404)
    dashboard.go("rules?hub=shop&show=hub", "Rules and hubs")
    page.get_by_label("allow anonymous", exact=True).check()
    with page.expect_response("**/hubs/shop/settings"):
        press(page, "Save")
    assert dev_hub.call("GET", "/v1/admin/hubs/shop/settings")["allowAnonymous"] is True
    dashboard.check()


# -- tokens and revocations ------------------------------------------------------------------------


def test_tokens_are_issued_with_patterns_and_levels_and_revoked_one_by_one_or_all(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("access?hub=shop", "Access")
    fill(page, User="ann", Channel_or_pattern="orders:*")
    press(page, "Add a pattern")
    fill(page, Channel_or_pattern="news")
    press(page, "Issue")
    token = page.locator("dialog pre").inner_text()
    token_id = page.locator("dialog code").inner_text()
    path = "/v1/hubs/shop/channels/orders:1/messages"
    dev_hub.call("POST", path, {"id": 1}, token=token)
    dev_hub.call("POST", "/v1/hubs/shop/channels/secrets/messages", {}, token=token, expect=403)
    press(page, "Close")
    dashboard.go("access?hub=shop&show=revocations", "Access")
    press(page, "One token")
    fill(page, Id_of_the_token=token_id)
    confirm(page, "Revoke", "Revoked")
    page.get_by_role("table", name="Revocations").first.get_by_text(token_id).wait_for()
    dev_hub.call("POST", path, {"id": 2}, token=token, expect=401)
    other = dev_hub.token("--hub", "shop", "--user", "bob", "--grant", "*=ps")
    dev_hub.call("POST", path, {"id": 3}, token=other)
    press(page, "All of the hub")
    confirm(page, "Revoke", "Revoked")
    page.get_by_role("table", name="Revocations").first.get_by_text("all", exact=True).wait_for()
    dev_hub.call("POST", path, {"id": 4}, token=other, expect=401)
    dashboard.check()


# -- channels --------------------------------------------------------------------------------------


def test_a_channel_gets_rules_metadata_and_a_retained_message_and_its_settings_are_forgotten(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dev_hub.call("PUT", f"{DEMO}/rules/keeping", {"retain": True, "public": True})
    dashboard.go("channels/acts-channel?hub=demo", "acts-channel")
    page.get_by_role("combobox", name="Rules").select_option("keeping")
    page.get_by_label("Metadata").fill('{"team": "green"}')
    press(page, "Save", "Saved")
    assert dev_hub.call("GET", f"{DEMO}/channels/acts-channel/settings")["rules"] == "keeping"
    told = dev_hub.call("GET", f"{DEMO}/channels/acts-channel/metadata")
    assert told["metadata"] == {"team": "green"}
    press(page, "JSON")
    page.get_by_role("textbox", name="Payload").fill('{"kept": true}')
    fill(page, Event="kept")
    page.get_by_label("retain").check()
    press(page, "Publish", "Published to acts-channel")
    state = dev_hub.call("GET", f"{DEMO}/channels/acts-channel")
    assert (state["retained"]["event"], state["retained"]["bytes"]) == ("kept", 13)
    confirm(page, "Forget", "Forgotten")
    assert dev_hub.call("GET", f"{DEMO}/channels/acts-channel/settings") == {"rules": None}
    dashboard.check()


# -- sessions --------------------------------------------------------------------------------------


def test_the_token_of_a_session_and_all_of_its_user_are_revoked(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    url = dev_hub.address.replace("http", "ws", 1)
    crowd = str(ROOT / "tests" / "browser" / "crowd.py")
    for user in ("carl", "dora"):
        token = dev_hub.token("--hub", "demo", "--user", user, "--grant", "*=ps")
        dev_hub.run(crowd, url, "demo", token, "1", "1", user)
    for user, button in (("carl", "Revoke its token"), ("dora", "Revoke the user's tokens")):
        dashboard.go(f"channels?hub=demo&q={user}%3Aall&live=1", "Channels")
        page.get_by_role("row", name=f"{user}:all 1").wait_for()
        dashboard.go(f"sessions?hub=demo&q={user}", "Sessions")
        page.get_by_role("table", name="Sessions").get_by_role("link").first.click()
        confirm(page, button, "Revoked")
        page.get_by_text("This session has ended.").wait_for()
        assert dev_hub.call("GET", f"{DEMO}/sessions?q={user}")["items"] == []
    dashboard.check()


# -- delivery --------------------------------------------------------------------------------------


def test_a_webhook_is_made_and_its_dead_letters_are_read_replayed_and_discarded(
    dashboard: Dashboard, dev_hub: DevHub, receiver: ThreadReceiver
) -> None:
    page = dashboard.page
    receiver.status = 400
    dashboard.go("delivery?hub=demo&show=webhooks", "Delivery")
    press(page, "New")
    fill(page, Channel="acts-hooked", Callback=f"{receiver.url}/in", Secret="s3cret")
    press(page, "Make it", "Made")
    page.get_by_role("link", name=f"{receiver.url}/in").click()
    for letter in ("first", "second", "third"):
        dev_hub.call("POST", "/v1/hubs/demo/topics/acts-hooked/messages", letter.encode())
    letters = page.get_by_role("table", name="Dead letters")
    receiver.wait_for("/in", 3)
    letters.get_by_role("button", name="Read").nth(2).wait_for()
    letters.get_by_role("button", name="Read").first.click()
    letters.get_by_text("first").wait_for()
    assert audited(dev_hub, "message.read")
    receiver.status = 200
    letters.get_by_role("button", name="Replay").first.click()
    page.get_by_text("Sent once more").wait_for()
    assert receiver.wait_for("/in", 4)[-1] == b"first"
    letters.get_by_role("button", name="Discard").last.click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_text("Discarded").wait_for()
    press(page, "Replay dead letters", "1 delivered, 0 not")
    assert receiver.wait_for("/in", 5)[-1] == b"second"
    page.get_by_text("None: everything arrived so far.").wait_for()
    dashboard.check()


def test_a_durable_subscription_is_made_and_skipped_to_the_head(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    for number in range(3):
        dev_hub.call("POST", "/v1/hubs/demo/topics/acts-topic/messages", str(number).encode())
    dashboard.go("delivery?hub=demo", "Delivery")
    press(page, "New")
    fill(page, Channel="acts-topic", User="ann", Name="reader")
    page.get_by_label("Begins with").select_option("first")
    press(page, "Make it", "Made")
    at = f"{DEMO}/channels/acts-topic/subscriptions/u:ann/reader"
    assert dev_hub.call("GET", at)["lag"] == 3
    page.get_by_role("link", name="reader", exact=True).click()
    confirm(page, "Skip to the head", "Skipped")
    assert dev_hub.call("GET", at)["lag"] == 0
    dashboard.check()


# -- notifications and push ------------------------------------------------------------------------


def test_a_push_key_is_made_a_device_tested_and_deleted_and_the_key_deleted(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("notifications?hub=demo&show=push", "Notifications and push")
    press(page, "New key for browsers", "Made")
    row = page.get_by_role("table", name="Keys and accounts").get_by_role("row", name="webpush")
    row.first.wait_for()
    keys = dev_hub.call("GET", f"{DEMO}/push/credentials")["items"]
    assert [each["platform"] for each in keys] == ["webpush"]
    device = {
        "endpoint": "http://127.0.0.1:9/device",
        "keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6"
            "SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    }
    body = {"platform": "webpush", "token": device}
    dev_hub.call("PUT", f"{DEMO}/users/ann/push-tokens", body)
    page.get_by_label("User").fill("ann")
    page.get_by_label("User").press("Enter")
    press(page, "Push a test to all of them", "webpush: ")
    devices = page.get_by_role("table", name="Devices")
    devices.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_text("ann has no device.").wait_for()
    assert dev_hub.call("GET", f"{DEMO}/users/ann/push-tokens")["items"] == []
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_text("None: no device can be reached.").wait_for()
    assert dev_hub.call("GET", f"{DEMO}/push/credentials")["items"] == []
    dashboard.check()


def test_accounts_of_fcm_and_apns_are_set_replaced_and_told_without_their_secrets(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("notifications?hub=demo&show=push", "Notifications and push")
    account = Fcm().account
    fill(page, Service_account=account["private_key"])
    press(page, "Save the account", "This is not the JSON file of a service account.")
    fill(page, Service_account=json.dumps(account))
    press(page, "Save the account", "Saved")
    accounts = page.get_by_role("table", name="Keys and accounts")
    accounts.get_by_role("row", name="fcm").get_by_text("proj-1").wait_for()
    assert page.get_by_label("Service account").input_value() == ""
    press(page, "APNs")
    assert page.get_by_role("button", name="Save the account").is_disabled()
    secret = pem(ec.generate_private_key(ec.SECP256R1()))
    fill(page, Key_id="K1", Team_id="T1", Topic="org.app", Key=secret)
    page.get_by_label("Environment").select_option("sandbox")
    press(page, "Save the account", "Saved")
    row = accounts.get_by_role("row", name="apns")
    row.get_by_text("T1").wait_for()
    kept = {each["name"]: each for each in dev_hub.call("GET", f"{DEMO}/push/credentials")["items"]}
    assert (kept["fcm"]["projectID"], kept["fcm"]["clientEmail"]) == (
        "proj-1",
        account["client_email"],
    )
    told = ("K1", "T1", "org.app", "sandbox")
    assert tuple(kept["apns"][name] for name in ("keyID", "teamID", "topic", "environment")) == told
    assert "PRIVATE" not in json.dumps(kept) + page.content()
    for name in ("fcm", "apns"):
        accounts.get_by_role("row", name=name).get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Yes, do it").click()
        accounts.get_by_role("row", name=name).wait_for(state="detached")
    assert dev_hub.call("GET", f"{DEMO}/push/credentials")["items"] == []
    assert len(audited(dev_hub, "push_credentials.put")) == 2
    dashboard.check()


def test_a_notification_becomes_unread_again(dashboard: Dashboard, dev_hub: DevHub) -> None:
    page = dashboard.page
    dashboard.go("notifications?hub=demo&channel=notification%3Amarks", "Notifications and push")
    page.get_by_label("Payload").fill(json.dumps({"title": MARKUP}))
    press(page, "Create", "Created")
    press(page, "Mark read")
    press(page, "Mark unread")
    page.get_by_role("heading", name="1 unread of 1").wait_for()
    shown = dev_hub.call("GET", f"{DEMO}/channels/notification:marks/notifications")
    assert (shown["unread"], shown["notifications"][0]["payload"]["json"]) == (1, {"title": MARKUP})
    dashboard.check()


# -- people ----------------------------------------------------------------------------------------


def test_a_message_goes_to_a_peer_by_an_adapter_and_is_replayed_after_a_failure(
    dashboard: Dashboard, dev_hub: DevHub, receiver: ThreadReceiver
) -> None:
    page = dashboard.page
    dashboard.go("people?hub=demo&show=adapters", "People")
    create(page, "adapter", "bench", "AdapterSettings", {"kind": "rest"})
    dashboard.go("people?hub=demo&show=peers", "People")
    addresses = [{"adapter": "bench", "parameters": [f"{receiver.url}/ann"]}]
    create(page, "peer", "nina", "PeerInfo", {"addresses": addresses})
    assert dev_hub.call("GET", f"{DEMO}/peers/nina")["addresses"] == addresses
    dashboard.go("people?hub=demo&show=collectives", "People")
    create(page, "collective", "team", "CollectiveInfo", {"members": ["nina"]})
    dashboard.go("people?hub=demo&show=routes", "People")
    create(page, "route", "copies", "RoutingRule", {"type": "fire", "route": ["collective:team"]})
    dashboard.go("people?hub=demo&show=messages", "People")
    fill(page, To="nina", Text="Hello Ann")
    press(page, "Send", "Sent as")
    (body,) = receiver.wait_for("/ann")
    assert json.loads(body)["message"]["content"] == "Hello Ann"
    page.get_by_role("table", name="Messages").get_by_text("decided").first.wait_for()
    receiver.status = 400
    fill(page, To="nobody-in-particular", Type="fire", Text="by the route")
    press(page, "Send", "Sent as")
    receiver.wait_for("/ann", 2)
    dashboard.go("people?hub=demo&show=dead-deliveries", "People")
    dead = page.get_by_role("table", name="Dead deliveries")
    dead.get_by_text("nina", exact=True).first.wait_for()
    row = dead.get_by_role("row").filter(has_text="nina")
    row.get_by_role("button", name="Replay").click()
    page.get_by_text("1 tried again").wait_for()
    receiver.wait_for("/ann", 3)
    dead.get_by_text("nina", exact=True).first.wait_for()
    receiver.status = 200
    press(page, "Replay all", "tried again")
    again = receiver.wait_for("/ann", 4)[3]
    assert json.loads(again)["message"]["content"] == "by the route"
    dashboard.go("people?hub=demo&show=routes", "People")
    delete(page, "copies")
    dashboard.go("people?hub=demo&show=collectives", "People")
    delete(page, "team")
    dashboard.go("people?hub=demo&show=peers", "People")
    delete(page, "nina")
    dashboard.go("people?hub=demo&show=adapters", "People")
    delete(page, "bench")
    for gone in ("routes/copies", "collectives/team", "peers/nina", "adapters/bench"):
        dev_hub.call("GET", f"{DEMO}/{gone}", expect=404)
    dashboard.check()


def test_dead_deliveries_are_discarded_one_by_one_and_all_that_are_shown(
    dashboard: Dashboard, dev_hub: DevHub, receiver: ThreadReceiver
) -> None:
    page = dashboard.page
    receiver.status = 400
    dev_hub.call("PUT", f"{DEMO}/adapters/mute", {"kind": "rest"})
    addresses = [{"adapter": "mute", "parameters": [f"{receiver.url}/mia"]}]
    peer = f"mia {MARKUP}"
    at = f"{DEMO}/peers/{quote(peer, safe='')}"
    dev_hub.call("PUT", at, {"addresses": addresses})
    dashboard.go("people?hub=demo&show=messages", "People")
    for number in range(3):
        fill(page, To=peer, Text=f"lost {number}")
        press(page, "Send", "Sent as")
        receiver.wait_for("/mia", number + 1)
    until(lambda: len(dead_of(dev_hub, peer)) == 3)
    dashboard.go("people?hub=demo&show=dead-deliveries", "People")
    rows = (
        page.get_by_role("table", name="Dead deliveries").get_by_role("row").filter(has_text=peer)
    )
    expect(rows, 3)
    rows.first.get_by_role("button", name="Discard").click()
    page.get_by_text(f"Discard the delivery to {peer} for good?").wait_for()
    press(page, "Cancel")
    assert len(dead_of(dev_hub, peer)) == 3
    rows.first.get_by_role("button", name="Discard").click()
    press(page, "Yes, do it", "1 discarded")
    expect(rows, 2)
    assert len(dead_of(dev_hub, peer)) == 2
    confirm(page, "Discard these", "discarded")
    page.get_by_text("Every message reached its receiver").wait_for()
    assert dead_of(dev_hub, peer) == []
    assert [each["name"] for each in audited(dev_hub, "dead_letters.discard")][1:] == ["1"]
    dev_hub.call("DELETE", at)
    dev_hub.call("DELETE", f"{DEMO}/adapters/mute")
    dashboard.check()


def dead_of(hub: DevHub, peer: str) -> list[Any]:
    dead = hub.call("GET", f"{DEMO}/dead-deliveries")["items"]
    return [each for each in dead if each["peer"] == peer]


def expect(rows: Any, so_many: int) -> None:
    rows.nth(so_many - 1).wait_for()
    rows.nth(so_many).wait_for(state="detached")


def test_a_user_is_erased_after_a_question_that_names_the_user(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    user = f"erika {MARKUP}"
    at = f"{DEMO}/peers/{quote(user, safe='')}"
    dev_hub.call("PUT", at, {"addresses": []})
    dashboard.go("access?hub=demo&show=erasure", "Access")
    assert page.get_by_role("button", name="Erase", exact=True).is_disabled()
    page.get_by_label("User to erase").fill(user)
    press(page, "Erase", f"Erase what demo keeps about the user “{user}”?")
    press(page, "Cancel")
    dev_hub.call("GET", at)
    confirm(page, "Erase", f"Erased of {user}")
    told = page.locator(".facts").inner_text()
    assert re.search(r"peers\s+1\b", told), told
    assert re.search(r"left\s+0\b", told), told
    dev_hub.call("GET", at, expect=404)
    assert audited(dev_hub, "user.erase")
    dashboard.check()


def test_a_peer_follows_a_channel_an_adapter_is_pulled_and_a_callback_made(
    dashboard: Dashboard, dev_hub: DevHub, receiver: ThreadReceiver
) -> None:
    page = dashboard.page
    dev_hub.call("PUT", f"{DEMO}/adapters/out", {"kind": "rest"})
    addresses = [{"adapter": "out", "parameters": [f"{receiver.url}/bob"]}]
    dev_hub.call("PUT", f"{DEMO}/peers/bob", {"addresses": addresses})
    dashboard.go("people/peers/bob?hub=demo&show=peers", "People")
    fill(page, Channel_to_follow="ledger:followed")
    press(page, "Follow", "Followed")
    publish = {"channel": "ledger:followed", "payload": {"text": "booked"}}
    dev_hub.call("POST", f"{DEMO}/messages", {"publishes": [publish]})
    assert b"booked" in receiver.wait_for("/bob")[0]
    press(page, "Unfollow", "No longer followed")
    assert dev_hub.call("GET", f"{DEMO}/peers/bob/subscriptions")["items"] == []
    press(page, "Close")
    dashboard.go("people?hub=demo&show=adapters", "People")
    pulled = {"kind": "rest-pull", "settings": {"url": f"{receiver.url}/pull"}}
    create(page, "adapter", "inbox", "AdapterSettings", pulled)
    receiver.status = 204
    press(page, "Pull now", "Pulled")
    receiver.wait_for("/pull")
    assert audited(dev_hub, "adapter.pull")
    dashboard.go("people?hub=demo&show=callbacks", "People")
    create(page, "callback", "crm", "CallbackSettings", {"url": f"{receiver.url}/crm"})
    assert dev_hub.call("GET", f"{DEMO}/callbacks/crm")["roles"] == ["notify"]
    delete(page, "crm")
    dev_hub.call("GET", f"{DEMO}/callbacks/crm", expect=404)
    dashboard.check()


# -- audit, data, trace ----------------------------------------------------------------------------


def test_the_audit_log_is_filtered_and_exported(dashboard: Dashboard, dev_hub: DevHub) -> None:
    page = dashboard.page
    dashboard.go("audit?hub=demo", "Audit")
    page.get_by_label("What").fill("rules.put")
    page.get_by_label("What").press("Enter")
    page.get_by_role("button", name="webhook.create").wait_for(state="detached")
    page.get_by_role("button", name="rules.put").first.wait_for()
    with page.expect_download() as waiting:
        press(page, "Export")
    lines = Path(waiting.value.path()).read_text().splitlines()
    exported = [json.loads(line) for line in lines]
    assert {each["action"] for each in exported} == {"rules.put"}
    assert {each["id"] for each in exported} == {
        each["id"] for each in audited(dev_hub, "rules.put")
    }
    dashboard.check()


def test_a_trace_hears_what_is_published_meanwhile_and_settings_are_searched(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("channels/ledger%3Amay?hub=demo", "ledger:may")
    page.get_by_role("link", name="Trace it").click()
    page.get_by_role("heading", level=1, name="Trace and settings").wait_for()
    fill(page, Seconds="4")
    with page.expect_request("**/traces"):
        press(page, "Listen")
    publish = {"channel": "ledger:may", "payload": {"text": MARKUP}, "event": MARKUP}
    heard = page.get_by_role("table", name="Traced events")
    until(lambda: dev_hub.call("GET", f"{DEMO}/channels/ledger:may")["sessions"])
    dev_hub.call("POST", f"{DEMO}/messages", {"publishes": [publish]})
    heard.get_by_text(MARKUP).first.wait_for()
    assert audited(dev_hub, "trace.start")
    page.get_by_label("Search settings").fill("listener.port")
    page.get_by_role("cell", name="listener.port").wait_for()
    page.get_by_role("cell", name="storage.path").wait_for(state="detached")
    dashboard.check()


def followed(hub: DevHub, user: str) -> list[list[str]]:
    """The channels of each session of a user."""
    return [each["channels"] for each in hub.call("GET", f"{DEMO}/sessions?q={user}")["items"]]


def test_a_table_of_the_pipeline_is_opened(dashboard: Dashboard, dev_hub: DevHub) -> None:
    dashboard.go("data", "Data")
    dashboard.page.get_by_text("The pipeline has not run yet").wait_for()
    dashboard.page.get_by_role("link", name="sessions_daily").click()
    dashboard.page.get_by_role("heading", level=1, name="sessions_daily").wait_for()
    dashboard.check()


# -- the inspector ---------------------------------------------------------------------------------


def connect(page: Any, user: str, extra: object) -> None:
    page.get_by_role("textbox", name="User").fill(user)
    page.get_by_label("Extra").fill(json.dumps(extra))
    press(page, "Connect")
    page.get_by_role("heading", name="Session", exact=True).wait_for()


def test_the_inspector_shows_who_it_is_what_passed_and_what_is_in_its_channels(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dev_hub.call("PUT", f"{DEMO}/channels/doc:shown/settings", {"rules": "chatroom"})
    dev_hub.call("PUT", f"{DEMO}/channels/doc:shown/document", {"shape": {"x": 1}})
    dashboard.go("inspector?hub=demo", "Inspector")
    connect(page, "ann", {"role": "dev", MARKUP: MARKUP})
    session = page.locator("section", has=page.get_by_role("heading", name="Session", exact=True))
    session.get_by_text(MARKUP).first.wait_for()
    for part in ("Connection", "User", "Hub", "Permissions", "Extra data"):
        session.get_by_role("heading", name=part, exact=True).wait_for()
    session.get_by_role("row", name="* yes yes").wait_for()
    log = page.get_by_role("region", name="Event log")
    for note in ("Connecting", "Connection open", "SessionInfo"):
        log.get_by_text(note, exact=True).wait_for()
    subscribe(page, "ledger:may")
    messages = page.get_by_role("region", name="Messages")
    messages.get_by_text("6 bytes").wait_for()  # published before, and stored
    page.get_by_label("Payload is").select_option("base64")
    page.get_by_role("textbox", name="Payload").fill("AP8QIA==")
    page.get_by_role("button", name="Publish", exact=True).last.click()
    messages.get_by_text("4 bytes").wait_for()
    log.locator("details", has_text="Publish").first.locator("summary").first.click()
    log.get_by_text("00 ff 10 20").first.wait_for()
    page.get_by_label("Filter the log").fill("sessioninfo")
    log.get_by_text("Publish", exact=True).first.wait_for(state="detached")
    page.get_by_label("Filter the log").fill("")
    press(page, "Clear")
    log.wait_for(state="detached")
    subscribe(page, "doc:shown")
    channels = page.locator("section", has=page.get_by_role("heading", name="Channels", exact=True))
    channels.get_by_role("definition").get_by_text("document", exact=True).wait_for()
    channels.get_by_role("definition").get_by_text("1 session", exact=True).wait_for()
    channels.get_by_role("table", name="Presence").get_by_role("row", name="ann").wait_for()
    press(page, "Unsubscribe")
    page.get_by_role("button", name="doc:shown", exact=True).wait_for(state="detached")
    until(lambda: followed(dev_hub, "ann") == [["ledger:may"]])
    press(page, "Disconnect")
    page.get_by_text("not connected").first.wait_for()
    until(lambda: followed(dev_hub, "ann") == [])
    dashboard.check()


def test_the_inspector_calls_a_service_and_hands_an_event_to_a_stream(
    dashboard: Dashboard, dev_hub: DevHub, receiver: ThreadReceiver
) -> None:
    page = dashboard.page
    receiver.answer = {"price": 12}
    route = {"method": "fruit.*", "url": f"{receiver.url}/rpc"}
    dev_hub.call("PUT", f"{DEMO}/rpc-routes/fruit", route)
    dashboard.go("inspector?hub=demo", "Inspector")
    connect(page, "bea", {})
    press(page, "Call")
    fill(page, Method="fruit.price")
    page.get_by_role("button", name="Call", exact=True).last.click()
    page.locator(".code").get_by_text("12").wait_for()
    assert b"pear" in receiver.wait_for("/rpc")[0]
    press(page, "Stream")
    press(page, "Hand over")
    page.locator(".code").get_by_text("answer").wait_for()
    metrics = dev_hub.text("/metrics")
    assert re.search(r'hubbub_stream_events_total\{hub="demo"\} 1', metrics)
    press(page, "Disconnect")
    dashboard.check()


@pytest.mark.spec("UI-01", "CMD-03")
def test_the_inspector_sends_a_command_to_a_user_and_answers_it(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    settings = dev_hub.call("GET", f"{DEMO}/settings")
    dev_hub.call("PUT", f"{DEMO}/settings", {**settings, "commands": True})
    dashboard.go("inspector?hub=demo", "Inspector")
    connect(page, "fay", {})
    press(page, "Command")
    page.get_by_role("button", name="Send", exact=True).click()
    page.locator(".code").get_by_text("Hello").wait_for()  # the hub's hEcho
    fill(page, Entity="fay@demo", Command="ring")
    page.get_by_role("button", name="Send", exact=True).click()
    asked = page.get_by_role("table", name="Commands for this client")
    asked.get_by_role("row", name="ring fay@demo").wait_for()
    page.get_by_role("combobox", name="Status").select_option("5")
    asked.get_by_role("button", name="Answer", exact=True).click()
    page.locator(".code").get_by_text("5", exact=True).wait_for()
    asked.wait_for(state="detached")
    fill(page, Entity="nobody@demo")
    page.get_by_role("button", name="Send", exact=True).click()
    page.locator(".code").get_by_text("9", exact=True).wait_for()
    press(page, "Disconnect")
    dashboard.check()


@pytest.mark.spec("UI-01", "CMD-03", "LIVE-24")
def test_the_inspector_carries_out_every_command_of_the_hub(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    settings = dev_hub.call("GET", f"{DEMO}/settings")
    dev_hub.call("PUT", f"{DEMO}/settings", {**settings, "commands": True})
    dashboard.go("inspector?hub=demo", "Inspector")
    connect(page, "gil", {})
    press(page, "Command")
    commands = page.get_by_role("group", name="Commands of the hub").get_by_role("button")
    names = commands.all_inner_texts()
    assert names[:2] == ["hEcho", "hCreateUpdateChannel"]
    assert len(names) == 16
    for name in names:
        commands.get_by_text(name, exact=True).click()
        page.get_by_role("button", name="Send", exact=True).click()
        answer = page.locator(".code").filter(has_text=name)
        answer.get_by_text("status").wait_for()
    press(page, "Search")
    fill(page, Words='"hello"')
    page.get_by_role("button", name="Search", exact=True).last.click()
    page.locator(".code").get_by_text("hits").wait_for()
    press(page, "Disconnect")
    dashboard.check()


def test_the_inspector_connects_as_a_token_and_as_nobody(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    page = dashboard.page
    dashboard.go("inspector?hub=demo", "Inspector")
    page.get_by_role("combobox", name="As").select_option("token")
    fill(page, Token=dev_hub.token("--hub", "demo", "--user", "eve", "--grant", "room:*=s"))
    press(page, "Connect")
    page.get_by_role("row", name="room:* yes no").wait_for()
    assert len(dev_hub.call("GET", f"{DEMO}/sessions?q=eve")["items"]) == 1
    press(page, "Disconnect")
    page.get_by_role("combobox", name="As").select_option("anonymous")
    press(page, "Connect")
    page.get_by_role("definition").get_by_text("anonymous", exact=True).wait_for()
    press(page, "Disconnect")
    dashboard.check()

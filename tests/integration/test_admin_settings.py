"""Hubs and their settings over the admin API, with effect on what is live."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import msgspec
import pytest

from harness.admin import HUB, admin_of, client_of, service_of
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.rules import ChannelSettings, HubSettings, Rules, Setting
from hubbub.domain.stored_settings import encode_setting
from hubbub.engine.limits import EngineLimits
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.server import foundation, limits
from hubbub.server.settings import Settings

PRIVATE = {"allowAnonymous": False}


@pytest.mark.spec("ADMIN-01")
async def test_a_hub_is_created_read_listed_and_deleted(hub: RunningHub) -> None:
    admin = admin_of(hub)
    created = await admin(
        "POST", "/v1/admin/hubs", {"hub": "shop", "settings": {"userChannel": True}}
    )
    assert created.status == 201
    assert created.json["settings"]["userChannel"] is True
    assert created.tag == '"1"'
    again = await admin("POST", "/v1/admin/hubs", {"hub": "shop"})
    assert (again.status, again.code) == (409, "conflict")
    assert [entry["hub"] for entry in (await admin("GET", "/v1/admin/hubs")).json["items"]] == [
        "acme",
        "shop",
    ]
    assert (await admin("GET", "/v1/admin/hubs/shop")).json["stored"] is True
    assert (await admin("DELETE", "/v1/admin/hubs/shop")).status == 204
    gone = await admin("DELETE", "/v1/admin/hubs/shop")
    assert (gone.status, gone.code) == (404, "hub_not_found")
    assert (await admin("GET", "/v1/admin/hubs/shop/settings")).code == "hub_not_found"


@pytest.mark.spec("ADMIN-01", "OPS-03")
async def test_deleting_a_hub_ends_its_sessions_and_nothing_of_it_comes_back(
    start_hub: StartHub,
) -> None:
    stored = open_hub(
        rules=Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
    )
    hub = await start_hub(stored, open_hub("other"), session__authenticateTimeout=0.5)
    admin = admin_of(hub)
    token = hub.token("ann")
    socket = await hub.socket(token=token)
    stranger = await hub.socket("other")
    await socket.subscribe("news")
    assert (await socket.publish("news", {"text": "secret"}, store=True))["success"]
    assert (await admin("DELETE", HUB)).status == 204
    assert (await socket.closed())[0] == 4404
    refused = await hub.raw_socket()
    assert (await refused.closed())[0] == 4407, "as of any hub that wants a token"
    assert (await stranger.publish("news", {"text": "still here"}))["success"]
    # Whoever gets the name next has neither the messages nor the tokens of the one before.
    await admin("POST", "/v1/admin/hubs", {"hub": "acme"})
    await admin("PUT", f"{HUB}/rules/kept", {"store": True, "public": True})
    await admin("PUT", f"{HUB}/settings", {"defaultRules": "kept"})
    history = await admin("GET", "/v1/hubs/acme/channels/news/messages")
    assert history.json["messages"] == []
    old = client_of(hub)
    old.token = token
    assert (await old("GET", "/v1/hubs/acme/channels/news/messages")).code == "invalid_token"
    fresh = client_of(hub)
    assert (await fresh("GET", "/v1/hubs/acme/channels/news/messages")).status == 200


@pytest.mark.spec("ADMIN-01")
async def test_hub_settings_are_replaced_as_a_whole(hub: RunningHub) -> None:
    service = service_of(hub)
    before = await service("GET", f"{HUB}/settings")
    assert before.json["defaultRules"] == "default"
    changed = await service("PUT", f"{HUB}/settings", {"userChannel": True})
    assert changed.status == 200
    assert changed.json == (await service("GET", f"{HUB}/settings")).json
    assert changed.json["defaultRules"] is None
    assert changed.tag == '"2"'
    admin = admin_of(hub)
    assert (await admin("PUT", "/v1/admin/hubs/new/settings", {})).status == 201
    assert (await admin("PUT", "/v1/admin/hubs/new/settings", {})).status == 200


@pytest.mark.spec("ADMIN-03")
async def test_only_an_administrator_changes_quotas(hub: RunningHub) -> None:
    quotas = {"quotas": {"sessions": 2}}
    refused = await service_of(hub)("PUT", f"{HUB}/settings", quotas)
    assert (refused.status, refused.code) == (403, "not_permitted")
    assert (await admin_of(hub)("PUT", f"{HUB}/settings", quotas)).status == 200
    kept = await service_of(hub)("PUT", f"{HUB}/settings", {**quotas, "userChannel": True})
    assert kept.status == 200


@pytest.mark.spec("ADMIN-01", "OPS-03")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"defaultRules": "missing"}, "missing"),
        ({"authProvider": "missing"}, "missing"),
        ({"allowedOrigins": ["https://a/path"]}, "allowedOrigins"),
        ({"trustedIssuers": [{"issuer": "a", "audience": "b"}]}, "trustedIssuers[0].jwksUrl"),
        (
            {"trustedIssuers": [{"issuer": "a", "audience": "b", "keys": [{"kty": "oct"}]}]},
            "trustedIssuers[0].keys",
        ),
        (
            {"trustedIssuers": [{"issuer": "a", "audience": "b", "jwksUrl": "http://a.example"}]},
            "https",
        ),
        ({"quotas": {"sessions": -1}}, "$.quotas.sessions"),
        ({"quotas": {"seats": 1}}, "seats"),
        ({"allow_anonymous": True}, "allow_anonymous"),
    ],
)
async def test_settings_that_make_no_sense_are_refused_by_name(
    hub: RunningHub, body: object, word: str
) -> None:
    refused = await admin_of(hub)("PUT", f"{HUB}/settings", body)
    assert refused.status in (400, 409)
    assert word in refused.message


@pytest.mark.spec("ADMIN-01")
@pytest.mark.parametrize(
    ("path", "first", "second"),
    [
        ("rules/r", {"presence": True}, {"presence": False, "store": True}),
        ("namespaces/n", {"rules": "default"}, {"rules": "other"}),
        ("auth-providers/p", {"url": "https://a.example"}, {"url": "https://b.example"}),
        ("channels/c/settings", {"rules": "default"}, {"rules": None}),
        ("channels/c/metadata", {"metadata": {"a": [1, None]}}, {"metadata": {}}),
    ],
)
async def test_each_part_is_created_replaced_listed_and_deleted(
    hub: RunningHub, path: str, first: dict[str, object], second: dict[str, object]
) -> None:
    service = service_of(hub)
    await service("PUT", f"{HUB}/rules/other", {})
    created = await service("PUT", f"{HUB}/{path}", first)
    assert (created.status, created.tag) == (201, '"1"')
    same = await service("PUT", f"{HUB}/{path}", first)
    assert (same.status, same.tag) == (200, '"1"')
    found = await service("GET", f"{HUB}/{path}")
    assert found.json.items() >= first.items()
    assert found.tag == '"1"'
    unchanged = await service("GET", f"{HUB}/{path}", If_None_Match='"1"')
    assert (unchanged.status, unchanged.text) == (304, "")
    replaced = await service("PUT", f"{HUB}/{path}", second)
    assert (replaced.status, replaced.tag) == (200, '"2"')
    assert (await service("GET", f"{HUB}/{path}")).json.items() >= second.items()
    collection = path.partition("/")[0]
    listed = (await service("GET", f"{HUB}/{collection}")).json["items"]
    name = path.split("/")[1]
    assert name in [entry.get("name", entry.get("channel")) for entry in listed]
    deleted = path.replace("metadata", "settings")
    assert (await service("DELETE", f"{HUB}/{deleted}")).status == 204
    assert (await service("DELETE", f"{HUB}/{deleted}")).status == 404


@pytest.mark.spec("ADMIN-01", "OPS-03")
async def test_names_may_hold_what_addresses_must_encode(hub: RunningHub) -> None:
    service = service_of(hub)
    name = "a/b?c&d=e %ü:1"
    path = f"{HUB}/channels/{quote(name, safe='')}/metadata"
    assert (await service("PUT", path, {"metadata": {"x": 1}})).status == 201
    assert (await service("GET", path)).json == {"metadata": {"x": 1}}
    (entry,) = (await service("GET", f"{HUB}/channels?prefix=a/")).json["items"]
    assert entry["channel"] == name


@pytest.mark.spec("ADMIN-01")
async def test_of_changes_to_one_version_only_the_first_is_made(hub: RunningHub) -> None:
    service = service_of(hub)
    path = f"{HUB}/rules/r"
    await service("PUT", path, {})
    bodies = [{"store": True}, {"retain": True}, {"presence": True}, {"occupancy": True}]
    replies = await asyncio.gather(*[service("PUT", path, body, If_Match='"1"') for body in bodies])
    assert sorted(reply.status for reply in replies) == [200, 412, 412, 412]
    assert {reply.code for reply in replies if reply.status == 412} == {"version_mismatch"}
    creations = await asyncio.gather(
        *[service("PUT", f"{HUB}/rules/new", body, If_None_Match="*") for body in bodies]
    )
    assert sorted(reply.status for reply in creations) == [201, 412, 412, 412]
    assert (await service("PUT", f"{HUB}/rules/absent", {}, If_Match="*")).status == 412
    assert (await service("DELETE", path, If_Match='"1"')).status == 412
    assert (await service("PUT", path, {}, If_Match='W/"2"')).status == 412
    assert (await service("PUT", path, {}, If_Match="new")).status == 400
    assert (await service("DELETE", path, If_Match='"1", "2"')).status == 204


@pytest.mark.spec("ADMIN-01")
async def test_changes_without_a_condition_all_take_effect(hub: RunningHub) -> None:
    service = service_of(hub)
    names = [f"c{number}" for number in range(20)]
    replies = await asyncio.gather(
        *[service("PUT", f"{HUB}/channels/{n}/metadata", {"metadata": {"n": n}}) for n in names],
        *[service("PUT", f"{HUB}/channels/{n}/settings", {"rules": "default"}) for n in names],
    )
    assert {reply.status for reply in replies} <= {200, 201}
    listed = await service.all(f"{HUB}/channels", 7)
    assert [(e["channel"], e["rules"], e["metadata"]) for e in listed] == [
        (name, "default", {"n": name}) for name in sorted(names)
    ]


@pytest.mark.spec("ADMIN-01")
async def test_what_is_in_use_is_not_deleted_and_the_users_are_named(hub: RunningHub) -> None:
    service = service_of(hub)
    await service("PUT", f"{HUB}/namespaces/room", {"rules": "default"})
    await service("PUT", f"{HUB}/channels/news/settings", {"rules": "default"})
    refused = await service("DELETE", f"{HUB}/rules/default")
    assert refused.status == 409
    for user in ("defaultRules", "'room'", "'news'"):
        assert user in refused.message
    await service("PUT", f"{HUB}/auth-providers/p", {"url": "https://a.example"})
    settings = {"authProvider": "p", "defaultRules": "default"}
    await service("PUT", f"{HUB}/settings", settings)
    assert (await service("DELETE", f"{HUB}/auth-providers/p")).status == 409
    await service("PUT", f"{HUB}/settings", {})
    assert (await service("DELETE", f"{HUB}/auth-providers/p")).status == 204
    await service("DELETE", f"{HUB}/namespaces/room")
    await service("DELETE", f"{HUB}/channels/news/settings")
    assert (await service("DELETE", f"{HUB}/rules/default")).status == 204
    missing = await service("PUT", f"{HUB}/namespaces/room", {"rules": "default"})
    assert (missing.status, missing.code) == (409, "conflict")


@pytest.mark.spec("ADMIN-01", "OPS-02")
async def test_the_secrets_of_auth_providers_go_in_and_never_out(hub: RunningHub) -> None:
    service = service_of(hub)
    path = f"{HUB}/auth-providers/p"
    body = {"url": "https://a.example", "headers": {"X-Key": "s3cret"}, "timeoutSeconds": 2}
    replies = [await service("PUT", path, body), await service("GET", path)]
    replies.append(await service("GET", f"{HUB}/auth-providers"))
    replies.append(await admin_of(hub)("GET", "/v1/admin/auth-providers"))
    sent_back = replies[1].json | {"timeoutSeconds": 3}
    replies.append(await service("PUT", path, sent_back))
    replies.append(await service("GET", f"{HUB}/audit"))
    replies.append(await service("DELETE", path))
    replies.append(await service("GET", f"{HUB}/audit"))
    assert {reply.status for reply in replies} <= {200, 201, 204}
    assert not any("s3cret" in reply.text for reply in replies)
    assert replies[3].json["items"][0]["hub"] == "acme"


@pytest.mark.spec("ADMIN-01")
async def test_a_header_that_was_hidden_keeps_its_value(hub: RunningHub) -> None:
    service = service_of(hub)
    path = f"{HUB}/auth-providers/p"
    await service("PUT", path, {"url": "https://a.example", "headers": {"X-Key": "s3cret"}})
    shown = (await service("GET", path)).json
    await service("PUT", path, shown | {"timeoutSeconds": 9})
    provider = hub.server.directory.get("acme").auth_providers["p"]
    assert (provider.headers, provider.timeout_seconds) == ({"X-Key": "s3cret"}, 9)


@pytest.mark.spec("LIVE-11", "ADMIN-04")
async def test_changed_rules_take_effect_on_live_channels_at_once(hub: RunningHub) -> None:
    service = service_of(hub)
    socket = await hub.socket(token=hub.token("ann"))
    await socket.subscribe("news", "room:1")
    assert (await service("PUT", f"{HUB}/rules/closed", {})).status == 201
    await service("PUT", f"{HUB}/channels/news/settings", {"rules": "closed"})
    lost = await socket.find("Unsubscribe")
    assert lost["failures"][0]["channel"] == "news"
    await service("PUT", f"{HUB}/namespaces/room", {"rules": "closed"})
    lost = await socket.find("Unsubscribe")
    assert lost["failures"][0]["channel"] == "room:1"
    refused = await socket.subscribe("news")
    assert refused["failures"][0]["error"]["code"] == "not_permitted"
    await service("DELETE", f"{HUB}/channels/news/settings")
    assert (await socket.subscribe("news"))["subscribedChannels"] == ["news"]


@pytest.mark.spec("LIVE-11")
async def test_presence_can_be_switched_on_for_those_who_are_there(hub: RunningHub) -> None:
    service = service_of(hub)
    socket = await hub.socket(token=hub.token("ann"))
    await socket.subscribe("news")
    path = f"{HUB}/channels/news/presence"
    assert (await service("GET", path)).status == 404
    rules = {"presence": True, "public": True, "allowAnonymous": True}
    await service("PUT", f"{HUB}/rules/default", rules)
    members = (await service("GET", path)).json["presence"]
    assert [member["userID"] for member in members] == ["ann"]


@pytest.mark.spec("ADMIN-01", "OPS-03")
async def test_changes_survive_a_restart(start_server: StartHub) -> None:
    hub = await start_server()
    admin = admin_of(hub)
    await admin("POST", "/v1/admin/hubs", {"hub": "shop", "settings": PRIVATE})
    await admin("PUT", "/v1/admin/hubs/shop/rules/r", {"store": True})
    await admin("PUT", "/v1/admin/hubs/shop/channels/c/metadata", {"metadata": {"a": 1}})
    await hub.server.stop()
    again = await start_server()
    admin = admin_of(again)
    rules = await admin("GET", "/v1/admin/hubs/shop/rules/r")
    assert rules.json["store"] is True
    assert rules.tag == '"1"'
    metadata = await admin("GET", "/v1/admin/hubs/shop/channels/c/metadata")
    assert metadata.json == {"metadata": {"a": 1}}


@pytest.mark.spec("ADMIN-01")
async def test_a_hub_that_came_into_being_by_use_keeps_what_it_had(start_hub: StartHub) -> None:
    hub = await start_hub(engine__allowDynamicHubs=True)
    admin = admin_of(hub)
    await hub.socket("guest", token=hub.token("ann", hub="guest"))
    entries = {e["hub"]: e for e in (await admin("GET", "/v1/admin/hubs")).json["items"]}
    assert entries["guest"]["stored"] is False
    assert entries["guest"]["sessions"] == 1
    assert (await admin("PUT", "/v1/admin/hubs/guest/rules/r", {})).status == 201
    assert (await admin("GET", "/v1/admin/hubs/guest")).json["stored"] is True


@pytest.mark.spec("ADMIN-04")
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("rules", "default", Rules(public=False)),
        ("hub", "", HubSettings(default_rules="gone")),
        ("namespace", "room", "gone"),
        ("channel", "room:1", ChannelSettings("gone")),
    ],
)
async def test_a_change_that_nobody_told_of_is_found_by_reading_again(
    hub: RunningHub, kind: str, name: str, value: Setting | str
) -> None:
    """As on a node that missed the notice of another: only the store has the change."""
    socket = await hub.socket(token=hub.token("ann"))
    assert (await socket.subscribe("room:1"))["subscribedChannels"] == ["room:1"]
    closed = SettingsEntry("rules", "acme", "gone", encode_setting(Rules()))
    changed = SettingsEntry(kind, "acme", name, encode_setting(value))
    await hub.server.store.put_settings([closed, changed])
    assert (await socket.subscribe("room:2"))["subscribedChannels"] == ["room:2"]  # not heard yet
    await hub.server.reread()
    lost = await socket.find("Unsubscribe")
    assert "room:1" in [failure["channel"] for failure in lost["failures"]]


@pytest.mark.spec("ADMIN-04")
async def test_settings_are_read_again_from_time_to_time(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert EngineLimits().settings_reread_seconds == 60
    made = limits.engine_limits

    def impatient(settings: Settings) -> EngineLimits:
        return msgspec.structs.replace(made(settings), settings_reread_seconds=0.05)

    monkeypatch.setattr(foundation, "engine_limits", impatient)
    hub = await start_server()
    socket = await hub.socket(token=hub.token("ann"))
    await socket.subscribe("room:1")
    closed = SettingsEntry("rules", "acme", "default", encode_setting(Rules()))
    await hub.server.store.put_settings([closed])
    assert (await socket.find("Unsubscribe"))["failures"][0]["channel"] == "room:1"

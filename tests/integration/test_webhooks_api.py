"""Plain webhooks over HTTP: made, listed, looked at and ended, by those who may."""

from __future__ import annotations

from typing import Any

import pytest

from harness.running_hub import RunningHub, StartHub
from harness.topics import LIVE, STORED
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import HubConfiguration, HubSettings, Quotas, Rules

pytestmark = pytest.mark.spec("WEB-02", "WEB-04")

CLOSED = Rules(store=True)


def closed_hub(**more: Any) -> HubConfiguration:
    """Everything needs a grant; what begins with `public:` is open, with `live:` not stored."""
    return HubConfiguration(
        hub="acme",
        settings=HubSettings(
            allow_anonymous=True, default_rules="closed", callback_addresses="loopback", **more
        ),
        rules={"closed": CLOSED, "open": STORED, "live": LIVE},
        namespaces={"public": "open", "live": "live"},
    )


class Api:
    """The webhooks of the hub `acme`, as somebody sees them."""

    def __init__(self, hub: RunningHub, token: str | None = None) -> None:
        self._http = hub.http
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def ask(self, method: str, path: str = "", body: Any = None) -> tuple[int, Any]:
        raw = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self._http.request(
            method, f"/v1/hubs/acme/webhooks{path}", headers=self._headers, **raw
        ) as answer:
            return answer.status, await answer.json() if answer.status != 204 else None

    async def make(self, channel: str, **more: Any) -> Any:
        order = {"channel": channel, "callback": "http://127.0.0.1:9/in", **more}
        status, shown = await self.ask("POST", body=order)
        assert status == 201, shown
        return shown

    async def refusal(self, method: str, path: str = "", body: Any = None) -> tuple[int, str]:
        status, shown = await self.ask(method, path, body)
        return status, shown["error"]["code"]


def service(hub: RunningHub) -> Api:
    return Api(hub, hub.token(user=None, level=Level.SERVICE))


def user(hub: RunningHub, name: str, channel: str) -> Api:
    return Api(hub, hub.token(user=name, grants=(Grant(channel, subscribe=True),)))


async def test_a_webhook_is_made_looked_at_and_ended(start_hub: StartHub) -> None:
    api = service(await start_hub(closed_hub()))

    made = await api.make("orders", secret="s3cret", key="AAECAwQFBgcICQoLDA0ODw")
    assert made == {
        "id": made["id"],
        "kind": "plain",
        "channel": "orders",
        "callback": "http://127.0.0.1:9/in",
        "topic": "orders",
        "state": "active",
        "signed": True,
        "encrypted": True,
        "createdAt": made["createdAt"],
        "expiresAt": None,
        "owner": "service",
        "status": None,
    }
    status, shown = await api.ask("GET", f"/{made['id']}")
    state = shown["status"]
    assert (status, {**shown, "status": None}) == (200, made)
    assert state["lag"] == 0
    assert state["breaker"] == "closed"
    assert "s3cret" not in str(shown)

    assert (await api.ask("DELETE", f"/{made['id']}"))[0] == 204
    for method in ("GET", "DELETE"):
        assert await api.refusal(method, f"/{made['id']}") == (404, "not_subscribed")


async def test_the_same_callback_again_is_the_same_webhook(start_hub: StartHub) -> None:
    api = service(await start_hub(closed_hub()))

    first, second = await api.make("orders"), await api.make("orders", secret="new")
    assert first["id"] == second["id"]
    assert (first["signed"], second["signed"]) == (False, True)
    assert (await api.make("other"))["id"] != first["id"]


async def test_a_webhook_may_have_an_end(start_hub: StartHub) -> None:
    api = service(await start_hub(closed_hub()))

    made = await api.make("orders", leaseSeconds=3600)
    assert made["expiresAt"] - made["createdAt"] == 3_600_000


async def test_a_list_comes_in_pages(start_hub: StartHub) -> None:
    api = service(await start_hub(closed_hub()))
    ids = sorted([(await api.make(f"c{number}"))["id"] for number in range(5)])

    pages, after = [], ""
    while True:
        _, page = await api.ask("GET", f"?limit=2&after={after}")
        pages.append([each["id"] for each in page["webhooks"]])
        if page["next"] is None:
            break
        after = page["next"]
    assert pages == [ids[0:2], ids[2:4], ids[4:5]]
    assert (await api.ask("GET"))[1]["next"] is None


async def test_users_reach_their_own_and_services_all(start_hub: StartHub) -> None:
    hub = await start_hub(closed_hub())
    ann, bob = user(hub, "ann", "a:*"), user(hub, "bob", "*")
    made = await ann.make("a:1")

    assert (await ann.ask("GET"))[1]["webhooks"] == [made]
    assert (await bob.ask("GET"))[1]["webhooks"] == []
    for method in ("GET", "DELETE"):
        assert await bob.refusal(method, f"/{made['id']}") == (404, "not_subscribed")
    assert (await service(hub).ask("GET"))[1]["webhooks"] == [made]
    assert (await ann.ask("DELETE", f"/{made['id']}"))[0] == 204


async def test_who_lost_the_permission_can_still_end_a_webhook(start_hub: StartHub) -> None:
    hub = await start_hub(closed_hub())
    made = await user(hub, "ann", "a").make("a")

    without = user(hub, "ann", "b")
    order = {"channel": "a", "callback": made["callback"]}
    assert await without.refusal("POST", body=order) == (403, "not_permitted")
    assert (await without.ask("DELETE", f"/{made['id']}"))[0] == 204


async def test_who_may_not_subscribe_gets_no_webhook(start_hub: StartHub) -> None:
    """A callback is not verified, so nobody unknown may name one, however public the channel."""
    hub = await start_hub(closed_hub())
    order = {"channel": "public:a", "callback": "http://127.0.0.1:9/"}

    assert await Api(hub).refusal("POST", body=order) == (401, "not_authenticated")
    assert await Api(hub, "x").refusal("POST", body=order) == (401, "invalid_token")
    other = {**order, "channel": "b"}
    assert await user(hub, "ann", "a").refusal("POST", body=other) == (403, "not_permitted")


async def test_a_channel_that_stores_nothing_has_no_webhooks(start_hub: StartHub) -> None:
    api = service(await start_hub(closed_hub()))
    order = {"channel": "live:a", "callback": "http://127.0.0.1:9/"}

    assert await api.refusal("POST", body=order) == (404, "topic_not_found")


async def test_a_hub_has_a_quota_of_webhooks(start_hub: StartHub) -> None:
    api = service(await start_hub(closed_hub(quotas=Quotas(webhooks=2))))
    for number in range(2):
        await api.make(f"c{number}")
    order = {"channel": "c2", "callback": "http://127.0.0.1:9/in"}
    assert await api.refusal("POST", body=order) == (429, "quota_exceeded")
    await api.make("c1", secret="renewed")


@pytest.mark.spec("WEB-05")
async def test_private_addresses_are_refused_unless_allowed(start_hub: StartHub) -> None:
    configuration = closed_hub()
    strict = HubConfiguration(
        "acme", HubSettings(default_rules="closed"), configuration.rules, configuration.namespaces
    )
    api = service(await start_hub(strict))
    order = {"channel": "a", "callback": "http://10.0.0.1/"}
    assert await api.refusal("POST", body=order) == (403, "not_permitted")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("order", "code"),
    [
        (b"", "malformed"),
        (b"[]", "malformed"),
        (b"\xff", "malformed"),
        (b"{}", "malformed"),
        (b'{"channel": "a"}', "malformed"),
        ({"secert": "x"}, "malformed"),
        ({"algorithm": "md5"}, "malformed"),
        ({"leaseSeconds": "soon"}, "malformed"),
        ({"leaseSeconds": -1}, "bad_request"),
        ({"channel": ""}, "invalid_name"),
        ({"channel": "a*"}, "invalid_name"),
        ({"callback": "no URL"}, "bad_request"),
        ({"callback": "ftp://example.org/"}, "bad_request"),
        ({"callback": "http://ann:secret@example.org/"}, "bad_request"),
        ({"callback": "http://example.org:0/"}, "bad_request"),
        ({"secret": "s" * 200}, "bad_request"),
        ({"secret": ""}, "bad_request"),
        ({"key": "short"}, "bad_request"),
        ({"start": "yesterday"}, "malformed"),
    ],
)
async def test_what_is_wrong_is_refused(shared_hub: RunningHub, order: Any, code: str) -> None:
    api = service(shared_hub)
    if isinstance(order, dict):
        order = {"channel": "a", "callback": "https://example.org/", **order}

    assert await api.refusal("POST", body=order) == (400, code)


async def test_other_paths_methods_and_parameters_are_refused(hub: RunningHub) -> None:
    api = service(hub)

    assert await api.refusal("PUT") == (405, "method_not_allowed")
    assert await api.refusal("POST", "/x") == (405, "method_not_allowed")
    assert await api.refusal("POST", "/x/else") == (404, "not_found")
    assert await api.refusal("GET", "/x") == (404, "not_subscribed")
    for query in ("limit=0", "limit=x", "limit=1001", "page=2"):
        assert await api.refusal("GET", f"?{query}") == (400, "malformed")

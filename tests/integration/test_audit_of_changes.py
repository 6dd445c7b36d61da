"""The audit entry of a change is stored in the change's own transaction, whatever the route.

The database refuses audit entries for a while: a change whose entry cannot be stored must not be
stored either. The table of routes is the server's own, so a new route cannot escape.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from harness.admin import HUB, Reply, admin_of, service_of
from harness.admin_routes import BODIES, address
from harness.callbacks import Callbacks, eventually
from harness.communication import comm_hub, until
from harness.light import Light
from harness.running_hub import RunningHub, StartHub
from harness.topics import topic_hub
from hubbub.gateways.admin.table import ROUTES
from hubbub.gateways.routes import Access

pytestmark = pytest.mark.spec("ADMIN-03")

_CHANGING = {
    route.operation_id: route
    for route in ROUTES
    if route.method != "GET" and route.access is not Access.HUB
}
_TRAFFIC = {
    "createNotifications", "markNotificationsRead", "markNotificationsUnread",
    "publishBatchAsAdmin", "pushToUsers", "testPush",
}  # fmt: skip
"""What goes to people is not administration."""
_OWN = {
    "deleteOwnPeerSubscription", "deletePushSubscription", "deletePushToken",
    "exchangeCredentials", "putOwnPeerSubscription", "putPushSubscription", "putPushToken",
    "refreshAdminToken", "refreshToken",
}  # fmt: skip
"""What callers do with what is their own."""
_ELSEWHERE = {
    "beginRestore",  # test_hub_restore.py: the entry is stored with the switch
    "logIn",  # test_admin_access.py: a token, which is not stored
    "shutDown",  # test_shutdown.py: noted before the server ends
    "tryRules",  # changes nothing
}
_NOTIFICATIONS = BODIES["createNotifications"]
_BEHIND_THE_SCENES = {"audit", "nodes", "partitions", "session_holders", "writer_progress"}


def _pem(key: Any) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()  # type: ignore[no-any-return]


class _Audited:
    """A hub whose database can refuse audit entries."""

    def __init__(self, hub: RunningHub) -> None:
        self.admin = admin_of(hub)
        self._path = Path(hub.server.settings.storage.path) / "hubbub.db"

    @contextmanager
    def refusing_entries(self) -> Iterator[None]:
        self._run(
            "CREATE TRIGGER no_entry BEFORE INSERT ON audit"
            " BEGIN SELECT RAISE(ABORT, 'no entry'); END"
        )
        try:
            yield
        finally:
            self._run("DROP TRIGGER no_entry")

    def _run(self, statement: str) -> None:
        with closing(sqlite3.connect(self._path, timeout=10)) as database, database:
            database.execute(statement)

    def rows(self) -> dict[str, list[Any]]:
        with closing(sqlite3.connect(self._path, timeout=10)) as database:
            tables = database.execute(  # virtual ones show rows of others
                "SELECT name FROM sqlite_master"
                " WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            )
            names = [name for (name,) in tables if name not in _BEHIND_THE_SCENES]
            return {
                name: sorted(map(repr, database.execute(f"SELECT * FROM {name}"))) for name in names
            }

    def entries(self) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self._path, timeout=10)) as database:
            return database.execute("SELECT action, name FROM audit ORDER BY id").fetchall()

    async def check(self, operation: str, body: Any = None, **path: str) -> str:
        """Refused with its entry, then done with its entry. Returns the action of the entry."""
        before, known = self.rows(), len(self.entries())
        with self.refusing_entries():
            refused = await self._call(operation, body, path)
            assert refused.status >= 400, operation
            assert self.rows() == before, f"{operation} was stored without its entry"
        done = await self._call(operation, body, path)
        assert done.status < 400, (operation, done.text)
        entries = self.entries()[known:]
        assert entries, f"{operation} left no entry"
        return entries[-1][0]

    async def check_later(
        self, operation: str, body: Any, failed: Callable[[], Awaitable[bool]]
    ) -> str:
        """As `check`, for a change that waits for the store: it `failed` once meanwhile."""
        before, known = self.rows(), len(self.entries())
        with self.refusing_entries():
            call = asyncio.ensure_future(self._call(operation, body, {}))
            await until(failed)
            assert self.rows() == before, f"{operation} was stored without its entry"
        done = await call
        assert done.status < 400, (operation, done.text)
        ((action, name),) = self.entries()[known:]
        assert name == "1"
        return action

    async def _call(self, operation: str, body: Any, path: dict[str, str]) -> Reply:
        route = _CHANGING[operation]
        sent = BODIES.get(operation) if body is None else body
        return await self.admin(route.method, address(route, **path), sent)


def _settings() -> list[tuple[str, Any, dict[str, str]]]:
    named = {"rules": "extra"}
    open_address = {"url": "http://127.0.0.1:9/"}
    return [
        ("putRules", {"store": True}, named),
        ("deleteRules", None, named),
        ("putNamespace", None, {}),
        ("deleteNamespace", None, {}),
        ("putAuthProvider", None, {}),
        ("deleteAuthProvider", None, {}),
        ("putRpcRoute", None, {}),
        ("deleteRpcRoute", None, {}),
        ("putRoutingRule", None, {}),
        ("deleteRoutingRule", None, {}),
        ("addRoute", None, {}),
        ("putAdapter", None, {}),
        ("deleteAdapter", None, {}),
        ("putCallback", open_address, {}),
        ("deleteCallback", None, {}),
        ("putMessageInfo", None, {}),
        ("deleteMessageInfo", None, {}),
        ("putMercureKey", None, {}),
        ("deleteMercureKey", None, {}),
        ("putChannelSettings", {"rules": "default"}, {}),
        ("putChannelMetadata", {"metadata": {"a": 1}}, {}),
        ("deleteChannelSettings", None, {}),
        ("createHub", None, {}),
        ("issueToken", None, {}),
        ("revoke", None, {}),
        ("revokeEverywhere", None, {}),
    ]


def _people() -> list[tuple[str, Any, dict[str, str]]]:
    fcm = {
        "project_id": "p", "client_email": "e@p", "private_key": _pem(
            rsa.generate_private_key(65537, 2048)
        ),
    }  # fmt: skip
    key = _pem(ec.generate_private_key(ec.SECP256R1()))
    apns = {"keyID": "k" * 10, "teamID": "t" * 10, "key": key}
    return [
        ("putPeer", None, {}),
        ("putPeers", {"peers": [{"id": "bob", "peer": {}}]}, {}),
        ("putPeerSubscription", None, {}),
        ("deletePeerSubscription", None, {}),
        ("putCollective", None, {}),
        ("putMember", None, {"peer": "bob"}),
        ("deleteMember", None, {"peer": "bob"}),
        ("deleteCollective", None, {}),
        ("deletePeer", None, {"peer": "bob"}),
        ("putPushTokenOfUser", None, {}),
        ("deletePushTokenOfUser", None, {}),
        ("putPushSubscriptionOfUser", None, {}),
        ("deletePushSubscriptionOfUser", None, {}),
        ("rotatePushKey", None, {}),
        ("putFcmAccount", fcm, {}),
        ("putApnsKey", apns, {}),
        ("deleteFcmAccount", None, {}),
        ("deleteApnsKey", None, {}),
        ("replaceDocument", None, {}),
        ("patchDocument", [{"op": "add", "path": "/b", "value": 1}], {}),
        ("restoreDocument", None, {}),
        ("deleteDocument", None, {}),
    ]


_WITH_MORE = {
    "putHubSettings", "deletePushKey", "deleteNotifications", "deleteDurableSubscription",
    "pauseWebhook", "resumeWebhook", "replayWebhookAsAdmin", "replayDeadLetter",
    "discardDeadLetter", "deleteWebhookAsAdmin", "deleteWebTopic", "disconnectSession", "trace",
    "pullAdapter", "replayDeadDeliveries", "discardDeadDeliveries", "eraseUser", "deleteHub",
}  # fmt: skip
"""What the tests below do by themselves."""


def test_each_changing_route_is_looked_at_here() -> None:
    tried = {each[0] for each in (*_settings(), *_people())}
    assert tried | _WITH_MORE | _TRAFFIC | _OWN | _ELSEWHERE == _CHANGING.keys()


async def _start(start_hub: StartHub, **keys: object) -> RunningHub:
    configuration = topic_hub(open_topics=True, callback_addresses="loopback")
    return await start_hub(configuration, **keys)


async def test_settings_and_access_change_with_their_entry_or_not_at_all(
    start_hub: StartHub,
) -> None:
    hub = await _start(start_hub)
    audited = _Audited(hub)
    settings = (await audited.admin("GET", f"{HUB}/settings")).json
    await audited.check("putHubSettings", {**settings, "defaultPublic": True})
    for operation, body, path in _settings():
        await audited.check(operation, body, **path)
    await audited.check("deleteHub", hub="new")


async def test_peers_devices_and_documents_change_with_their_entry_or_not_at_all(
    start_hub: StartHub,
) -> None:
    audited = _Audited(await _start(start_hub))
    for operation, body, path in _people():
        await audited.check(operation, body, **path)
    (key,) = (await audited.admin("GET", f"{HUB}/push/credentials")).json["items"]
    await audited.check("deletePushKey", keyID=key["name"].removeprefix("vapid:"))


async def test_a_peer_goes_with_its_subscriptions_and_one_entry(start_hub: StartHub) -> None:
    audited = _Audited(await _start(start_hub))
    await audited.admin("PUT", f"{HUB}/peers/ann", {})
    await audited.admin("PUT", f"{HUB}/peers/ann/subscriptions/news")
    assert await audited.check("deletePeer") == "peer.delete"
    assert [action for action, _ in audited.entries()].count("peer.delete") == 1


async def test_what_owners_of_channels_change_goes_with_its_entry_or_not_at_all(
    start_hub: StartHub,
) -> None:
    hub = await _start(start_hub, webhooks__retries=0, webhooks__breakerFailures=1000)
    audited, service = _Audited(hub), service_of(hub)
    await service("POST", f"{HUB}/channels/notification:news/notifications", _NOTIFICATIONS)
    await audited.check("deleteNotifications")
    topic = "/v1/hubs/acme/topics/news/subscriptions/default"
    ann = hub.token("ann")
    async with hub.http.put(topic, headers={"Authorization": f"Bearer {ann}"}) as reply:
        assert reply.status < 300
    await audited.check("deleteDurableSubscription")

    async with Callbacks(lambda request: 503) as receiver:
        order = {"channel": "orders", "callback": receiver.at()}
        made = (await service("POST", "/v1/hubs/acme/webhooks", order)).json["id"]
        light = Light(hub, "/v1/hubs/acme/hub")
        await light.register("orders")
        for body in (b"1", b"2"):
            await light.publish("orders", body)

        async def given_up() -> bool:
            status = (await service("GET", f"{HUB}/webhooks/{made}")).json["status"]
            (cursor,) = audited.rows()["cursors"]
            return bool(status and status["deadLetters"] == 2 and "', 2, b'" in cursor)

        await eventually(given_up)
        letters = (await service("GET", f"{HUB}/webhooks/{made}/dead-letters")).json["items"]
        serial = str(letters[0]["serial"])
        await audited.check("replayDeadLetter", webhook=made, serial=serial)
        await audited.check("discardDeadLetter", webhook=made, serial=serial)
        await audited.check("pauseWebhook", webhook=made)
        await audited.check("resumeWebhook", webhook=made)
        await audited.check("replayWebhookAsAdmin", webhook=made)
        await audited.check("deleteWebhookAsAdmin", webhook=made)
    await audited.check("deleteWebTopic", channel="orders")


async def test_what_is_not_stored_is_noted_before_it_is_done(start_hub: StartHub) -> None:
    hub = await _start(start_hub)
    audited = _Audited(hub)
    socket = await hub.socket(token=hub.token("ann"))
    (session,) = (await audited.admin("GET", f"{HUB}/sessions")).json["items"]
    one = session["sessionID"]
    with audited.refusing_entries():
        assert (await audited.admin("DELETE", f"{HUB}/sessions/{one}")).status >= 400
        assert (await audited.admin("GET", f"{HUB}/sessions/{one}")).status == 200
    assert await audited.check("disconnectSession", session=one) == "session.disconnect"
    await socket.closed()
    assert await audited.check("trace") == "trace.start"
    assert await audited.check("eraseUser") == "user.erase"
    assert [action for action, _ in audited.entries()][-2:] == ["user.erase.begin", "user.erase"]


@pytest.mark.spec("COMM-11")
async def test_dead_deliveries_are_replayed_and_discarded_with_their_entry_or_not_at_all(
    start_hub: StartHub, caplog: pytest.LogCaptureFixture
) -> None:
    hub = await comm_hub(start_hub)
    audited = _Audited(hub.hub)
    await hub.peer("ann", ("mail", "fail"))
    await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))

    async def dead() -> list[str]:
        found = await hub.service("GET", f"{HUB}/dead-deliveries")
        return [each["key"] for each in found.json["items"]]

    async def failed() -> bool:
        return any("wait for the store" in each.message for each in caplog.records)

    async def once_dead() -> list[str]:
        await until(dead)
        caplog.clear()
        return await dead()

    body = {"keys": await once_dead()}
    assert await audited.check_later("replayDeadDeliveries", body, failed) == "dead_letters.replay"
    body = {"keys": await once_dead()}
    assert await audited.check_later("discardDeadDeliveries", body, failed) == (
        "dead_letters.discard"
    )
    assert await dead() == []

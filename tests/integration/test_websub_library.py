"""A WebSub subscriber that nobody here wrote (Flask-WebSub), unchanged, with a hub over TLS: only
there it uses secrets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypeVar

import aiohttp
import pytest
from flask import Flask, request
from flask_websub.subscriber import (
    SQLite3SubscriberStorage,
    SQLite3TempSubscriberStorage,
    Subscriber,
    discover,
)
from werkzeug.serving import make_server

from harness.callbacks import eventually
from harness.running_hub import RunningHub, hub_settings, open_hub
from harness.websub import WebSub
from hubbub.domain.rules import Rules
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("WEB-03")

PATIENCE_SECONDS = 10
OPEN = Rules(
    public=True, client_publish=True, allow_anonymous=True, store=True, store_by_default=True
)
T = TypeVar("T")


class Application:
    """A site with the library in it, in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        file = str(folder / "subscriber.db")
        self.subscriber = Subscriber(
            SQLite3SubscriberStorage(file), SQLite3TempSubscriberStorage(file)
        )
        self._flask = Flask("subscriber")
        self._flask.register_blueprint(self.subscriber.build_blueprint("/callbacks"))
        self._server = make_server("127.0.0.1", 0, self._flask, threaded=True)
        self._thread = Thread(target=self._server.serve_forever)
        self._events: Queue[tuple[object, ...]] = Queue()
        self.contents = 0  # requests with content, also those that the library refuses
        self._flask.before_request(self._count)
        self.subscriber.add_listener(self._listener("content"))
        self.subscriber.add_success_handler(self._listener("confirmed"))
        self.subscriber.add_error_handler(self._listener("denied"))
        self._thread.start()

    def _listener(self, event: str) -> Callable[..., None]:
        return lambda topic, callback, what: self._events.put((event, topic, callback, what))

    def _count(self) -> None:
        self.contents += request.method == "POST"

    async def call(self, work: Callable[..., T], *arguments: Any, **more: Any) -> T:
        """The library waits for the hub: in a thread, with the site's own address."""

        def run() -> T:
            base = f"http://127.0.0.1:{self._server.port}"
            with self._flask.test_request_context(base_url=base):
                return work(*arguments, **more)

        return await asyncio.to_thread(run)

    async def next(self) -> tuple[object, ...]:
        """What the library tells the site next."""
        return await asyncio.to_thread(self._events.get, timeout=PATIENCE_SECONDS)

    def nothing_more(self) -> bool:
        try:
            self._events.get_nowait()
        except Empty:
            return True
        return False

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
async def hub(tmp_path: Path, certificate: tuple[Path, Path]) -> AsyncIterator[RunningHub]:
    settings = hub_settings(
        tmp_path,
        open_hub(rules=OPEN, callback_addresses="loopback"),
        listener__tls__certificate=str(certificate[0]),
        listener__tls__key=str(certificate[1]),
    )
    server = Server(settings)
    await server.start()
    running = RunningHub(server)
    yield running
    await running.close()


@pytest.fixture
async def site(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Application]:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    application = Application(tmp_path)
    yield application
    await asyncio.to_thread(application.close)


async def publish(page: str, text: str, certificate: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with aiohttp.ClientSession() as http, http.post(page, data=text, ssl=trusting) as answer:
        assert answer.status == 200


async def begun(hub: RunningHub) -> None:
    """The library tells its site before it answers the hub: what is published in between comes too
    early for a subscription."""
    websub = WebSub(hub, "/v1/hubs/acme/websub")

    async def active() -> bool:
        (webhook,) = await websub.webhooks()
        return webhook.state == "active" and webhook.pending is None

    await eventually(active)


async def test_a_library_of_others_discovers_subscribes_receives_renews_and_leaves(
    hub: RunningHub, site: Application, certificate: tuple[Path, Path]
) -> None:
    page = f"https://{hub.address}/v1/hubs/acme/channels/news/messages"

    found = await site.call(discover, page)
    assert found == {"topic_url": page, "hub_url": f"https://{hub.address}/v1/hubs/acme/websub"}

    callback = await site.call(site.subscriber.subscribe, **found, lease_seconds=3600)
    assert await site.next() == ("confirmed", page, callback, "subscribe")
    await begun(hub)
    assert site.subscriber.storage[callback]["lease_seconds"] == 3600
    assert site.subscriber.storage[callback]["secret"]  # it made one, and checks signatures

    await publish(page, "one", certificate[0])
    assert await site.next() == ("content", page, callback, b"one")

    assert await site.call(site.subscriber.renew, callback) == callback
    assert await site.next() == ("confirmed", page, callback, "subscribe")
    await begun(hub)
    await publish(page, "two", certificate[0])
    assert await site.next() == ("content", page, callback, b"two")

    await site.call(site.subscriber.unsubscribe, callback)
    assert await site.next() == ("confirmed", page, callback, "unsubscribe")
    await WebSub(hub, "/v1/hubs/acme/websub").gone(page)
    await publish(page, "three", certificate[0])
    assert site.nothing_more()
    assert site.contents == 2

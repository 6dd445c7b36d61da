"""Metrics, health, readiness and logs of a running hub."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.callbacks import Callbacks, eventually
from harness.light import Light
from harness.raw import RawConnection, RawWebSocket
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import topic_hub
from hubbub.domain.rules import Rules
from hubbub.server import logs


async def metrics_of(hub: RunningHub) -> dict[tuple[str, str], float]:
    """Values by metric and hub; the page must be what Prometheus reads."""
    page = await hub.metrics()
    return {
        (sample.name, sample.labels.get("hub", "")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "le" not in sample.labels
    }


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All logs of the test, as JSON lines."""
    stream = io.StringIO()
    hubbub_logger = logging.getLogger("hubbub")
    level = hubbub_logger.level
    logs.configure("debug", "json", stream)
    yield stream
    hubbub_logger.setLevel(level)
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, logs._Handler)]:
        root.removeHandler(handler)


# -- metrics ------------------------------------------------------------------------------------


@pytest.mark.spec("ADMIN-05")
async def test_counters_are_right_after_known_traffic(start_server: StartHub) -> None:
    hub = await start_server(open_hub(namespaces={"private": Rules()}), open_hub("other"))
    subscribers = [await hub.socket() for _ in range(3)]
    for socket in subscribers:
        await socket.subscribe("a", "b")
    publisher = await hub.socket("acme")
    for _ in range(4):
        await publisher.publish("a", {"text": "12345"})
    async with hub.http.post("/v1/hubs/acme/channels/b/messages", data="12345") as answer:
        assert answer.status == 200
    await publisher.publish("private:x", {"json": 1})
    await publisher.send("Nonsense")
    await publisher.find("Error")
    for socket in subscribers:
        for _ in range(5):
            await socket.find("Publish")
    await hub.socket("other")
    assert hub.server.node.fanout.deliveries is not None
    hub.server.node.fanout.deliveries.flush(everything=True)
    found = await metrics_of(hub)
    expected = {
        "hubbub_messages_in_total": 5,
        "hubbub_bytes_in_total": 25,
        "hubbub_messages_out_total": 15,
        "hubbub_messages_refused_total": 2,
        "hubbub_sessions_opened_total": 4,
        "hubbub_sessions_closed_total": 0,
        "hubbub_sessions": 4,
        "hubbub_subscriptions": 6,
        "hubbub_channels": 2,
        "hubbub_slow_consumers_total": 0,
        "hubbub_publish_seconds_count": 5,
        "hubbub_delivery_seconds_count": 15,
    }
    assert {name: found[name, "acme"] for name in expected} == expected
    assert found["hubbub_bytes_out_total", "acme"] > 15 * 5
    assert found["hubbub_publish_seconds_sum", "acme"] > 0
    assert found["hubbub_sessions", "other"] == 1
    assert found["hubbub_messages_in_total", "other"] == 0
    assert found["hubbub_hubs", ""] == 2
    assert found["hubbub_waiting_writes", ""] == 0
    assert 0 <= found["hubbub_loop_lag_seconds", ""] < 60
    assert found["process_resident_memory_bytes", ""] > 0

    await subscribers[0].send("Close")
    await subscribers[0].closed()
    await subscribers[1].send("Unsubscribe", channels=["a"])
    await subscribers[1].find("Unsubscribe")
    found = await metrics_of(hub)
    assert found["hubbub_sessions", "acme"] == 3
    assert found["hubbub_sessions_closed_total", "acme"] == 1
    assert found["hubbub_subscriptions", "acme"] == 3


@pytest.mark.spec("ADMIN-05")
async def test_the_page_shows_how_many_messages_wait_for_the_store(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(hub.server.owner), "waiting_writes", lambda owner: 3)
    assert (await metrics_of(hub))["hubbub_waiting_writes", ""] == 3


@pytest.mark.spec("ADMIN-05", "OPS-03")
async def test_names_of_hubs_cannot_break_the_page(start_hub: StartHub) -> None:
    name = 'quo"te\\back{slash}'
    hub = await start_hub(open_hub(name))
    socket = await hub.socket("quo%22te%5Cback%7Bslash%7D")
    await socket.subscribe("a")
    assert (await metrics_of(hub))["hubbub_sessions", name] == 1


@pytest.mark.spec("ADMIN-05")
async def test_health_and_readiness(hub: RunningHub) -> None:
    async with hub.http.get("/healthz") as health:
        assert health.status == 200
        assert (await health.json())["status"] == "ok"
    async with hub.http.get("/readyz") as ready:
        assert (ready.status, (await ready.json())["status"]) == (200, "ready")
    async with await RawConnection.open(hub.address) as client:
        client.request("GET /readyz")
        await client.response()
        hub.server.node.draining = True
        client.request("GET /readyz")
        answer = await client.response()
        assert answer.status == 503
        assert "shutting down" in json.loads(answer.body)["reason"]
        client.request("GET /healthz")  # it lives while it drains
        assert (await client.response()).status == 200


@pytest.mark.spec("ADMIN-05", "WEB-04")
async def test_webhooks_are_counted(start_server: StartHub) -> None:
    quick = {"webhooks__retries": 1, "webhooks__firstRetry": 0.01}
    hub = await start_server(topic_hub(open_topics=True, callback_addresses="loopback"), **quick)
    light = Light(hub, "/v1/hubs/acme/hub")
    async with Callbacks() as receiver, Callbacks(lambda request: 503) as broken:
        await light.register("news")
        for port in (receiver.port, broken.port):
            await light.subscribe(port, "news")
        await light.publish("news")
        await light.publish("news")

        async def done() -> bool:
            found = await metrics_of(hub)
            return (
                found["hubbub_webhook_deliveries_total", "acme"] == 2
                and found["hubbub_webhook_dead_letters_total", "acme"] == 2
            )

        await eventually(done)
    page = await hub.metrics()
    for line in (
        'hubbub_webhook_requests_total{hub="acme",outcome="ok"} 2.0',
        'hubbub_webhook_requests_total{hub="acme",outcome="5xx"} 4.0',
        'hubbub_webhook_seconds_count{hub="acme"} 2.0',
        'hubbub_webhooks{hub="acme",kind="light"} 2.0',
        'hubbub_webhooks{hub="acme",kind="websub"} 0.0',
        'hubbub_webhooks_ended_total{hub="acme"} 0.0',
        'hubbub_webhooks_sending{hub="acme"} 0.0',
        'hubbub_webhooks_waiting{hub="acme"} 0.0',
        "hubbub_webhook_in_flight 0.0",
        "hubbub_webhook_breakers_open 0.0",
    ):
        assert f"\n{line}\n" in page, line


# -- logs ---------------------------------------------------------------------------------------


@pytest.mark.spec("ADMIN-05", "OPS-04")
async def test_the_access_log_has_a_line_for_each_request_and_no_token(
    start_hub: StartHub, log: io.StringIO
) -> None:
    hub = await start_hub(debug__accessLog=True)
    token = hub.token()
    path = "/v1/hubs/acme/channels/a/messages"
    async with await RawConnection.open(hub.address) as client:
        client.request(f"POST {path}?token={token}", body=b"payload-of-a-message")
        assert (await client.response()).status == 200
        client.request(f"GET {path}", f"Authorization: Bearer {token}")
        assert (await client.response()).status == 200
        client.request("GET /nowhere")
        await client.response()
        client.send(b"junk\r\n\r\n")
        await client.rest()
    offered = f"Sec-WebSocket-Protocol: hubbub.json.v1, hubbub.token.{token}"
    async with await RawWebSocket.connect(hub.address, offered):
        pass
    async with hub.http.get(f"/v1/hubs/acme/events?channel=a&access_token={token}") as stream:
        assert stream.status == 200
    text = log.getvalue()
    lines = [json.loads(line) for line in text.splitlines()]
    requests = [line for line in lines if line["logger"] == "hubbub.access"]
    assert [(each["method"], each["path"], each["status"]) for each in requests[:3]] == [
        ("POST", path, 200),
        ("GET", path, 200),
        ("GET", "/nowhere", 404),
    ]
    assert requests[3]["status"] == 400
    assert [(each["path"], each["status"]) for each in requests[4:]] == [
        ("/v1/hubs/acme/socket", 101),
        ("/v1/hubs/acme/events", 200),
    ]
    assert all(each["client"] == "127.0.0.1" for each in requests)
    assert all(each["scheme"] == "http" for each in requests)
    signature = token.rsplit(".", 1)[1]
    assert token not in text
    assert signature not in text
    assert "payload-of-a-message" not in text


@pytest.mark.spec("OPS-04")
async def test_forwarded_headers_are_believed_only_from_trusted_proxies(
    start_server: StartHub, log: io.StringIO
) -> None:
    forwarded = ("X-Forwarded-For: 1.1.1.1, 203.0.113.9", "X-Forwarded-Proto: https")
    for trusted, client_shown, scheme in (
        (["127.0.0.0/8"], "203.0.113.9", "https"),
        (["10.0.0.0/8"], "127.0.0.1", "http"),
    ):
        hub = await start_server(debug__accessLog=True, listener__trustedProxies=trusted)
        async with await RawConnection.open(hub.address) as client:
            client.request("GET /healthz", *forwarded)
            await client.response()
        line = json.loads(log.getvalue().splitlines()[-1])
        assert (line["client"], line["scheme"]) == (client_shown, scheme)
        await hub.close()


@pytest.mark.spec("ADMIN-05", "OPS-04")
async def test_nothing_is_logged_per_request_unless_asked(
    start_hub: StartHub, log: io.StringIO
) -> None:
    hub = await start_hub()
    token = hub.token()
    async with hub.http.get(f"/v1/hubs/acme/channels/a/messages?token={token}x") as answer:
        assert answer.status == 401
    socket = await hub.raw_socket(query=f"?token={token}x")
    await socket.closed()
    assert token not in log.getvalue()
    assert "hubbub.access" not in log.getvalue()

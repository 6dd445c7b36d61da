"""The JavaScript SDK in Node, as the hub serves it, against real hubs: over WebSocket, where no
WebSocket gets through (`sse`), and over the connection of several tabs (`shared`)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from harness.auth_provider import auth_provider, saying
from harness.node import needs_node, run_node
from harness.push_services import BrowserService, push_hub
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.service import running_service
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.domain.rules import AuthProvider, RpcRoute, Rules

SCRIPTS = Path(__file__).parent / "javascript"
EVERYTHING = (
    Grant("room:*", True, True),
    Grant("hall:*", True, True),
    Grant("lobby:*", True, True),
    Grant("offers", True, True),
    Grant("board:*", True, True),
)
KEPT = Rules(store=True, public=True, client_publish=True)
pytestmark = needs_node


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    there = Rules(presence=True, live_history=True)
    closed = Rules(live_history=True)
    return await start_hub(
        open_hub(
            rules=closed,
            namespaces={
                "lobby": there,
                "open": OPEN,
                "orders": KEPT,
                "board": Rules(live_history=True, retain=True),
            },
        )
    )


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("codec", ["json", "protobuf", "sse", "shared"])
async def test_channels_work_as_documented(hub: RunningHub, codec: str) -> None:
    token = hub.token("ann", grants=EVERYTHING)
    url = f"http://{hub.address}"
    said = await run_node(SCRIPTS / "channels.mjs", URL=url, HUB="acme", TOKEN=token, CODEC=codec)
    assert said == "done\n"


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("codec", ["json", "protobuf", "sse", "shared"])
async def test_topics_outbox_and_notifications_work_as_documented(
    hub: RunningHub, codec: str
) -> None:
    grants = (Grant("orders:*", True, True), Grant("notification:ann", True, True))
    said = await run_node(
        SCRIPTS / "topics.mjs",
        URL=f"http://{hub.address}",
        HUB="acme",
        CODEC=codec,
        TOKEN=hub.token("ann", grants=grants),
        SERVICE=hub.token(None, level=Level.SERVICE),
    )
    assert said == "done\n"


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("codec", ["json", "protobuf", "sse", "shared"])
async def test_documents_work_as_documented(hub: RunningHub, codec: str) -> None:
    token = hub.token("ann", grants=(Grant("doc:*", True, True),))
    url = f"http://{hub.address}"
    said = await run_node(SCRIPTS / "documents.mjs", URL=url, HUB="acme", TOKEN=token, CODEC=codec)
    assert said == "done\n"


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("codec", ["json", "sse", "shared"])
async def test_credentials_open_a_hub_that_lets_nobody_in_without(
    start_hub: StartHub, codec: str
) -> None:
    """A real auth provider, which lends what it gives for an hour."""
    async with auth_provider() as provider:
        provider.answer = saying(
            {
                "success": True,
                "userID": "ann",
                "extra": {"name": "Ann"},
                "expiresIn": 3600,
                "channels": [{"channel": "room:*", "publish": True, "subscribe": True}],
            }
        )
        asked = AuthProvider(provider.url, {}, 5.0)
        closed = open_hub(rules=Rules(), auth_provider="main", allow_anonymous=False)
        hub = await start_hub(msgspec.structs.replace(closed, auth_providers={"main": asked}))
        said = await run_node(
            SCRIPTS / "credentials.mjs", URL=f"http://{hub.address}", HUB="acme", CODEC=codec
        )
        assert said == "done\n"
        assert {body for _, body in provider.requests} == {b'{"password":"secret"}'}


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("codec", ["json", "protobuf", "sse", "shared"])
async def test_calls_streams_and_push_work_as_documented(start_hub: StartHub, codec: str) -> None:
    async with running_service() as service, BrowserService() as browsers:
        route = RpcRoute("*", service.url, {}, 5.0)
        hub = await start_hub(msgspec.structs.replace(push_hub(), rpc_routes={"all": route}))
        grants = (Grant("news", True, True), Grant("stream:clicks", publish=True))
        who = Identity(user_id="ann", rpcs=("cart.*",), grants=grants)
        said = await run_node(
            SCRIPTS / "services.mjs",
            URL=f"http://{hub.address}",
            HUB="acme",
            CODEC=codec,
            TOKEN=hub.server.tokens.issue("acme", who, 600),
            SUBSCRIPTION=json.dumps(browsers.browser("/ann").subscription),
        )
        assert said == "done\n"
        assert len(service.calls) == 5

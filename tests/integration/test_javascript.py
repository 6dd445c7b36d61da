"""The JavaScript SDK in Node, as the hub serves it, against real hubs: over WebSocket, where no
WebSocket gets through (`sse`), and over the connection of several tabs (`shared`)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from harness.auth_provider import auth_provider, saying
from harness.commands import User, command_hub
from harness.node import SDK, needs_node, run_node
from harness.push_services import BrowserService, push_hub
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.service import running_service
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.domain.rules import AuthProvider, RpcRoute, Rules

SCRIPTS = Path(__file__).parent / "javascript"
ROOT = Path(__file__).parents[2]
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
    grants = (Grant("orders:*", True, True), Grant("notification:u:ann", True, True))
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


@pytest.mark.spec("DOC-02", "local copies: function edits under contention")
async def test_no_increment_of_ten_clients_at_once_is_lost(hub: RunningHub) -> None:
    token = hub.token("ann", grants=(Grant("doc:*", True, True),))
    said = await run_node(
        SCRIPTS / "contention.mjs",
        URL=f"http://{hub.address}",
        HUB="acme",
        TOKEN=token,
        CODEC="json",
    )
    assert said == "done\n"


@pytest.mark.spec("CMD-09", "UI-02")
@pytest.mark.parametrize("codec", ["json", "protobuf", "sse", "shared"])
async def test_commands_conversations_and_filters_work_as_documented(
    start_hub: StartHub, codec: str
) -> None:
    hub = await start_hub(command_hub(Rules(search=True)))
    people = ["ann@demo", "bob@demo"]
    channel = {"chid": "#news@demo", "owner": "ann@demo", "participants": people, "active": True}
    assert await User(hub, "ann", "http", Level.CLIENT, ()).ask(
        "hCreateUpdateChannel", channel
    ) == (0, None)
    said = await run_node(
        SCRIPTS / "commands.mjs",
        URL=f"http://{hub.address}",
        HUB="demo",
        CODEC=codec,
        TOKEN=hub.token("ann", "demo"),
        BOB=hub.token("bob", "demo"),
    )
    assert said == "done\n"


@pytest.mark.spec("CMD-09", "UI-04")
async def test_the_bot_of_the_documentation_answers(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub(command_hub(Rules(search=True)))
    page = (ROOT / "docs" / "javascript.md").read_text()
    (printed,) = re.findall(r"```ts prose\n([^`]*onCommand\(bot[^`]*)```", page)
    for name, value in {
        "@hubbub/client/commands": f"file://{SDK}/commands.js",
        "@hubbub/client": f"file://{SDK}/hubbub.js",
        "http://localhost:8000": f"http://{hub.address}",
        "<ann>": hub.token("ann", "demo"),
        "<bob>": hub.token("bob", "demo"),
    }.items():
        printed = printed.replace(f'"{name}"', f'"{value}"')
    script = tmp_path / "bot.mjs"
    script.write_text(printed)
    assert await run_node(script) == "{ brightness: 3 }\n{ of: 'the hub' }\n"


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


@pytest.mark.spec("UI-02")
async def test_a_mistyped_hub_is_named_at_the_client_and_in_the_log(
    start_hub: StartHub, caplog: pytest.LogCaptureFixture
) -> None:
    hub = await start_hub(open_hub(), session__authenticateTimeout=0.5)
    said = await run_node(
        SCRIPTS / "wrong_hub.mjs", URL=f"http://{hub.address}", HUB="acme", TOKEN=hub.token("ann")
    )
    assert said == "authentication_timeout closed true\ninvalid_token closed true\n"
    assert "a client asked for hub 'amce', which does not exist" in caplog.messages

"""The params of every built-in command: missing, no object, empty, and each attribute missing,
empty and of a wrong type. Rows are those of the table of commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from harness.commands import Stage, User, command_hub
from harness.running_hub import RunningHub, hub_settings
from hubbub.server.wiring import Server

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("CMD-03")]

OK, NOT_AUTHORIZED, MISSING, INVALID, NOT_AVAILABLE = 0, 5, 6, 7, 9
NO_OBJECTS: list[Any] = [None, [], "text", 7, True]
NUMBERS: list[Any] = [None, "", "many", True, [], -1, 0, 1.5, 10**9]
PAGES: list[tuple[str, Any]] = [
    ("limit", "x"),
    ("limit", True),
    ("limit", []),
    ("limit", -1),
    ("limit", 0),
    ("after", 1),
    ("after", True),
    ("after", []),
]
CHANNEL_COMMANDS = (
    "hSubscribe",
    "hGetLastMessages",
    "hRelevantMessages",
    "hGetThread",
    "hGetThreads",
)
MISSING_PARAMS = ("hSubscribe", "hUnsubscribe", "hPublish", "hGetLastMessages")
INVALID_PARAMS = (
    "hCreateUpdateChannel",
    "hRelevantMessages",
    "hGetThread",
    "hGetThreads",
    "hSetFilter",
    "hUnsetFilter",
)


def _nested(levels: int) -> dict[str, Any]:
    return {"boolean": True} if levels == 1 else {"not": _nested(levels - 1)}


ROWS: list[tuple[str, Any, int]] = [
    *((name, params, MISSING) for name in MISSING_PARAMS for params in NO_OBJECTS),
    *((name, params, INVALID) for name in INVALID_PARAMS for params in NO_OBJECTS),
    *((name, {}, MISSING) for name in (*MISSING_PARAMS, *INVALID_PARAMS)),
    *(("hEcho", params, OK) for params in (*NO_OBJECTS, {}, "")),
    *(("hGetSubscriptions", params, OK) for params in (*NO_OBJECTS, {})),
    *(
        (name, {"chid": chid, "convid": "c"}, status)
        for name in CHANNEL_COMMANDS
        for chid, status in (
            (None, MISSING),
            ("", INVALID),
            (1, INVALID),
            (True, INVALID),
            ([], INVALID),
            ({}, INVALID),
            ("a<b", INVALID),
            ("room:*", INVALID),
            ("doc:a", INVALID),
            ("u:ann", INVALID),
            ("hAdminChannel", INVALID),
            ("#news@elsewhere", NOT_AVAILABLE),
            ("nowhere", NOT_AVAILABLE),
            ("#closed@demo", NOT_AUTHORIZED),
            ("#others", NOT_AUTHORIZED),
        )
    ),
    *(
        ("hUnsubscribe", {"chid": chid}, status)
        for chid, status in (
            (None, MISSING),
            ("", INVALID),
            (1, INVALID),
            ("a<b", INVALID),
            ("nowhere", NOT_AUTHORIZED),
            ("closed", NOT_AUTHORIZED),
            ("news", NOT_AUTHORIZED),
        )
    ),
    *(("hGetLastMessages", {"chid": "news", "nbLastMsg": number}, OK) for number in NUMBERS),
    *(
        (name, {"chid": "news", "convid": "c", part: value}, INVALID)
        for name in ("hRelevantMessages", "hGetThread", "hGetThreads")
        for part, value in PAGES
    ),
    ("hGetThread", {"chid": "news"}, MISSING),
    ("hGetThread", {"chid": "news", "convid": None}, MISSING),
    ("hGetThread", {"chid": "news", "convid": ""}, INVALID),
    ("hGetThread", {"chid": "news", "convid": 1}, INVALID),
    ("hGetThread", {"chid": "news", "convid": []}, INVALID),
    ("hGetThread", {"chid": "news", "convid": "unknown"}, OK),
    ("hGetThreads", {"chid": "news", "status": 1}, INVALID),
    ("hGetThreads", {"chid": "news", "status": []}, INVALID),
    ("hGetThreads", {"chid": "news", "status": ""}, OK),
    ("hGetThreads", {"chid": "news", "status": None}, OK),
    ("hSetFilter", {"name": "f"}, MISSING),
    ("hSetFilter", {"relevant": True}, MISSING),
    *(
        ("hSetFilter", {"name": "f", "relevant": True, **changed}, status)
        for changed, status in (
            ({"name": None}, MISSING),
            ({"name": ""}, INVALID),
            ({"name": 1}, INVALID),
            ({"name": []}, INVALID),
            ({"chid": 1}, INVALID),
            ({"chid": "a<b"}, INVALID),
            ({"chid": "room:*"}, INVALID),
            ({"chid": "nowhere"}, NOT_AVAILABLE),
            ({"chid": "closed"}, NOT_AUTHORIZED),
            ({"chid": "others"}, NOT_AUTHORIZED),
            ({"template": "x"}, INVALID),
            ({"template": []}, INVALID),
            ({"template": {"msgid": "x"}}, INVALID),
            ({"template": {"chid": "x"}}, INVALID),
            ({"template": {"published": 1}}, INVALID),
            ({"template": {"relevance": 1}}, INVALID),
            ({"template": {"transient": True}}, INVALID),
            ({"template": {"headers": 1}}, INVALID),
            ({"template": {"location": {"lat": 1}}}, INVALID),
            ({"template": {"location": {"lat": 1, "lng": 2}}}, INVALID),
            ({"radius": 5}, MISSING),
            ({"radius": 5, "template": {"location": {"lat": 1}}}, MISSING),
            ({"radius": 0, "template": {"location": {"lat": 1, "lng": 2}}}, INVALID),
            ({"radius": -1, "template": {"location": {"lat": 1, "lng": 2}}}, INVALID),
            ({"radius": "5", "template": {"location": {"lat": 1, "lng": 2}}}, INVALID),
            ({"radius": True, "template": {"location": {"lat": 1, "lng": 2}}}, INVALID),
            ({"relevant": "yes"}, INVALID),
            ({"relevant": 1}, INVALID),
            ({"condition": "x"}, INVALID),
            ({"condition": []}, INVALID),
            ({"condition": {"like": {"payload.a": 1}}}, INVALID),
            ({"condition": {"eq": 1}}, INVALID),
            ({"condition": {"lt": {"payload.a": "1"}}}, INVALID),
            ({"condition": {"lt": {"payload.a": True}}}, INVALID),
            ({"condition": {"in": {"payload.a": 1}}}, INVALID),
            ({"condition": {"and": [{"boolean": True}]}}, INVALID),
            ({"condition": {"or": {}}}, INVALID),
            ({"condition": {"not": {}}}, INVALID),
            ({"condition": {"not": []}}, INVALID),
            ({"condition": {"relevant": 1}}, INVALID),
            ({"condition": {"geo": {"lat": 1, "lng": 2}}}, INVALID),
            ({"condition": {"geo": {"lat": "1", "lng": 2, "radius": 3}}}, INVALID),
            ({"condition": {"boolean": "true"}}, INVALID),
            ({"condition": {}}, OK),
            ({"condition": _nested(32)}, OK),
            ({"condition": _nested(33)}, INVALID),
            ({"condition": {"in": {"payload.a": list(range(10_000))}}}, INVALID),
            ({"chid": ""}, OK),
            ({"chid": None}, OK),
        )
    ),
    ("hUnsetFilter", {"name": None}, MISSING),
    ("hUnsetFilter", {"name": ""}, INVALID),
    ("hUnsetFilter", {"name": 1}, INVALID),
    ("hUnsetFilter", {"name": "unknown"}, NOT_AVAILABLE),
    ("hUnsetFilter", {"name": "unknown", "chid": 1}, INVALID),
    *(("hListFilters", params, OK) for params in (None, {}, {"chid": None}, {"chid": "nowhere"})),
    ("hListFilters", {"chid": 1}, INVALID),
    *(
        ("hPublish", {"chid": "news", "publisher": "ann@demo", **changed}, status)
        for changed, status in (
            ({"chid": "nowhere"}, NOT_AVAILABLE),
            ({"chid": "closed"}, NOT_AUTHORIZED),
            ({"chid": "others"}, NOT_AUTHORIZED),
            ({"chid": "bob@elsewhere"}, NOT_AVAILABLE),
            ({"chid": "hnode@demo"}, NOT_AVAILABLE),
            ({"chid": "nobody@demo"}, OK),
            ({"publisher": "bob@demo"}, NOT_AUTHORIZED),
            ({"publisher": "ann@demo/any"}, OK),
        )
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[User]:
    path = tmp_path_factory.mktemp("hub")
    server = Server(hub_settings(path, command_hub(), session__messagesPerSecond=0))
    await server.start()
    hub = RunningHub(server)
    stage = Stage(hub, "json")
    user, bob = stage.user("ann"), stage.user("bob")
    assert (await user.create("news", "ann"))[0] == OK
    assert (await user.create("closed", "ann", active=False))[0] == OK
    assert (await bob.create("others", "bob"))[0] == OK
    yield user
    await stage.close()
    await hub.close()


@pytest.mark.parametrize(("cmd", "params", "status"), ROWS)
async def test_params_are_judged_as_the_table_says(
    ann: User, cmd: str, params: Any, status: int
) -> None:
    found, text = await ann.ask(cmd, params)
    assert found == status, text
    if cmd == "hSubscribe" and found == OK:
        await ann.ask("hUnsubscribe", params)
    if status not in (OK, NOT_AUTHORIZED, NOT_AVAILABLE):
        assert isinstance(text, str)
        assert text

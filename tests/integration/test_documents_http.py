"""Documents over HTTP: ETags, both kinds of patches, conditions, history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import Rules

PATH = "/v1/hubs/acme/channels/doc:a/document"

pytestmark = pytest.mark.spec("DOC-02", "over HTTP")


async def ask(
    hub: RunningHub, method: str, path: str = PATH, body: Any = None, **headers: str
) -> tuple[int, Any, Any]:
    """Status, body and headers; `_` in the names of headers stands for `-`."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with hub.http.request(method, path, data=data, headers=named) as answer:
        text = await answer.read()
        found = json.loads(text) if text else None
        if answer.status >= 400 and found is not None:
            found = found["error"]
        return answer.status, found, answer.headers


def patch(*ops: Any) -> bytes:
    return json.dumps(ops).encode()


async def test_a_document_is_written_read_and_patched(hub: RunningHub) -> None:
    assert (await ask(hub, "GET"))[0] == 404
    status, changed, headers = await ask(hub, "PUT", body={"a": 1, "l": [1]})
    assert (status, changed["version"], changed["duplicate"]) == (200, 1, False)
    tag = f'"{changed["epoch"]}.1"'
    assert headers["ETag"] == tag
    status, found, headers = await ask(hub, "GET")
    assert (status, found, headers["ETag"]) == (200, {"a": 1, "l": [1]}, tag)
    status, found, headers = await ask(hub, "HEAD")
    assert (status, found, headers["Content-Length"]) == (200, None, "15")
    assert (await ask(hub, "GET", f"{PATH}?path=/l/0"))[1] == 1
    assert (await ask(hub, "GET", f"{PATH}?path=/x"))[0] == 404
    status, changed, _ = await ask(
        hub, "PATCH", body=patch({"op": "add", "path": "/l/-", "value": 2}), **PATCH_HEADERS
    )
    assert (status, changed["version"]) == (200, 2)
    assert (await ask(hub, "PATCH", body={"a": None, "n": {"x": 1}}, **MERGE_HEADERS))[0] == 200
    assert (await ask(hub, "GET"))[1] == {"l": [1, 2], "n": {"x": 1}}
    assert (await ask(hub, "GET", f"{PATH}?at=1"))[1] == {"a": 1, "l": [1]}
    assert (await ask(hub, "GET", f"{PATH}?at=9"))[0] == 410
    status, page, _ = await ask(hub, "GET", f"{PATH}/changes?after=1&limit=1")
    assert (status, page["version"], page["more"]) == (200, 3, True)
    (change,) = page["changes"]
    assert change["version"] == 2
    assert change["ops"] == [{"op": "add", "path": "/l/1", "value": 2}]
    assert (await ask(hub, "GET", f"{PATH}/changes?before=3"))[1]["changes"][-1]["version"] == 2


PATCH_HEADERS = {"Content_Type": "application/json-patch+json"}
MERGE_HEADERS = {"Content_Type": "application/merge-patch+json; charset=utf-8"}


async def test_conditions_are_those_of_http(hub: RunningHub) -> None:
    assert (await ask(hub, "PUT", body=1, If_Match="*"))[0] == 412
    status, first, headers = await ask(hub, "PUT", body={"a": 1}, If_None_Match="*")
    assert status == 200
    status, refused, _ = await ask(hub, "PUT", body={"a": 2}, If_None_Match="*")
    assert (status, refused["code"], refused["version"]) == (412, "version_mismatch", 1)
    tag = headers["ETag"]
    assert (await ask(hub, "GET", If_None_Match=tag))[0] == 304
    assert (await ask(hub, "GET", If_None_Match=f'"x", W/{tag}'))[0] == 304
    assert (await ask(hub, "PUT", body={"a": 2}, If_Match=tag))[0] == 200
    assert (await ask(hub, "PUT", body={"a": 3}, If_Match=tag))[0] == 412
    assert (await ask(hub, "PUT", body={"a": 3}, If_Match='"nonsense"'))[0] == 412
    assert (await ask(hub, "PUT", body={"a": 3}, If_Match=f'"0.{2}"'))[0] == 412
    assert (await ask(hub, "PUT", body={"a": 3}, If_Match="*"))[0] == 200
    assert (await ask(hub, "GET", If_None_Match=tag))[1] == {"a": 3}
    assert first["version"] == 1


async def test_a_producers_repeat_over_http_counts_once(hub: RunningHub) -> None:
    path = f"{PATH}?producer=p&sequence=1"
    body = patch({"op": "add", "path": "/n/-", "value": 1})
    assert (await ask(hub, "PATCH", path, body, **PATCH_HEADERS))[1]["duplicate"] is False
    again = (await ask(hub, "PATCH", path, body, **PATCH_HEADERS))[1]
    assert (again["duplicate"], again["version"]) == (True, 1)
    assert (await ask(hub, "PATCH", f"{PATH}?sequence=1", body, **PATCH_HEADERS))[0] == 400
    assert (await ask(hub, "PATCH", f"{PATH}?producer=p", body, **PATCH_HEADERS))[0] == 400


async def test_a_copy_is_brought_up_to_date_by_changes_or_by_the_document(hub: RunningHub) -> None:
    """What a client needs that follows the document by server-sent events."""
    path = f"{PATH}/changes?document=true"
    status, found, _ = await ask(hub, "GET", path)
    assert (status, found["version"], found["document"]) == (200, 0, {})
    body = patch({"op": "add", "path": "/n", "value": 1})
    changed = (await ask(hub, "PATCH", f"{PATH}?changeID=c1", body, **PATCH_HEADERS))[1]
    epoch = changed["epoch"]
    found = (await ask(hub, "GET", f"{path}&after=0&epoch={epoch}"))[1]
    assert [each["changeID"] for each in found["changes"]] == ["c1"]
    assert "document" not in found
    found = (await ask(hub, "GET", f"{path}&after=0&epoch=abc"))[1]
    assert (found["epoch"], found["document"], found["changes"]) == (epoch, {"n": 1}, [])
    status, refused, _ = await ask(hub, "PATCH", f"{PATH}?epoch=abc", body, **PATCH_HEADERS)
    assert (status, refused["code"]) == (412, "version_mismatch")
    assert (await ask(hub, "PATCH", f"{PATH}?epoch={epoch}", body, **PATCH_HEADERS))[0] == 200
    long = f"{PATH}?changeID={'x' * 65}"
    assert (await ask(hub, "PATCH", long, body, **PATCH_HEADERS))[0] == 400


@pytest.mark.parametrize(
    ("method", "body", "headers", "status", "code"),
    [
        ("PATCH", b"[]", {"Content_Type": "application/json"}, 415, "unsupported_media_type"),
        ("PATCH", b"[]", {}, 415, "unsupported_media_type"),
        ("PATCH", b"{}", PATCH_HEADERS, 422, "invalid_patch"),
        ("PATCH", b'[{"op":"x","path":""}]', PATCH_HEADERS, 422, "invalid_patch"),
        ("PATCH", b'[{"op":"remove","path":"/no"}]', PATCH_HEADERS, 409, "patch_failed"),
        ("PATCH", b"[NaN]", PATCH_HEADERS, 422, "invalid_payload"),
        ("PATCH", b'{"a":9007199254740993}', MERGE_HEADERS, 422, "invalid_payload"),
        ("PUT", b"", {}, 422, "invalid_payload"),
        ("PUT", b'1},{"op":"add","path":"/x","value":1', {}, 422, "invalid_payload"),
        ("PUT", b"[" * 100 + b"]" * 100, {}, 413, "too_large"),
        ("PUT", b'"%b"' % (b"x" * 300_000), {}, 413, "too_large"),
        ("POST", b"1", {}, 405, "method_not_allowed"),
        ("DELETE", None, {}, 403, "not_permitted"),
    ],
)
async def test_what_cannot_be_done_is_said(
    hub: RunningHub, method: str, body: Any, headers: dict[str, str], status: int, code: str
) -> None:
    found, answer, said = await ask(hub, method, body=body, **headers)
    assert (found, answer["code"]) == (status, code)
    if status == 415:
        assert said["Accept-Patch"] == "application/json-patch+json, application/merge-patch+json"
    if code == "patch_failed":
        assert (answer["opIndex"], answer["reason"]) == (0, "missing")
    assert (await ask(hub, "GET"))[0] == 404


async def test_only_document_channels_have_one(hub: RunningHub) -> None:
    path = "/v1/hubs/acme/channels/news/document"
    for method, body in (("GET", None), ("PUT", 1), ("GET", None)):
        status, answer, _ = await ask(hub, method, path, body)
        assert (status, answer["code"]) == (409, "wrong_channel_kind")
    assert (await ask(hub, "GET", f"{PATH}/nothing"))[0] == 404


async def test_a_service_deletes_a_document(hub: RunningHub) -> None:
    socket = await hub.socket()
    await ask(hub, "PUT", body={"a": 1})
    await socket.subscribe("doc:a")
    before = await socket.expect("DocumentInfo")
    service = f"Bearer {hub.token(None, level=Level.SERVICE)}"
    assert (await ask(hub, "DELETE", Authorization=service))[0] == 204
    info = await socket.expect("DocumentInfo")
    assert (info["version"], info["epoch"] != before["epoch"]) == (0, True)
    assert (await ask(hub, "GET"))[0] == 404
    status, changed, _ = await ask(hub, "PUT", body={"b": 2})
    assert (status, changed["version"]) == (200, 1)
    update = await socket.expect("DocumentUpdated")
    assert (update["version"], update["epoch"]) == (1, changed["epoch"])


async def test_every_method_asks_the_rules(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False, rules=Rules()))
    assert (await ask(hub, "GET"))[0] == 401
    writer = f"Bearer {hub.token('w', grants=(Grant('doc:*', publish=True),))}"
    reader = f"Bearer {hub.token('r', grants=(Grant('doc:*', subscribe=True),))}"
    assert (await ask(hub, "PUT", body=1, Authorization=reader))[0] == 403
    assert (await ask(hub, "PUT", body=1, Authorization=writer))[0] == 200
    assert (await ask(hub, "GET", Authorization=writer))[0] == 403
    assert (await ask(hub, "GET", f"{PATH}/changes", Authorization=writer))[0] == 403
    assert (await ask(hub, "GET", Authorization=reader))[1] == 1
    other = f"Bearer {hub.token('r', hub='other', grants=(Grant('doc:*', subscribe=True),))}"
    assert (await ask(hub, "GET", Authorization=other))[0] == 401


@pytest.mark.spec("SEC-01", "documents in memory are bounded")
async def test_documents_that_nobody_uses_leave_the_memory_and_come_back(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(), document__memoryBytes=5_000)
    paths = [PATH.replace("doc:a", f"doc:{number}") for number in range(20)]
    for number, path in enumerate(paths):
        assert (await ask(hub, "PUT", path, {"n": number, "x": "x" * 1_000}))[0] == 200
        assert hub.server.owner.channels.state_bytes < 7_000
    for number, path in enumerate(paths):
        status, found, headers = await ask(hub, "GET", path)
        assert (status, found["n"]) == (200, number)
        assert headers["ETag"].endswith('.1"')


@pytest.mark.parametrize(
    ("setting", "fits", "exceeds"),
    [
        ("maxBytes", {"value": "x" * 92}, {"value": "x" * 93}),
        ("maxChangeBytes", {"value": "x" * 58}, {"value": "x" * 59}),
        ("maxNameBytes", {"path": "/" + "é" * 50}, {"path": "/" + "é" * 51}),
    ],
)
@pytest.mark.spec("DOC-01", "limits are settings")
async def test_a_document_is_held_to_the_sizes_of_the_settings(
    start_hub: StartHub, setting: str, fits: dict[str, Any], exceeds: dict[str, Any]
) -> None:
    hub = await start_hub(open_hub(), **{f"document__{setting}": 100})
    change = {"op": "add", "path": "/a", "value": 1}
    status, said, _ = await ask(hub, "PATCH", body=patch({**change, **exceeds}), **PATCH_HEADERS)
    assert (status, said["code"]) == (413, "too_large")
    assert "100" in said["message"]
    assert (await ask(hub, "GET"))[0] == 404
    status, _, _ = await ask(hub, "PATCH", body=patch({**change, **fits}), **PATCH_HEADERS)
    assert status == 200


@pytest.mark.spec("DOC-01", "limits are settings")
async def test_operations_and_depth_are_held_to_the_settings(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), document__maxOperations=2, document__maxDepth=3)
    one = {"op": "add", "path": "/a/-", "value": 1}
    for body, status in (([one] * 3, 413), ([one] * 2, 200)):
        assert (await ask(hub, "PATCH", body=patch(*body), **PATCH_HEADERS))[0] == status
    for value, status in (([[[1]]], 413), ([[1]], 200)):
        put = await ask(hub, "PUT", body={"a": value})
        assert put[0] == status

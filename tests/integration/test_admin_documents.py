"""Documents as services handle them: over HTTP, over NATS, on the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from google.protobuf import json_format
from nats.aio.client import Client

from harness.admin import HUB, Caller, admin_of, client_of, service_of
from harness.invoking import invoke
from harness.nats import nats_server
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Level
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.server.nats_server import USER

DOCUMENT = f"{HUB}/channels/doc:a/document"
pytestmark = pytest.mark.spec("DOC-02", "administration")


async def test_documents_are_listed_with_their_version_size_and_history(hub: RunningHub) -> None:
    service = service_of(hub)
    for name in ("doc:b", "doc:a", "doc:list:1", "doc:list:2"):
        path = DOCUMENT.replace("doc:a", name)
        assert (await service("PUT", path, {"name": name})).status == 200
    await service("PATCH", DOCUMENT, [{"op": "add", "path": "/n", "value": 1}])
    found = await service.all(f"{HUB}/documents", 2)
    assert [each["channel"] for each in found] == ["doc:a", "doc:b", "doc:list:1", "doc:list:2"]
    assert (found[0]["version"], found[0]["changesKept"]) == (2, 2)
    assert found[0]["bytes"] == len('{"name":"doc:a","n":1}')
    assert found[0]["updatedAt"] > 10**12
    listed = await service.all(f"{HUB}/documents?prefix=doc:list:", 1)
    assert [each["channel"] for each in listed] == ["doc:list:1", "doc:list:2"]


async def test_a_service_reads_replaces_patches_and_deletes(hub: RunningHub) -> None:
    service = service_of(hub)
    assert (await service("GET", DOCUMENT)).code == "not_found"
    put = await service("PUT", DOCUMENT, {"l": [1]}, If_None_Match="*")
    assert (put.status, put.json["version"], put.tag) == (200, 1, '"1"')
    assert (await service("PUT", DOCUMENT, 1, If_None_Match="*")).code == "version_mismatch"
    patched = await service(
        "PATCH", DOCUMENT, [{"op": "add", "path": "/l/-", "value": 2}], If_Match='"1"'
    )
    assert (patched.status, patched.json["version"]) == (200, 2)
    late = await service("PATCH", DOCUMENT, [{"op": "remove", "path": "/l"}], If_Match='"1"')
    assert (late.status, late.code) == (412, "version_mismatch")
    either = await service("PATCH", DOCUMENT, [{"op": "remove", "path": "/l"}], If_Match='"1", "9"')
    assert either.status == 412
    read = await service("GET", DOCUMENT)
    assert (read.json["document"], read.json["version"], read.tag) == ({"l": [1, 2]}, 2, '"2"')
    assert read.json["epoch"] == put.json["epoch"]
    assert (await service("GET", DOCUMENT, If_None_Match='"2"')).status == 304
    assert (await service("GET", f"{DOCUMENT}?path=/l/1")).json["document"] == 2
    assert (await service("GET", f"{DOCUMENT}?at=1")).json["document"] == {"l": [1]}
    changes = (await service("GET", f"{DOCUMENT}/changes?after=1")).json
    assert [each["ops"] for each in changes["changes"]] == [
        [{"op": "add", "path": "/l/1", "value": 2}]
    ]
    assert (await service("DELETE", DOCUMENT, If_Match='"1"')).status == 412
    assert (await service("DELETE", DOCUMENT, If_Match='"1", "2"')).status == 204
    assert (await service("GET", DOCUMENT)).status == 404
    assert (await service("DELETE", DOCUMENT)).status == 404


async def test_a_repeat_of_a_services_change_counts_once(hub: RunningHub) -> None:
    service = service_of(hub)
    for duplicate in (False, True):
        reply = await service(
            "PATCH",
            f"{DOCUMENT}?producer=backend&sequence=1",
            [{"op": "add", "path": "/n/-", "value": 1}],
        )
        assert (reply.json["version"], reply.json["duplicate"]) == (1, duplicate)
    assert (await service("PATCH", f"{DOCUMENT}?sequence=2", [])).status == 400


async def test_restoring_a_version_is_an_ordinary_change(hub: RunningHub) -> None:
    service = service_of(hub)
    large = {"text": "x" * 200_000}
    await service("PUT", DOCUMENT, large)
    await service("PATCH", DOCUMENT, [{"op": "add", "path": "/more", "value": "y" * 200_000}])
    await service("PUT", DOCUMENT, {"spoilt": True})
    socket = await hub.socket()
    await socket.subscribe("doc:a")
    await socket.expect("DocumentInfo")
    restored = await service("POST", f"{DOCUMENT}/restore", {"version": 2})
    assert (restored.status, restored.json["version"]) == (200, 4)
    update = await socket.expect("DocumentUpdated")
    assert (update["version"], update["ops"][0]["op"]) == (4, "replace")
    read = (await service("GET", DOCUMENT)).json
    assert (read["version"], read["document"]) == (4, {**large, "more": "y" * 200_000})
    gone = await service("POST", f"{DOCUMENT}/restore", {"version": 9})
    assert (gone.status, gone.code) == (410, "history_gone")
    other = await service("POST", f"{DOCUMENT}/restore", {"version": 2, "epoch": "other"})
    assert other.code == "history_gone"
    late = await service("POST", f"{DOCUMENT}/restore", {"version": 1}, If_Match='"3"')
    assert late.code == "version_mismatch"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("PATCH", "", b"{}", 422, "invalid_patch"),
        ("PATCH", "", b"", 422, "invalid_payload"),
        ("PATCH", "", b'[{"op":"remove","path":"/x"}]', 409, "patch_failed"),
        ("PUT", "", b"", 422, "invalid_payload"),
        ("PUT", "", b"9007199254740993", 422, "invalid_payload"),
        ("PUT", "", b'"%b"' % (b"x" * 300_000), 413, "too_large"),
        ("PUT", "?epoch=other", b"1", 412, "version_mismatch"),
        ("POST", "/restore", b'{"version":-1}', 400, "bad_request"),
        ("POST", "/restore", b"{}", 400, "bad_request"),
        ("GET", "?at=null", None, 400, "bad_request"),
        ("GET", "?at=1&atTime=1", None, 400, "bad_request"),
        ("GET", "?path=~2", None, 422, "invalid_patch"),
        ("GET", "/changes?limit=0", None, 400, "bad_request"),
    ],
)
async def test_what_cannot_be_done_is_said(
    hub: RunningHub, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    reply = await service_of(hub)(method, DOCUMENT + path, data=body)
    assert (reply.status, reply.code) == (status, code)
    news = DOCUMENT.replace("doc:a", "news")
    assert (await service_of(hub)("GET", news)).code == "wrong_channel_kind"


@pytest.mark.spec("ADMIN-03")
async def test_documents_of_other_tenants_are_out_of_reach(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    await service_of(hub)("PUT", DOCUMENT, {"secret": 1})
    for caller in (service_of(hub, "other"), client_of(hub), Caller(hub, None)):
        for method, path in (("GET", DOCUMENT), ("DELETE", DOCUMENT), ("GET", f"{HUB}/documents")):
            assert (await caller(method, path)).status in (401, 403)
    listed = await service_of(hub, "other")("GET", "/v1/admin/hubs/other/documents")
    assert listed.json["items"] == []
    assert (await service_of(hub)("GET", DOCUMENT)).json["document"] == {"secret": 1}


@pytest.mark.spec("ADMIN-03")
async def test_the_audit_log_says_who_changed_a_document(hub: RunningHub) -> None:
    service = service_of(hub)
    await service("PUT", DOCUMENT, {"a": 1})
    await service("PATCH", DOCUMENT, [])  # changes nothing
    await service("PATCH", DOCUMENT, [{"op": "add", "path": "/b", "value": 2}])
    await service("POST", f"{DOCUMENT}/restore", {"version": 1})
    await service("DELETE", DOCUMENT)
    entries = (await admin_of(hub)("GET", f"{HUB}/audit")).json["items"]
    noted = [(each["action"], each["name"], each["actor"]) for each in reversed(entries)]
    kinds = ("replace", "patch", "restore", "delete")
    assert noted == [(f"document.{kind}", "doc:a", "backend") for kind in kinds]
    assert entries[1]["after"]["version"] == 3


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[tuple[Client, dict[str, object]]]:
    async with nats_server(tmp_path, jetstream=True) as server:
        client = await nats.connect(server.url, user=USER, password=server.password)
        yield (
            client,
            {
                "broker__host": server.url,
                "broker__user": USER,
                "broker__password": server.password,
            },
        )
        await client.close()


@pytest.mark.spec("ADMIN-02")
async def test_documents_over_nats(
    start_hub: StartHub, bus: tuple[Client, dict[str, object]]
) -> None:
    client, broker = bus
    hub = await start_hub(open_hub(), **broker)
    token = hub.token("backend", level=Level.SERVICE)

    async def ask(operation: str, body: Any = msgspec.UNSET, **query: str) -> tuple[bool, Any]:
        path = {"hub": "acme"} | ({} if operation == "listDocuments" else {"channel": "doc:a"})
        request = pb.AdminRequest(token=token, path=path, query=query)
        if body is not msgspec.UNSET:
            json_format.ParseDict(body, request.body)
        answer = await client.request(
            f"hubbub.admin.{operation}", request.SerializeToString(), timeout=5
        )
        reply = pb.AdminReply.FromString(answer.data)
        return reply.ack, json_format.MessageToDict(reply.body) if reply.ack else reply.error.code

    ack, changed = await ask("replaceDocument", {"n": [1, None, 2.5, {"$bytes": "aGk="}]})
    assert (ack, changed["version"]) == (True, 1)
    assert (await ask("patchDocument", [{"op": "add", "path": "/n/-", "value": 7}]))[0]
    assert (await ask("patchDocument", [{"op": "remove", "path": "/x"}])) == (False, "patch_failed")
    assert (await ask("getDocument", path="/n/3"))[1]["document"] == {"$bytes": "aGk="}
    assert (await ask("listDocuments"))[1]["items"][0]["changesKept"] == 2
    assert len((await ask("listDocumentChanges"))[1]["changes"]) == 2
    assert (await ask("restoreDocument", {"version": 1}))[1]["version"] == 3
    assert (await ask("getDocument"))[1]["document"]["n"] == [1, None, 2.5, {"$bytes": "aGk="}]
    assert (await ask("deleteDocument"))[0]
    assert (await ask("getDocument")) == (False, "not_found")


async def test_history_and_restoring_on_the_command_line(hub: RunningHub) -> None:
    address = ("--url", f"http://{hub.address}", "--hub", "acme")
    token = ("--token", hub.token("ops", level=Level.SERVICE))

    async def say(*arguments: str, code: int = 0) -> str:
        ended = await invoke("document", *arguments, *address, *token)
        assert ended.code == code, ended
        return ended.out if code == 0 else ended.err

    await say("patch", "doc:a", '[{"op":"add","path":"/items/-","value":"milk"}]')
    await say("patch", "doc:a", '[{"op":"remove","path":"/items/0"}]')
    lines = (await say("history", "doc:a")).splitlines()
    assert lines[0].split() == ["VERSION", "TIME", "AUTHOR", "OPERATIONS"]
    assert lines[1].startswith("      1")
    assert lines[1].endswith('[{"op":"add","path":"/items","value":["milk"]}]')
    assert [line.split()[0] for line in lines[1:]] == ["1", "2"]
    newest = (await say("history", "doc:a", "--limit", "1", "--json")).splitlines()
    assert [json.loads(line)["version"] for line in newest] == [2]
    older = (await say("history", "doc:a", "--before", "2", "--json")).splitlines()
    assert [json.loads(line)["version"] for line in older] == [1]
    assert (await say("restore", "doc:a", "1")).strip() == "3"
    assert json.loads(await say("get", "doc:a")) == {"items": ["milk"]}
    assert "history_gone" in await say("restore", "doc:a", "9", code=1)
    listed = (await say("list")).splitlines()
    assert listed[1].split()[:2] == ["doc:a", "3"]
    assert "--yes" in await say("delete", "doc:a", code=2)
    await say("delete", "doc:a", "--yes")
    assert "no documents" in (await invoke("document", "list", *address, *token)).err

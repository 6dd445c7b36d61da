"""The OpenAPI document: complete, of use to generators, and true when tested from outside."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.message import Message as Proto

from harness.admin import Caller, admin_of
from harness.running_hub import RunningHub
from hubbub.domain import notices, requests
from hubbub.domain.topics import SubscriptionOptions
from hubbub.gateways import public_shapes
from hubbub.gateways.admin.shapes import ErrorInfo
from hubbub.gateways.admin.table import ROUTES
from hubbub.gateways.routes import Access
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.json.payloads import EncodedPayload
from hubbub.protocols.json.structs import json_type
from hubbub.protocols.mapping import descriptor

ROOT = Path(__file__).parents[2]

# It would revoke the very token that the test uses; a stream has no end, and a trace listens for
# as long as it is told to.
EXCLUDED = ("revokeEverywhere", "followEvents", "trace")


async def document_of(hub: RunningHub) -> dict[str, Any]:
    reply = await Caller(hub, None)("GET", "/openapi.json")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    document: dict[str, Any] = reply.json
    return document


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for each in value.values() for ref in references(each)]
    if isinstance(value, list):
        return [ref for each in value for ref in references(each)]
    return []


@pytest.mark.spec("ADMIN-01")
async def test_the_document_describes_every_route_in_full(hub: RunningHub) -> None:
    document = await document_of(hub)
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]
    assert {ref.rpartition("/")[2] for ref in references(document)} <= set(schemas)
    assert all(name.isidentifier() for name in schemas)
    described = {
        (method.upper(), path): operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert set(described) == {(route.method, route.path) for route in ROUTES}
    for route in ROUTES:
        operation = described[route.method, route.path]
        assert operation["operationId"] == route.operation_id
        named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert named == set(route.parameters)
        assert ("requestBody" in operation) == (route.body is not None)
        assert (operation["security"] == []) == (route.access is Access.ANYONE)
        assert operation["x-access"] == route.access.value
        assert {"400", "default"} <= set(operation["responses"])
        assert all(each["description"] for each in operation["parameters"]), route.operation_id
    assert [name for name, schema in schemas.items() if not schema["description"]] == []


@pytest.mark.parametrize(
    ("described", "struct", "message", "left_out"),
    [
        (public_shapes.Producer, requests.Producer, pb.ProducerInfo, ""),
        (public_shapes.PublishResult, notices.PublishResult, pb.Response, "reqID"),
        (public_shapes.PublishRequest, requests.PublishItem, pb.PubRequestInfo, "reqID"),
        (public_shapes.PublishedMessage, notices.MessageDelivery, pb.ChannelPublish, ""),
        (public_shapes.HistoryPage, notices.HistoryPage, pb.HistoryResponse, "reqID error"),
        (public_shapes.PresenceMember, notices.Member, pb.PresenceMember, ""),
        (public_shapes.PresenceList, notices.Presence, pb.PresenceNotice, "reqID error"),
        (public_shapes.TopicState, notices.TopicSubscribed, pb.TopicState, "reqID answer"),
        (public_shapes.TopicSubscribed, notices.TopicSubscribed, pb.TopicState, "reqID"),
        (public_shapes.TopicOptions, SubscriptionOptions, pb.TopicOptions, ""),
        (public_shapes.TopicArticles, notices.TopicArticles, pb.TopicArticles, ""),
    ],
)
def test_what_is_described_is_what_is_spoken(
    described: type[msgspec.Struct],
    struct: type[msgspec.Struct],
    message: type[Proto],
    left_out: str,
) -> None:
    spoken = names(json_type((struct,), descriptor(message)))
    assert names(described) == spoken - set(left_out.split())


def test_payloads_are_described_as_they_are_spoken() -> None:
    assert names(public_shapes.Payload) == names(EncodedPayload)


def names(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_all_details_of_errors_are_described() -> None:
    """Those that the hub sets somewhere."""
    sources = [file.read_text() for file in (ROOT / "src" / "hubbub").rglob("*.py")]
    found = {name for text in sources for name in re.findall(r"""details\["(\w+)"\]""", text)}
    found |= {
        name
        for text in sources
        for each in re.findall(r"details \|= \{([^}]*)\}", text)
        for name in re.findall(r'"(\w+)":', each)
    }
    assert {"at", "opIndex", "version"} <= found <= set(ErrorInfo.__struct_encode_fields__)


async def schemathesis(hub: RunningHub, folder: Path, *options: str) -> str:
    """Runs the tool against the hub, as anyone could; answers what it says."""
    excluded = [word for each in EXCLUDED for word in ("--exclude-operation-id", each)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(Path(__file__).with_name("schemathesis.toml")),
        "run",
        f"http://{hub.address}/openapi.json",
        "--header",
        f"Authorization: Bearer {admin_of(hub).token}",
        "--no-color",
        "--warnings=off",
        *excluded,
        *options,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},  # schemathesis_hooks.py
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


@pytest.mark.spec("ADMIN-01", "OPS-03")
@pytest.mark.timeout(300)
async def test_schemathesis_finds_nothing(hub: RunningHub, tmp_path: Path) -> None:
    said = await schemathesis(hub, tmp_path, "--generation-deterministic", "--max-examples=2")
    assert "No issues found" in said


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_schemathesis_finds_nothing_in_a_long_campaign(
    hub: RunningHub, tmp_path: Path
) -> None:
    said = await schemathesis(
        hub, tmp_path, "--max-examples=50", "--generation-database=none", "--workers=2"
    )
    assert "No issues found" in said

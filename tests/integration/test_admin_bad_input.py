"""Every admin route with input that is missing, extra, of the wrong type, too large or broken."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import msgspec
import pytest

from harness.admin import HUB, Caller, admin_of
from harness.admin_routes import BODIES, address
from harness.running_hub import RunningHub, StartHub
from hubbub.gateways.admin.table import ROUTES
from hubbub.gateways.routes import Access, AnyRoute

EVERY = [route for route in ROUTES if route.handler is not None]
SERVED = [route for route in EVERY if route.access is not Access.HUB]
STRICT = [route for route in EVERY if route.access is Access.HUB and not route.any_query]
WITH_BODY = [route for route in SERVED if route.body is not None]
ANY_BODY = (
    *("replaceDocument", "patchDocument"),  # see test_admin_documents.py
    "exchangeCredentials",  # the auth provider gets them as they are
)
WITH_OBJECT = [route for route in WITH_BODY if route.operation_id not in ANY_BODY]
READ_BY_TYPE = [
    route
    for route in WITH_BODY
    if isinstance(route.body, type)
    and issubclass(route.body, msgspec.Struct)
    and not route.reads_itself
]


def named(route: AnyRoute) -> str:
    return route.operation_id


@pytest.fixture(scope="module")
def admin(shared_hub: RunningHub) -> Caller:
    """For requests that are refused."""
    return admin_of(shared_hub)


def required_fields(route: AnyRoute) -> list[str]:
    return [f.encode_name for f in msgspec.structs.fields(route.body) if f.required]


@pytest.mark.spec("OPS-03", "ADMIN-01")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", READ_BY_TYPE, ids=named)
async def test_bodies_are_refused_with_the_field_named(admin: Caller, route: AnyRoute) -> None:
    good = BODIES[route.operation_id]
    for field in required_fields(route):
        body = {key: value for key, value in good.items() if key != field}
        reply = await admin(route.method, address(route), body)
        assert (reply.status, reply.code) == (400, "bad_request")
        assert f"`{field}`" in reply.message
    reply = await admin(route.method, address(route), {**good, "unheardOf": 1})
    assert reply.status == 400
    assert "`unheardOf`" in reply.message
    mappings = ("metadata", "extra", "headers", "settings", "quotas", "data")
    for each in msgspec.structs.fields(route.body):
        wrong = "text" if each.encode_name in mappings else {"deep": [[]]}
        reply = await admin(route.method, address(route), {**good, each.encode_name: wrong})
        assert reply.status == 400, (each.name, reply.text)
        assert f"$.{each.encode_name}" in reply.message


@pytest.mark.spec("OPS-03")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", WITH_OBJECT, ids=named)
@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"7", b"{", b"\xff", b'{"a":', b"[" * 5000, b'{"\\ud800": 1}'],
    ids=["empty", "null", "list", "number", "cut", "not utf-8", "half", "deep", "surrogate"],
)
async def test_bodies_that_are_not_an_object_are_refused(
    admin: Caller, route: AnyRoute, data: bytes
) -> None:
    reply = await admin(route.method, address(route), data=data)
    assert reply.status == 400, reply.text
    assert reply.code in ("bad_request", "malformed")


@pytest.mark.spec("OPS-03")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", SERVED, ids=named)
async def test_oversized_bodies_and_unasked_ones_are_refused(
    admin: Caller, route: AnyRoute
) -> None:
    size = min(route.max_body_bytes, 1024 * 1024) + 1
    reply = await admin(route.method, address(route), data=io.BytesIO(b" " * size))
    assert (reply.status, reply.code) == (413, "too_large")
    if route.body is None:
        reply = await admin(route.method, address(route), data=b"{}")
        assert reply.status == 400


@pytest.mark.spec("OPS-03")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", SERVED, ids=named)
async def test_unknown_repeated_and_wrong_parameters_are_refused_by_name(
    admin: Caller, route: AnyRoute
) -> None:
    body = BODIES.get(route.operation_id)
    for query, word in (("?unheardOf=1", "unheardOf"), ("?a=1&a=2", "a")):
        reply = await admin(route.method, address(route) + query, body)
        assert reply.status == 400, reply.text
        assert f"`{word}`" in reply.message
    for field in msgspec.structs.fields(route.query):
        if field.encode_name in ("limit", "channels", "live"):
            reply = await admin(route.method, address(route) + f"?{field.encode_name}=x-1", body)
            assert reply.status == 400
            assert f"`{field.encode_name}`" in reply.message
    for limit in ("0", "1001", "-1", "1.5", "9" * 40):
        if any(field.name == "limit" for field in msgspec.structs.fields(route.query)):
            reply = await admin(route.method, address(route) + f"?limit={limit}", body)
            assert reply.status == 400


@pytest.mark.spec("OPS-03")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", STRICT, ids=named)
async def test_parameters_that_a_path_of_the_hub_does_not_know_are_refused_by_name(
    admin: Caller, route: AnyRoute
) -> None:
    body = BODIES.get(route.operation_id)
    place = address(route)
    unknown = ("&" if "?" in place else "?") + "unheardOf=1"
    reply = await admin(route.method, place + unknown, body)
    assert (reply.status, reply.code) == (400, "malformed"), reply.text
    assert "'unheardOf'" in reply.message


@pytest.mark.spec("OPS-03")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", EVERY, ids=named)
async def test_methods_that_are_not_there_are_named_with_those_that_are(
    admin: Caller, route: AnyRoute
) -> None:
    there = {other.method for other in ROUTES if other.path == route.path}
    absent = next(method for method in ("PATCH", "POST", "PUT") if method not in there)
    reply = await admin(absent, address(route))
    assert (reply.status, reply.code) == (405, "method_not_allowed")
    assert route.method in reply.headers["Allow"].split(", ")


@pytest.mark.spec("OPS-03")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["", "a%00b", "*", "%23", "x" * 256, "%ff", "%c0%af"], ids=str)
async def test_names_that_cannot_be_are_refused(admin: Caller, name: str) -> None:
    for path in ("rules/{}", "namespaces/{}", "auth-providers/{}", "channels/{}/metadata"):
        operation = {"r": "putRules", "n": "putNamespace", "a": "putAuthProvider"}.get(path[0])
        body = BODIES[operation or "putChannelMetadata"]
        reply = await admin("PUT", f"{HUB}/{path.format(name)}", body)
        assert reply.status == (404 if not name else 400), reply.text
    created: dict[str, Any] = {"hub": "a\x00b" if "00" in name else name[:300]}
    assert (await admin("POST", "/v1/admin/hubs", created)).status in (400, 201)


@pytest.mark.spec("OPS-03")
async def test_paths_that_are_not_there_say_so(hub: RunningHub) -> None:
    admin = admin_of(hub)
    for path in ("", "/", "/hubs/", "/hubs/acme/", "/hubs/acme/unknown", "/hubs/acme/rules/a/b"):
        reply = await admin("GET", f"/v1/admin{path}")
        assert (reply.status, reply.code) == (404, "not_found"), path
    assert (await admin("GET", "/v1/admin/hubs/absent/rules")).code == "hub_not_found"


@pytest.mark.spec("OPS-03")
async def test_metadata_has_limits(hub: RunningHub) -> None:
    admin = admin_of(hub)
    path = f"{HUB}/channels/c/metadata"
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": deep}
    for metadata in (deep, {"a": "x" * 70_000}):
        reply = await admin("PUT", path, {"metadata": metadata})
        assert reply.status == 400
        assert "metadata" in reply.message


@pytest.mark.spec("OPS-03")
async def test_a_client_that_hangs_up_does_not_leave_half_a_change(
    start_hub: StartHub,
) -> None:
    hub = await start_hub()
    admin = admin_of(hub)
    body = b'{"store":true}'
    for number in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", hub.server.port)
        head = (
            f"PUT {HUB}/rules/r{number} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
            f"{admin.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        writer.transport.abort()
    while hub.server.listener.http_connections:
        await asyncio.sleep(0)
    await hub.server.admin_door.settle()
    listed = await admin.all(f"{HUB}/rules", 100)
    live = hub.server.directory.get("acme").rules
    assert {entry["name"] for entry in listed} == set(live)

"""The table of errors: stable, complete, documented, and the same at every door."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.running_hub import RunningHub
from hubbub.domain import errors
from hubbub.domain.errors import HubbubError, catalogue

ROOT = Path(__file__).parents[2]
SERVER = ("cluster", "connectors", "engine", "gateways", "journal", "server", "storage")
PRIVATE = {"address", "folder", "host", "hosts", "path", "servers", "strerror", "url"}
"""Names of what only the operator may read."""

# Clients are written against these. A line may be added; none may ever change or go.
PROMISED = """
internal                500 4500 retry=0 reconnect=1
bad_request             400 4400 retry=0 reconnect=0
malformed               400 4401 retry=0 reconnect=0
unknown_event           400 4400 retry=0 reconnect=0
invalid_name            400 4400 retry=0 reconnect=0
invalid_payload         422 4400 retry=0 reconnect=0
too_large               413 4413 retry=0 reconnect=0
head_too_large          431 4413 retry=0 reconnect=0
method_not_allowed      405 4400 retry=0 reconnect=0
upgrade_required        426 4400 retry=0 reconnect=0
wrong_channel_kind      409 4400 retry=0 reconnect=0
denied                  403 4403 retry=0 reconnect=0
not_authenticated       401 4410 retry=0 reconnect=0
invalid_token           401 4411 retry=0 reconnect=0
not_permitted           403 4403 retry=0 reconnect=0
origin_refused          403 4412 retry=0 reconnect=0
not_found               404 4404 retry=0 reconnect=0
hub_not_found           404 4404 retry=0 reconnect=0
conflict                409 4409 retry=0 reconnect=0
version_mismatch        412 4409 retry=0 reconnect=0
session_replaced        409 4415 retry=0 reconnect=0
restore_failed          409 4409 retry=0 reconnect=0
limited                 429 4429 retry=1 reconnect=1
rate_limited            429 4429 retry=1 reconnect=1
quota_exceeded          429 4430 retry=1 reconnect=1
too_many_channels       429 4429 retry=0 reconnect=1
slow_consumer           429 4431 retry=1 reconnect=1
overloaded              503 4432 retry=1 reconnect=1
timeout                 504 4408 retry=1 reconnect=1
heartbeat_timeout       504 4406 retry=1 reconnect=1
authentication_timeout  408 4407 retry=1 reconnect=0
request_timeout         408 4408 retry=1 reconnect=1
unavailable             503 4503 retry=1 reconnect=1
auth_provider_failed    502 4502 retry=1 reconnect=1
store_unavailable       503 4503 retry=1 reconnect=1
stale_owner             503 4503 retry=1 reconnect=1
going_away              503 4504 retry=1 reconnect=1
"""


def row_of(kind: type[HubbubError]) -> tuple[str, ...]:
    return (
        kind.code,
        str(kind.http_status),
        str(kind.close_code),
        f"retry={kind.retry:d}",
        f"reconnect={kind.reconnect:d}",
    )


@pytest.mark.spec("LIVE-17")
def test_no_promised_code_has_changed_or_gone() -> None:
    actual = {row_of(kind) for kind in catalogue().values()}
    promised = {tuple(line.split()) for line in PROMISED.strip().splitlines()}
    assert promised - actual == set()


@pytest.mark.spec("LIVE-17")
def test_every_class_has_a_code_of_its_own_and_a_line_in_the_tree() -> None:
    kinds = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, HubbubError)
    }
    assert len(catalogue()) == len(kinds) - 1  # the base shares `internal`
    for kind in kinds:
        assert re.search(rf"\b{kind.__name__}\b", errors.__doc__ or ""), kind
        assert re.fullmatch(r"[a-z_]+", kind.code)
        assert 400 <= kind.http_status < 600
        assert 4000 <= kind.close_code < 5000  # the range of RFC 6455 for applications


@pytest.mark.spec("LIVE-17")
def test_a_close_code_alone_tells_whether_to_reconnect() -> None:
    """Browsers show little more than the code."""
    advice: dict[int, bool] = {}
    for kind in catalogue().values():
        assert advice.setdefault(kind.close_code, kind.reconnect) == kind.reconnect, kind.code


@pytest.mark.spec("LIVE-17")
def test_the_reference_is_what_the_errors_say() -> None:
    """If this fails: python scripts/generate_error_reference.py"""
    script = runpy.run_path(str(ROOT / "scripts" / "generate_error_reference.py"))
    page = (ROOT / "docs" / "errors.md").read_text()
    assert page == script["render"]()
    assert all(f"| `{code}` |" in page for code in catalogue())


def _told_to_clients(call: ast.Call) -> list[ast.expr]:
    """The first argument: the second one is the detail, which stays in the log."""
    return call.args[:1] + [each.value for each in call.keywords if each.arg == "message"]


def _secrets(told: ast.expr, caught: set[str]) -> Iterator[str]:
    for node in ast.walk(told):
        if isinstance(node, ast.FormattedValue):
            value: ast.AST | None = node.value
            while isinstance(value, ast.Attribute | ast.Call | ast.Subscript):
                if isinstance(value, ast.Attribute) and value.attr in PRIVATE:
                    yield value.attr
                if isinstance(value, ast.Attribute) and value.attr in ("message", "word"):
                    break  # of another error of the hub: fit for clients itself
                value = getattr(value, "value", None) or getattr(value, "func", None)
            if isinstance(value, ast.Name) and value.id in caught | PRIVATE:
                yield value.id


def _leaks(source: str, kinds: set[str]) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    caught = {each.name for each in handlers if each.name is not None}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in kinds:
            for told in _told_to_clients(node):
                yield from ((node.lineno, name) for name in _secrets(told, caught))


@pytest.mark.spec("LIVE-17")
def test_no_error_about_the_hubs_own_parts_tells_clients_a_path_an_address_or_an_exception() -> (
    None
):
    """The operator reads it in the log, from the detail."""
    tree = [*catalogue().values()]
    own = (errors.Unavailable, errors.Timeout, errors.Internal)
    kinds = {kind.__name__ for kind in tree if issubclass(kind, own)}
    assert {"StoreUnavailable", "ServiceTimeout", "Internal"} < kinds
    control = "try: ...\nexcept OSError as error: raise StoreUnavailable(f'{path}: {error}')"
    assert list(_leaks(control, kinds)) == [(2, "path"), (2, "error")]
    found = [
        f"{file.relative_to(ROOT)}:{line} {name}"
        for folder in SERVER
        for file in sorted((ROOT / "src" / "hubbub" / folder).rglob("*.py"))
        for line, name in _leaks(file.read_text(), kinds)
    ]
    assert found == []


def test_a_detail_is_what_logs_write_and_never_what_doors_send() -> None:
    for kind in catalogue().values():
        error = kind("told").with_detail("/var/lib/hubbub is full")
        assert (error.message, str(error)) == ("told", "/var/lib/hubbub is full")
    assert str(errors.Internal("told")) == "told"


@pytest.mark.spec("LIVE-17")
async def test_the_same_fault_has_the_same_code_at_every_door(hub: RunningHub) -> None:
    socket = await hub.socket()
    over_socket = (await socket.publish("a\t", {"json": 1}))["error"]
    async with hub.http.post("/v1/hubs/acme/channels/a%09/messages", data="x") as answer:
        assert answer.status == 400
        over_http = (await answer.json())["error"]
    batch = {"publishes": [{"channel": "a\t", "payload": {"json": 1}}]}
    async with hub.http.post("/v1/hubs/acme/messages", json=batch) as answer:
        in_batch = (await answer.json())["published"][0]["error"]
    async with hub.http.get("/v1/hubs/acme/events?channel=a%09") as answer:
        over_stream = (await answer.json())["error"]
    assert over_socket == over_http == in_batch
    assert over_stream["code"] == over_http["code"] == "invalid_name"

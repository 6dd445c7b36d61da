"""The table of errors: stable, complete, documented, and the same at every door."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from harness.running_hub import RunningHub
from hubbub.domain import errors
from hubbub.domain.errors import HubbubError, catalogue

ROOT = Path(__file__).parents[2]

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

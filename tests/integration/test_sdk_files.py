"""The hub serves the SDK: `/sdk/hubbub.js`, compressed, cached, and for pages of every origin."""

from __future__ import annotations

import base64
import gzip
import hashlib

import pytest

from harness.raw import RawConnection
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.gateways.static import accepted_codings, static_file
from hubbub.server.web_files import built_file, manifest_of

VERSION = manifest_of("sdk").version
BODY, BROTLI, _ = built_file("sdk", "hubbub.js")


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(open_hub())


async def get(
    hub: RunningHub, path: str, *headers: str, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    async with await RawConnection.open(hub.address) as client:
        client.request(f"{method} {path}", *headers)
        answer = await client.response(method == "HEAD")
        return answer.status, answer.headers, answer.body


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("br;q=0.000, gzip;q=0.0", None),
        ("", None),
    ],
)
async def test_a_browser_gets_the_smallest_encoding_that_it_takes(
    hub: RunningHub, accepted: str, coding: str | None
) -> None:
    status, headers, body = await get(hub, "/sdk/hubbub.js", f"Accept-Encoding: {accepted}")
    assert (status, headers.get("content-encoding")) == (200, coding)
    assert headers["content-type"] == "text/javascript; charset=utf-8"
    assert headers["vary"] == "accept-encoding"
    expected = {"br": BROTLI, None: BODY}.get(coding)
    assert body == expected if expected is not None else gzip.decompress(body) == BODY


@pytest.mark.spec("UI-02")
async def test_a_page_of_any_origin_may_load_it_and_nothing_else(hub: RunningHub) -> None:
    foreign = "Origin: https://elsewhere.example"
    status, headers, _ = await get(hub, "/sdk/hubbub.js", foreign)
    assert (status, headers["access-control-allow-origin"]) == (200, "*")
    assert (await get(hub, "/healthz", foreign))[0] == 403


@pytest.mark.spec("UI-02")
async def test_a_version_never_changes_and_the_newest_is_asked_for_again(hub: RunningHub) -> None:
    _, newest, _ = await get(hub, "/sdk/hubbub.js")
    assert newest["cache-control"] == "no-cache"
    status, _, body = await get(hub, "/sdk/hubbub.js", f'If-None-Match: W/{newest["etag"]}, "x"')
    assert (status, body) == (304, b"")
    assert (await get(hub, "/sdk/hubbub.js", 'If-None-Match: "other"'))[0] == 200
    _, fixed, body = await get(hub, f"/sdk/{VERSION}/hubbub.js")
    assert "immutable" in fixed["cache-control"]
    digest = base64.b64encode(hashlib.sha384(body).digest()).decode()
    assert manifest_of("sdk").files["hubbub.js"].integrity == f"sha384-{digest}"


@pytest.mark.spec("UI-02")
async def test_there_is_nothing_else_and_no_other_method(hub: RunningHub) -> None:
    assert (await get(hub, "/sdk/../sdk/hubbub.js"))[0] == 404
    assert (await get(hub, "/sdk/manifest.json"))[0] == 404
    assert (await get(hub, "/sdk/9.9.9/hubbub.js"))[0] == 404
    status, headers, _ = await get(hub, "/sdk/hubbub.js", method="DELETE")
    assert (status, headers["allow"]) == (405, "get, head")
    status, headers, body = await get(hub, "/sdk/hubbub.js", method="HEAD")
    assert (status, headers["content-length"], body) == (200, str(len(BODY)), b"")


def test_codings_that_are_refused_are_not_accepted() -> None:
    assert accepted_codings("GZIP;q=1, br ; q=0, *;q=0.1, ") == {"gzip", "*"}


def test_a_file_that_compression_makes_larger_is_sent_as_it_is() -> None:
    assert [each.coding for each in static_file(b"x", "text/plain").variants] == [""]

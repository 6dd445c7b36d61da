"""Signed events, as Slack sends them, become messages; what is not signed does not."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from slack_sdk.signature import SignatureVerifier

from harness.admin import HUB, Caller, service_of
from harness.clock import FakeClock
from harness.running_hub import StartHub
from hubbub.domain.rules import HubConfiguration, HubSettings

PATH = "/v1/hubs/acme/comm/input/slack"


@pytest.mark.spec("COMM-02", "COMM-07")
async def test_events_with_a_signature_come_in_without_a_token(start_server: StartHub) -> None:
    hub = await start_server(HubConfiguration("acme", HubSettings()))
    service = service_of(hub)
    body = {"kind": "slack-in", "secrets": {"signingSecret": "s3cret"}}
    assert (await service("PUT", f"{HUB}/adapters/slack", body)).status < 300

    async def post(event: Mapping[str, object], secret: str = "s3cret") -> tuple[int, str]:
        sent = json.dumps(event)
        now = str(int(hub.server.node.clock.now()))
        signature = SignatureVerifier(secret).generate_signature(timestamp=now, body=sent)
        headers = {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": str(signature)}
        async with hub.http.post(PATH, data=sent, headers=headers) as answer:
            return answer.status, await answer.text()

    asked = {"type": "url_verification", "challenge": "abc"}
    assert await post(asked) == (200, "abc")
    assert (await post(asked, "wrong"))[0] == 403
    said = {"type": "message", "channel": "C1", "user": "U1", "text": "on it", "ts": "17.5"}
    for _ in range(2):  # Slack repeats what was not answered in time
        assert (await post({"type": "event_callback", "event": said}))[0] == 200
    found = (await service("GET", f"{HUB}/messages?type=CHAT")).json["items"]
    assert [each["message"]["id"] for each in found] == ["slack:C1:17.5"]
    assert found[0]["message"]["content"] == "on it"


@pytest.mark.spec("SEC-01")
async def test_strangers_send_events_at_the_pace_of_strangers(start_server: StartHub) -> None:
    hub = await start_server(
        HubConfiguration("acme", HubSettings()), clock=FakeClock(), limits__anonymousPerSecond=2
    )
    body = {"kind": "slack-in", "secrets": {"signingSecret": "s3cret"}}
    assert (await service_of(hub)("PUT", f"{HUB}/adapters/slack", body)).status < 300
    stranger = Caller(hub, None)
    answers = [await stranger("POST", PATH, {"type": "event_callback"}) for _ in range(5)]
    assert [each.status for each in answers] == [403] * 4 + [429]

"""A peer is reached on the browsers that its user registered, through the hub's own pushes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import hubbub.connectors.adapters.included  # noqa: F401  declares them
from harness.adapters import adapter_context, delivery, make_adapter
from harness.admin import client_of
from harness.push_services import BrowserService, push_hub
from harness.running_hub import StartHub
from hubbub.engine.push.devices import PushDevices
from hubbub.engine.push.reaching import DevicesOfHub
from hubbub.ports.adapters import AdapterFailed, TemporaryFailure


@pytest.mark.spec("COMM-03")
async def test_a_message_is_read_in_the_browser_and_dead_browsers_are_told_apart(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(push_hub())
    server = hub.server
    async with BrowserService() as service, adapter_context() as context:
        browser = service.browser()
        body = {"platform": "webpush", "token": browser.subscription}
        answer = await client_of(hub, "ann")("PUT", "/v1/hubs/acme/push-tokens", body)
        assert answer.status == 200
        devices = DevicesOfHub("acme", server.node.feature(PushDevices), server.push)
        out: Any = make_adapter("push", {}, dataclasses.replace(context, devices=devices))

        await out.push(delivery(conversation_id="build 7"))
        shown = browser.read(service.messages[0])
        assert (shown["title"], shown["body"], shown["msgID"]) == ("build 7", "it is red", "m-1")
        assert shown["data"]["type"] == "BUILD"
        await out.push(delivery(conversation_id="build 7"))
        first, again = (each.headers["topic"] for each in service.messages)
        assert first == again  # the push service replaces the first by its repetition

        service.answers["/ann"] = 503
        with pytest.raises(TemporaryFailure):
            await out.push(delivery())
        service.answers["/ann"] = 410
        for _ in range(2):  # the first finds out, the second finds no device any more
            with pytest.raises(AdapterFailed):
                await out.push(delivery())

"""Matrix both ways, with a real homeserver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hubbub.connectors.adapters.included  # noqa: F401  declares them
from harness.adapters import adapter_context, delivery, make_adapter
from harness.synapse import homeserver
from hubbub.ports.adapters import AdapterFailed, Pulled, TemporaryFailure


async def pull_all(incoming: Any) -> list[Pulled]:
    found = []
    while (pulled := await incoming.pull()) is not None:
        await incoming.settle(pulled.receipt)
        found.append(pulled)
    return found


@pytest.mark.long
@pytest.mark.spec("COMM-02", "COMM-03")
@pytest.mark.timeout(180)
async def test_a_person_gets_a_message_in_a_room_and_answers_it(tmp_path: Path) -> None:
    async with homeserver(tmp_path) as server, adapter_context() as context:
        hub, ann = await server.register("hub"), await server.register("ann")
        asked = {"invite": [hub.user], "room_alias_name": "alerts", "preset": "private_chat"}
        room = (await ann.ask("POST", "/createRoom", **asked))["room_id"]
        access = {"homeserver": server.url, "accessToken": hub.token}
        out: Any = make_adapter("matrix", access, context)
        incoming: Any = make_adapter("matrix-in", {**access, "acceptInvitations": True}, context)

        with pytest.raises(AdapterFailed, match="M_FORBIDDEN"):
            await out.push(delivery(room, key="key-0"))
        assert await pull_all(incoming) == []  # joins the room

        for _ in range(2):  # the second is a repetition
            await out.push(delivery(room, conversation_id="build 7"))
        await out.push(delivery("#alerts:hub.test", key="key-2", id="m-2", content="green again"))
        texts = [each["content"]["body"] for each in await ann.messages(room)]
        assert texts == ["green again", "it is red"]

        first = (await ann.messages(room))[1]["event_id"]
        await ann.write(room, "I am on it", answers=first)
        (answer,) = await pull_all(incoming)
        assert answer.message.content == "I am on it"
        assert answer.message.refers_to == "m-1"
        assert answer.message.conversation_id == "build 7"
        assert answer.message.headers["from"] == ann.user

        await ann.write(room, "done", key="2")
        again: Any = make_adapter("matrix-in", access, context)  # after a restart
        found: list[Pulled] = []
        while not found:  # homeservers remember their answer to a position for a while
            found = await pull_all(again)
        assert [each.message.content for each in found] == ["done"]

        wrong: Any = make_adapter("matrix", {**access, "accessToken": "wrong-one"}, context)
        with pytest.raises(TemporaryFailure, match="M_UNKNOWN_TOKEN"):
            await wrong.push(delivery(room))

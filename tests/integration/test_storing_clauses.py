"""Sentences of Hubiquitus' contract on storing: collections, validators and savers of commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from harness.commands import Stage, User
from harness.hubiquitus import HClient
from harness.running_hub import StartHub
from harness.topics import STORED
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.domain.messages import Message
from hubbub.ports.plugins import CallContext

pytestmark = pytest.mark.spec("CMD-05")

OK, TECHNICAL, NOT_AUTHORIZED, INVALID = 0, 1, 5, 7
Document = dict[str, Any]


@pytest.fixture
async def stage(start_server: StartHub) -> AsyncIterator[Stage]:
    """On a server of the test's own, to which tests add validators and savers."""
    stage = await Stage.open(start_server)
    yield stage
    await stage.close()


class Witness:
    """A validator or saver that remembers what it was shown, and says or raises something."""

    def __init__(self, said: object = None) -> None:
        self.said = said
        self.seen: list[tuple[str, Document]] = []

    @property
    def collections(self) -> list[str]:
        return [collection for collection, _ in self.seen]

    async def __call__(self, document: Document, context: CallContext) -> object:
        self.seen.append((context.collection, document))
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


async def kept(stage: Stage, collection: str) -> list[Message]:
    return list((await stage.hub.server.store.read_after("demo", collection, 0, 10)).messages)


@pytest.mark.spec("CMD-07")
async def test_history_returns_what_was_delivered_live_and_only_what_is_stored(
    stage: Stage, ann: User
) -> None:
    await ann.create("news", "ann", "bob", headers={"h": 1})
    bob = await HClient.connected(stage.hub, "bob")
    await bob.ask("hSubscribe", {"chid": "#news@demo"})
    live: list[Document] = []
    for more in ({"transient": False}, {}, {"transient": True}, {"transient": False}):
        status, sent = await ann.publish("news", len(live), type="t", location={}, **more)
        delivered = await bob.next("hMessage")
        expected = {name: value for name, value in sent.items() if value is not True}
        assert (status, delivered) == (OK, expected), "transient: true is what absent means"
        live.append(delivered)
    _, found = await ann.ask("hGetLastMessages", {"chid": "news"})
    assert found == [live[3], live[0]]


@pytest.mark.spec("CMD-07")
async def test_the_rule_stores_what_does_not_say_that_it_is_transient(
    stage: Stage, ann: User
) -> None:
    rules = msgspec.structs.replace(STORED, store_by_default=True)
    await stage.hub.server.directory.put("demo", "rules", "closed", rules)
    await ann.create("news", "ann", "bob")
    bob = await HClient.connected(stage.hub, "bob")
    await bob.ask("hSubscribe", {"chid": "#news@demo"})
    await ann.publish("news", 1)
    live = await bob.next("hMessage")
    _, found = await ann.ask("hGetLastMessages", {"chid": "news"})
    assert found == [live]


@pytest.mark.spec("CMD-07")
async def test_empty_and_default_attributes_are_not_stored(stage: Stage, ann: User) -> None:
    await ann.create("news", "ann")
    empty = {"priority": 1, "type": "", "author": "", "location": {}, "headers": {}}
    _, sent = await ann.publish("news", 1, transient=False, relevance=None, **empty)
    assert not {"type", "author", "location", "headers", "relevance"} & sent.keys()
    (message,) = await kept(stage, "news")
    assert message.attributes is not None
    stored = msgspec.to_builtins(message.attributes)
    held = {name for name, value in stored.items() if value not in (None, "", {}, [])}
    assert held <= {"conversation_id", "structured"}
    assert message.attributes.structured is not None
    assert set(message.attributes.structured) == {"published"}
    await ann.ask("hEcho", "", transient=False)
    (command,) = await kept(stage, "hCommands")
    assert msgspec.json.decode(command.payload).keys() == {
        "sender", "entity", "cmd", "params", "sent",
    }  # fmt: skip


@pytest.mark.parametrize("collection", ["hDirectMessages", "hMessages"])
async def test_a_stored_message_to_a_user_has_validators_and_savers(
    stage: Stage, ann: User, collection: str
) -> None:
    validator, saver = Witness((NOT_AUTHORIZED, "not to bob")), Witness()
    stage.hub.server.add_validator(collection, validator)
    stage.hub.server.add_saver(collection, saver)
    bob = await HClient.connected(stage.hub, "bob")
    refused = await ann.publish("bob@demo", "first", transient=False)
    assert refused == (NOT_AUTHORIZED, "not to bob")
    assert (saver.seen, await kept(stage, "hDirectMessages")) == ([], [])
    assert (await ann.publish("bob@demo", "transient"))[0] == OK, "what is not stored is not judged"
    assert (await bob.next("hMessage"))["payload"] == "transient", "what was refused never came"
    validator.said = None
    _, sent = await ann.publish("bob@demo", "second", transient=False)
    assert await bob.next("hMessage") == sent
    assert saver.seen == [("hDirectMessages", sent)]


@pytest.mark.parametrize("collection", ["hCommands", "hResults"])
@pytest.mark.parametrize("said", ["no", ValueError("broken")])
async def test_a_refusal_of_commands_and_results_only_keeps_them_from_being_stored(
    stage: Stage, ann: User, collection: str, said: object
) -> None:
    validator, saver = Witness(said), Witness()
    stage.hub.server.add_validator(collection, validator)
    stage.hub.server.add_saver(collection, saver)
    assert await ann.ask("hEcho", 1, transient=False) == (OK, 1)
    assert validator.collections == [collection]
    assert (saver.seen, await kept(stage, collection)) == ([], [])
    (other,) = {"hCommands", "hResults"} - {collection}
    assert len(await kept(stage, other)) == 1
    assert await ann.ask("hEcho", 1) == (OK, 1)
    assert len(validator.seen) == 1, "what is not stored is not judged"


REFUSALS = [
    ("no", (INVALID, "no")),
    ((6, "a is missing"), (6, "a is missing")),
    (False, (INVALID, "a validator refuses the document")),
    (CommandRefused(Status.NOT_AVAILABLE, "gone"), (9, "gone")),
    (ValueError("broken"), (TECHNICAL, "ValueError: broken")),
]


@pytest.mark.parametrize(("said", "answer"), REFUSALS)
async def test_a_refusal_becomes_the_result_and_nothing_is_stored(
    stage: Stage, ann: User, said: object, answer: tuple[int, str]
) -> None:
    bob = stage.user("bob")
    await ann.create("news", "ann", "bob")
    validators = {name: Witness(said) for name in ("hChannels", "hSubscriptions", "#news@demo")}
    every, saver = Witness(), Witness()
    for name, validator in validators.items():
        stage.hub.server.add_validator(name, validator)
        stage.hub.server.add_saver(name, saver)
    stage.hub.server.add_validator("hMessages", every)
    assert await ann.create("news", "ann") == answer
    assert await ann.create("more", "ann") == answer
    assert await bob.ask("hSubscribe", {"chid": "news"}) == answer
    assert await bob.publish("news", 1, transient=False) == answer
    assert every.collections == ["#news@demo"], "all validators run, also where one refuses"
    assert saver.seen == []
    assert await bob.ask("hGetSubscriptions") == (OK, [])
    assert await ann.ask("hGetLastMessages", {"chid": "news"}) == (OK, [])
    _, (channel,) = await ann.ask("hGetChannels")
    assert channel["participants"] == ["ann@demo", "bob@demo"], "bob was not removed"


async def test_savers_of_both_collections_run_after_the_save_and_undo_nothing(
    stage: Stage, ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    broken, well = Witness(ValueError("broken")), Witness()
    for name in ("hChannels", "hSubscriptions", "#news@demo", "hMessages", "hCommands", "hResults"):
        stage.hub.server.add_saver(name, broken)
        stage.hub.server.add_saver(name, well)
    assert await ann.create("news", "ann") == (OK, None)
    assert await ann.ask("hSubscribe", {"chid": "news"}) == (OK, None)
    assert (await ann.publish("news", 1, transient=False))[0] == OK
    assert await ann.ask("hEcho", 1, transient=False) == (OK, 1)
    once = ["hChannels", "hSubscriptions", "#news@demo", "#news@demo", "hCommands", "hResults"]
    assert (broken.collections, well.collections) == (once, once)
    assert "hub demo: a saver of #news@demo failed: ValueError: broken" in caplog.text
    assert await ann.ask("hGetSubscriptions") == (OK, ["#news@demo"])
    assert len(await kept(stage, "news")) == len(await kept(stage, "hResults")) == 1


async def test_the_result_of_a_stored_publication_waits_for_its_savers(
    stage: Stage, ann: User
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def saver(document: Document, context: CallContext) -> None:
        begun.set()
        await go_on.wait()

    stage.hub.server.add_saver("hMessages", saver)
    await ann.create("news", "ann")
    publishing = asyncio.create_task(ann.publish("news", 1, transient=False))
    await begun.wait()
    assert len(await kept(stage, "news")) == 1
    assert not publishing.done()
    go_on.set()
    assert (await publishing)[0] == OK


@pytest.mark.spec("CMD-02")
@pytest.mark.parametrize(
    "name", ["hCommands", "hResults", "hDirectMessages", "hMessages", "comm:log", "hPlugin:visits"]
)
async def test_nobody_owns_or_reads_what_the_hub_keeps_for_itself(
    stage: Stage, ann: User, name: str
) -> None:
    assert (await ann.create(name, "ann"))[0] == INVALID
    record = HChannel(name, "ann@demo", ("ann@demo",), active=True)
    await stage.hub.server.store.save_channel_record("demo", record, 10, 10)
    await stage.hub.server.directory.binding_changed("demo", name)
    for cmd in ("hSubscribe", "hGetLastMessages", "hRelevantMessages", "hGetThreads"):
        assert (await ann.ask(cmd, {"chid": name}))[0] == INVALID, "also of an earlier version"

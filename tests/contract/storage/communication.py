"""The communication service: steps that are stored with messages or alone, peers, tokens."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from contract.storage.records import EPOCH, PARTITION, message, own
from hubbub.domain.communication.peers import Address, CollectiveInfo, PeerInfo, PrivacyPolicy
from hubbub.domain.communication.steps import (
    ARRIVED,
    DECIDED,
    DUE,
    FAILED,
    HELD,
    NEW,
    PLANNED,
    WAITING,
    CommunicationStep,
    DeliveryMove,
    DeliveryRow,
)
from hubbub.domain.errors import StaleOwner
from hubbub.domain.messages import Attributes
from hubbub.ports.storage import Store
from hubbub.ports.storage.communication import LogQuery, PeerToken
from hubbub.ports.storage.messages import Append

START = (0, 0)


def logged(serial: int, term: int, step: CommunicationStep, **attributes: str) -> Append:
    fields = Attributes(**attributes)  # type: ignore[arg-type]
    sent = message(serial, "comm:log", id=f"m{serial}", event="ALARM", attributes=fields)
    return Append(sent, EPOCH, PARTITION, term, communication=step)


def delivery(key: str, of: str = "m1", serial: int = 0, ordinal: int = 0) -> DeliveryRow:
    return DeliveryRow(key, of, serial, ordinal, "ann", "ann", "mail", ("a@x", "o'hara"), at=5)


@pytest.mark.spec("COMM-01", "COMM-05", "COMM-08")
class CommunicationContract:
    async def test_a_message_and_its_step_are_stored_together(self, store: Store) -> None:
        term = await own(store)
        step = CommunicationStep(
            b"d1", PLANNED, b"plan", (delivery("k1"), delivery("k2", ordinal=1))
        )
        assert await store.append([logged(1, term, step, sender="desk")]) == [None]
        (found,) = await store.read_logged("demo", ["m1", "other"])
        assert (found.message.id, found.digest, found.state) == ("m1", b"d1", PLANNED)
        assert found.plan == b"plan"
        due = await store.read_deliveries("demo", DUE, START, 10)
        assert [(row.key, row.serial, row.ordinal) for row in due] == [("k1", 1, 0), ("k2", 1, 1)]
        assert due[0].parameters == ("a@x", "o'hara")
        assert [row.key for row in await store.read_deliveries("demo", DUE, (1, 0), 10)] == ["k2"]
        assert await store.read_busy_hubs() == ["demo"]
        assert await store.read_deliveries_of("demo", ["k2", "none"]) == [due[1]]

    async def test_a_refused_message_leaves_nothing_of_its_step(self, store: Store) -> None:
        term = await own(store)
        step = CommunicationStep(b"d", NEW, None, (delivery("k1"),))
        (error,) = await store.append([logged(1, term - 1, step)])
        assert isinstance(error, StaleOwner)
        with pytest.raises(StaleOwner):
            await store.save_step("demo", step, PARTITION, term - 1)
        assert await store.read_logged("demo", ["m1"]) == []
        assert await store.read_deliveries("demo", DUE, START, 10) == []
        assert await store.read_busy_hubs() == []

    async def test_steps_move_deliveries_and_close_messages(self, store: Store) -> None:
        term = await own(store)
        first = CommunicationStep(b"d1", NEW)
        await store.append([logged(1, term, first), logged(2, term, first)])
        rows = tuple(delivery(f"k{n}", serial=1, ordinal=n) for n in range(4))
        plan = CommunicationStep(planned=(("m1", b"plan"),), added=rows)
        await store.save_step("demo", plan, PARTITION, term)
        moves = (DeliveryMove("k0", ARRIVED, "", 7), DeliveryMove("k1", FAILED, "no mailbox", 8))
        moved = CommunicationStep(moved=moves, dropped=("k2",), closed=("m2",))
        await store.save_step("demo", moved, PARTITION, term)
        assert [each.message.id for each in await store.read_open("demo", 0, 10)] == ["m1"]
        (dead,) = await store.read_deliveries("demo", FAILED, START, 10)
        assert (dead.key, dead.reason, dead.at) == ("k1", "no mailbox", 8)
        assert [row.key for row in await store.read_deliveries("demo", DUE, START, 10)] == ["k3"]
        later = (delivery("k4", serial=1, ordinal=4), delivery("k5", serial=1, ordinal=5))
        waiting = tuple(msgspec.structs.replace(each, state=WAITING) for each in later)
        begun = CommunicationStep(added=waiting, moved=(DeliveryMove("k4", DUE, "", 9),))
        await store.save_step("demo", begun, PARTITION, term)
        due = await store.read_deliveries("demo", DUE, START, 10)
        assert [(row.key, row.at) for row in due] == [("k3", 5), ("k4", 9)]
        assert len(await store.read_deliveries("demo", WAITING, START, 10)) == 1
        verdict = CommunicationStep(b"v", DECIDED, closed=("m1",), dropped_of=("m1",))
        await store.append([logged(3, term, verdict)])
        assert await store.read_open("demo", 0, 10) == []
        for state in (DUE, WAITING):
            assert await store.read_deliveries("demo", state, START, 10) == []
        assert await store.read_busy_hubs() == []

    async def test_the_log_is_asked_by_any_criteria_newest_first(self, store: Store) -> None:
        term = await own(store)
        step = CommunicationStep(b"d")
        await store.append(
            [
                logged(1, term, step, subtype="fire", sender="desk", receiver="ann"),
                logged(2, term, step, subtype="fire", sender="ann", conversation_id="c"),
                logged(3, term, step, subtype="flood", sender="desk"),
            ]
        )

        async def ids(**criteria: object) -> list[str]:
            query = LogQuery("demo", **criteria)  # type: ignore[arg-type]
            page = await store.query_log(query, None, 10)
            assert page.before is None
            return [each.message.id for each in page.messages]

        assert await ids() == ["m3", "m2", "m1"]
        assert await ids(sender="desk", subtype="fire") == ["m1"]
        assert await ids(conversation="c") == ["m2"]
        assert await ids(id="m3", type="ALARM") == ["m3"]
        assert await ids(receiver="ann") == ["m1"]
        assert await ids(since=2000, until=2000) == ["m2"]
        assert await ids(since=4000) == []
        page = await store.query_log(LogQuery("demo"), None, 2)
        assert (len(page.messages), page.before) == (2, 2)
        rest = await store.query_log(LogQuery("demo"), page.before, 2)
        assert [each.message.id for each in rest.messages] == ["m1"]

    async def test_what_retention_takes_from_the_log_is_forgotten(self, store: Store) -> None:
        term = await own(store)
        step = CommunicationStep(b"d", NEW, None, (delivery("k1"),))
        await store.append([logged(1, term, step), logged(2, term, CommunicationStep(b"d", NEW))])
        await store.delete_before("demo", "comm:log", 2, PARTITION, term)
        assert await store.read_logged("demo", ["m1"]) == []
        assert [each.message.id for each in await store.read_open("demo", 0, 10)] == ["m2"]
        assert await store.read_deliveries("demo", DUE, START, 10) == []

    async def test_a_plan_that_comes_after_the_verdict_opens_nothing(self, store: Store) -> None:
        term = await own(store)
        await store.append([logged(1, term, CommunicationStep(b"d", NEW))])
        for step in (CommunicationStep(closed=("m1",)), CommunicationStep(planned=(("m1", b"p"),))):
            await store.save_step("demo", step, PARTITION, term)
        assert await store.read_open("demo", 0, 10) == []

    async def test_only_what_is_held_is_released(self, store: Store) -> None:
        term = await own(store)
        states = (HELD, DECIDED, PLANNED)
        appended = [
            logged(serial, term, CommunicationStep(b"d", state))
            for serial, state in enumerate(states, 1)
        ]
        await store.append(appended)
        login = CommunicationStep(b"d", released=("m1", "m2", "m3", "none"))
        await store.append([logged(4, term, login)])
        found = [(each.message.id, each.state) for each in await store.read_open("demo", 0, 10)]
        assert found == [("m1", NEW), ("m3", PLANNED)]

    async def test_what_a_peer_sent_and_got_is_found_and_erased(self, store: Store) -> None:
        term = await own(store)
        to_ann = CommunicationStep(b"d", PLANNED, b"plan", (delivery("k1"),))
        step = CommunicationStep(b"d")
        await store.append(
            [
                logged(1, term, to_ann, sender="desk", receiver="ann", conversation_id="c"),
                logged(2, term, step, sender="desk", receiver="bob"),
                logged(3, term, step, sender="ann", receiver="bob"),
            ]
        )
        assert await store.find_published("demo", "ann") == {"comm:log": 3}
        erased = await store.erase_messages("demo", "comm:log", "ann", 0, 10, PARTITION, term)
        assert (erased.count, erased.more) == (2, False)
        assert await store.find_published("demo", "ann") == {}
        assert await store.read_deliveries("demo", DUE, START, 10) == []
        assert await store.read_open("demo", 0, 10) == []
        first, second, third = await store.read_logged("demo", ["m1", "m2", "m3"])
        assert (first.message.attributes, third.message.attributes) == (None, None)
        assert second.message.attributes == Attributes(sender="desk", receiver="bob")
        assert (first.digest, second.digest) == (b"", b"d")

    async def test_peers_are_saved_listed_bounded_and_deleted(self, store: Store) -> None:
        peers = [
            (f"p{n}", PeerInfo((Address("mail", (f"{n}@x",)),), "PREFERRED")) for n in range(5)
        ]
        private = PeerInfo(privacy=(PrivacyPolicy("deny", types=("AD",)),))
        assert await store.save_peers("demo", peers, 5)
        assert not await store.save_peers("demo", [("p5", PeerInfo())], 5)
        assert await store.save_peers("demo", [("p0", private)], 5)
        assert await store.read_peers("demo", ["p3", "p0", "none"]) == [("p0", private), peers[3]]
        assert await store.read_peers("demo", ["a\0b", "p3"]) == [peers[3]]
        assert await store.list_peers("demo", "p1", 2) == peers[2:4]
        assert await store.read_peers("other", ["p0"]) == []
        await store.save_collective("demo", "team", CollectiveInfo(("p0", "p1")), 10)
        await store.save_peer_token(PeerToken("demo", "p0", b"h", 99))
        assert await store.delete_peer("demo", "p0")
        assert not await store.delete_peer("demo", "p0")
        assert await store.read_collective("demo", "team") == CollectiveInfo(("p1",))
        assert await store.read_peer_token("demo", "p0") is None

    async def test_collectives_have_members_in_order(self, store: Store) -> None:
        info = CollectiveInfo(("b", "a"), "TO_ANY")
        assert await store.save_collective("demo", "team", info, 1)
        assert not await store.save_collective("demo", "other", info, 1)
        assert await store.read_collective("demo", "team") == info
        assert await store.add_member("demo", "team", "c", 3) is True
        assert await store.add_member("demo", "team", "b", 3) is True
        assert await store.add_member("demo", "team", "d", 3) is False
        assert await store.add_member("demo", "none", "d", 3) is None
        grown = msgspec.structs.replace(info, members=("b", "a", "c"))
        assert await store.read_collective("demo", "team") == grown
        assert await store.delete_member("demo", "team", "a")
        assert not await store.delete_member("demo", "team", "a")
        assert await store.list_collectives("demo", "", 10) == [("team", "TO_ANY")]
        assert await store.delete_collective("demo", "team")
        assert await store.read_collective("demo", "team") is None
        assert not await store.delete_collective("demo", "team")

    async def test_a_collective_keeps_how_long_a_turn_takes(self, store: Store) -> None:
        info = CollectiveInfo(("b", "a"), "IN_ORDER", 300)
        assert await store.save_collective("demo", "team", info, 1)
        assert await store.read_collective("demo", "team") == info
        unset = msgspec.structs.replace(info, next_after_ms=UNSET)
        assert await store.save_collective("demo", "team", unset, 1)
        assert await store.read_collective("demo", "team") == unset

    async def test_a_peer_has_one_token_until_it_expires(self, store: Store) -> None:
        for token_hash in (b"one", b"two"):
            await store.save_peer_token(PeerToken("demo", "ann", token_hash, 50))
        found = await store.read_peer_token("demo", "ann")
        assert found == PeerToken("demo", "ann", b"two", 50)
        await store.delete_expired(51)
        assert await store.read_peer_token("demo", "ann") is None

    async def test_a_deleted_hub_takes_its_communication_along(self, store: Store) -> None:
        term = await own(store)
        await store.append([logged(1, term, CommunicationStep(b"d", NEW, None, (delivery("k"),)))])
        await store.save_peers("demo", [("ann", PeerInfo())], 5)
        await store.save_collective("demo", "team", CollectiveInfo(("ann",)), 5)
        await store.delete_hub("demo")
        assert await store.read_busy_hubs() == []
        assert await store.list_peers("demo", "", 5) == []
        assert await store.read_collective("demo", "team") is None

"""Who is in the cluster, told by what is heard and by a clock that the test turns."""

from __future__ import annotations

import pytest

from hubbub.cluster.membership import (
    FORGIVING_SECONDS,
    MOST_SILENCES_BEHIND,
    PAUSE_SECONDS,
    SILENCE_SECONDS,
    Heartbeat,
    Membership,
)


class Ear:
    """Notes down what one member finds out."""

    def __init__(self, name: str, town: Town) -> None:
        self._name = name
        self._town = town

    def members_changed(self) -> None:
        pass

    def node_lost(self, node: str, expected: bool) -> None:
        self._town.lost.append((self._name, node))

    def given_up(self) -> None:
        self._town.given_up.append(self._name)


class Town:
    """Some members that hear each other when the test says so."""

    def __init__(self, *names: str) -> None:
        self.now = 100.0
        self.members = {name: Membership(name, f"i-{name}", "core") for name in names}
        self.lost: list[tuple[str, str]] = []
        self.given_up: list[str] = []
        for name, member in self.members.items():
            member.state = "serving"
            member.listen(Ear(name, self))

    def talk(self, *speakers: str, to: tuple[str, ...] | None = None) -> None:
        for speaker in speakers or tuple(self.members):
            beat = self.members[speaker].beat()
            for name, member in self.members.items():
                if to is None or name in to:
                    member.hear(beat, self.now)

    def look(self) -> None:
        for member in self.members.values():
            member.look(self.now)

    def versions(self) -> set[str]:
        return {member.ring().version for member in self.members.values()}


@pytest.mark.spec("CLU-01")
def test_members_that_hear_each_other_agree_on_the_ring() -> None:
    town = Town("a", "b", "c")
    assert len(town.versions()) == 3
    town.talk()
    assert len(town.versions()) == 1
    assert set(town.members["a"].ring().owners) == {"a", "b", "c"}


@pytest.mark.spec("CLU-04")
def test_a_silent_member_is_lost_in_time() -> None:
    town = Town("a", "b", "c")
    town.talk()
    town.now += SILENCE_SECONDS * 0.9
    town.talk("a", "b")
    town.look()
    assert town.lost == []
    town.now += SILENCE_SECONDS * 0.11
    town.talk("a", "b", to=("a", "b"))
    town.look()
    assert sorted(town.lost) == [("a", "c"), ("b", "c")]
    assert set(town.members["a"].ring().owners) == {"a", "b"}


def test_who_does_not_even_hear_itself_gives_nobody_up() -> None:
    town = Town("a", "b")
    town.talk()
    town.now += 10 * SILENCE_SECONDS
    town.look()
    assert town.lost == []
    assert town.members["a"].is_deaf(town.now)


def test_who_stood_still_itself_has_not_read_yet_what_came_and_is_not_deaf() -> None:
    town = Town("a", "b")
    town.talk()
    town.now += 3 * SILENCE_SECONDS
    member = town.members["a"]
    assert member.is_deaf(town.now)
    member.excuse_all(town.now)
    assert not member.is_deaf(town.now)
    assert member.may_be_given_up(town.now), "the others did not hear it, either"
    town.now += SILENCE_SECONDS
    assert member.is_deaf(town.now)


def test_who_hears_anything_is_only_behind_but_not_for_long() -> None:
    town = Town("a", "b")
    town.talk()
    member = town.members["a"]
    for _ in range(MOST_SILENCES_BEHIND - 1):
        town.now += SILENCE_SECONDS
        member.sign_of_life("b", "i-b", town.now)
        assert not member.is_deaf(town.now)
        member.look(town.now)
    assert town.lost == []
    town.now += SILENCE_SECONDS * 1.1
    member.sign_of_life("b", "i-b", town.now)
    assert member.is_deaf(town.now), "it may hear, but is it heard?"


def test_a_sign_of_life_counts_for_the_process_that_gave_it() -> None:
    town = Town("a", "b")
    town.talk()
    town.now += SILENCE_SECONDS * 1.1
    town.talk("a", to=("a",))
    town.members["a"].sign_of_life("b", "i-another", town.now)
    town.members["a"].look(town.now)
    assert town.lost == [("a", "b")]


@pytest.mark.spec("CLU-04")
def test_a_member_that_announced_a_pause_is_given_longer_until_it_speaks_again() -> None:
    town = Town("a", "b")
    town.talk()
    town.members["b"].pauses = True
    town.talk("b")
    town.now += PAUSE_SECONDS * 0.9
    town.talk("a", to=("a",))
    town.look()
    assert town.lost == []
    town.members["b"].pauses = False
    town.talk("b")
    town.now += SILENCE_SECONDS * 1.1
    town.talk("a", to=("a",))
    town.members["a"].look(town.now)
    assert town.lost == [("a", "b")]


def give_up(town: Town, silence: float) -> bool:
    """Whether `a` gives `b` up after a silence; then all talk again."""
    town.now += silence
    town.talk("a", to=("a",))
    town.members["a"].look(town.now)
    lost, town.lost = town.lost, []
    for _ in range(3):
        town.talk()
    assert town.members["a"].nodes == ["a", "b"]
    return lost == [("a", "b")]


def test_a_member_that_was_given_up_and_lives_gets_longer_for_a_while() -> None:
    town = Town("a", "b")
    town.talk()
    assert give_up(town, SILENCE_SECONDS * 1.1)
    assert not give_up(town, SILENCE_SECONDS * 1.9)
    assert give_up(town, SILENCE_SECONDS * 2.1)
    assert not give_up(town, SILENCE_SECONDS * 3.9)
    for _ in range(5):
        assert give_up(town, SILENCE_SECONDS * 8.1), "there is a limit"
    town.now += FORGIVING_SECONDS
    town.talk()
    assert give_up(town, SILENCE_SECONDS * 1.1)


@pytest.mark.spec("CLU-04")
def test_a_member_that_was_given_up_begins_a_new_life() -> None:
    town = Town("a", "b")
    town.talk()
    town.talk()
    before = town.members["b"].life
    town.now += SILENCE_SECONDS + 0.1
    town.talk("a", to=("a",))
    town.members["a"].look(town.now)
    assert town.lost == [("a", "b")]
    town.talk("a")  # b hears that a does not hear it any more
    assert town.given_up == ["b"]
    assert town.members["b"].life != before
    town.talk()
    town.talk()
    assert town.given_up == ["b"], "once"
    assert len(town.versions()) == 1


def test_a_newcomer_that_is_not_heard_yet_was_not_given_up() -> None:
    town = Town("a", "b")
    town.talk("a")
    town.talk("a")
    assert town.given_up == []


@pytest.mark.spec("CLU-05")
def test_one_that_leaves_owns_nothing_and_is_still_there() -> None:
    town = Town("a", "b")
    town.talk()
    town.members["b"].state = "leaving"
    town.talk()
    assert set(town.members["a"].ring().owners) == {"a"}
    assert town.members["a"].nodes == ["a", "b"]
    town.members["b"].state = "gone"
    town.talk("b")
    assert town.lost == [("a", "b")]
    assert town.members["a"].nodes == ["a"]


@pytest.mark.spec("CLU-05")
def test_edges_own_nothing() -> None:
    town = Town("a", "b")
    town.members["b"].role = "edge"
    town.talk()
    assert set(town.members["b"].ring().owners) == {"a"}


@pytest.mark.spec("CLU-04")
def test_a_closed_connection_is_a_loss_at_once_and_late_words_do_not_undo_it() -> None:
    town = Town("a", "b")
    town.talk()
    late = town.members["b"].beat()
    town.members["a"].disconnected("b", "i-older")
    assert town.members["a"].nodes == ["a", "b"], "that was another process of this name"
    town.members["a"].disconnected("b", "i-b")
    assert town.lost == [("a", "b")]
    town.members["a"].hear(late, town.now)
    assert town.members["a"].nodes == ["a"]
    town.talk("a")  # it lives, on another connection, and learns what was thought of it
    assert town.given_up == ["b"]
    town.talk("b")
    assert town.members["a"].nodes == ["a", "b"]


def test_after_a_cut_the_smaller_side_begins_anew_and_all_hear_each_other() -> None:
    town = Town("a", "b", "c")
    town.talk()
    town.talk()
    town.now += SILENCE_SECONDS + 0.1
    town.talk("a", "b", to=("a", "b"))
    town.talk("c", to=("c",))
    town.look()
    assert sorted(town.lost) == [("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")]
    for _ in range(3):
        town.talk()
    assert town.given_up == ["c"]
    assert len(town.versions()) == 1
    assert set(town.members["c"].ring().owners) == {"a", "b", "c"}


def test_a_restart_is_a_loss_and_what_was_said_before_it_is_ignored() -> None:
    town = Town("a", "b")
    town.talk()
    old = town.members["b"].beat()
    a = town.members["a"]
    a.hear(Heartbeat("b", "i-new", "i-new.1", "core", "serving"), town.now)
    assert town.lost == [("a", "b")]
    a.hear(old, town.now)
    assert a.lives()["b"] == "i-new.1"


def test_a_namesake_that_only_starts_takes_nobodys_place() -> None:
    town = Town("a", "b")
    town.talk()
    a = town.members["a"]
    a.hear(Heartbeat("b", "i-new", "i-new.1", "core", "starting"), town.now)
    assert a.lives()["b"] == town.members["b"].life
    assert town.lost == []

"""Where a client is in a channel: every message once, in order, and gaps told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.client.tracker import REMEMBERED_IDS, Tracker, Verdict
from hubbub.domain.messages import TEXT, Message
from hubbub.domain.notices import ChannelReset, MessageDelivery, SubscribedChannel
from hubbub.domain.requests import Position


def delivery(serial: int, message_id: str | None = None, retained: bool = False) -> MessageDelivery:
    message = Message(message_id or f"m{serial}", "", "news", "", b"", TEXT, 0, serial)
    return MessageDelivery(message, retained)


def confirmed(serial: int = 0, epoch: str = "e1", recovered: bool = True) -> SubscribedChannel:
    return SubscribedChannel("news", epoch, serial, recovered)


def following(serial: int = 0) -> Tracker:
    tracker = Tracker("news")
    assert tracker.confirm(confirmed(serial)) is None
    return tracker


def handed_over(tracker: Tracker, *deliveries: MessageDelivery) -> list[str]:
    return [each.message.id for each in deliveries if tracker.judge(each) is Verdict.HAND_OVER]


@pytest.mark.spec("UI-02", "LIVE-10")
def test_messages_in_order_are_handed_over() -> None:
    assert handed_over(following(4), delivery(5), delivery(6)) == ["m5", "m6"]


@pytest.mark.spec("UI-02")
def test_a_message_is_handed_over_once() -> None:
    tracker = following()
    assert handed_over(tracker, delivery(1), delivery(1), delivery(2), delivery(1)) == ["m1", "m2"]


@pytest.mark.spec("UI-02")
def test_a_message_that_skips_others_asks_for_recovery_and_waits_for_it() -> None:
    tracker = following()
    assert tracker.judge(delivery(3)) is Verdict.RECOVER
    request = tracker.recover()
    assert (request.serial, request.epoch) == (0, "e1")
    assert tracker.judge(delivery(4)) is Verdict.DROP
    assert tracker.confirm(confirmed(4)) is None
    assert handed_over(tracker, *map(delivery, range(1, 6))) == ["m1", "m2", "m3", "m4", "m5"]


def test_a_gap_that_stays_after_recovery_is_told_and_passed() -> None:
    tracker = following()
    tracker.judge(delivery(3))
    tracker.recover()
    tracker.confirm(confirmed(3))
    assert tracker.judge(delivery(3)) is Verdict.LOST
    assert tracker.skip(delivery(3)).after == 0
    assert handed_over(tracker, delivery(4)) == ["m4"]


def test_messages_that_a_filter_left_out_are_no_gap() -> None:
    tracker = following()
    filtered = MessageDelivery(delivery(7).message, previous_serial=0)
    assert tracker.judge(filtered) is Verdict.HAND_OVER
    assert tracker.serial == 7


def test_nothing_counts_before_the_hub_confirmed() -> None:
    tracker = Tracker("news", since=2)
    assert tracker.judge(delivery(9)) is Verdict.DROP
    tracker.confirm(confirmed(9))
    assert handed_over(tracker, delivery(3)) == ["m3"]


@pytest.mark.spec("UI-02")
def test_coming_back_goes_on_from_the_position() -> None:
    tracker = following()
    handed_over(tracker, delivery(1), delivery(2))
    assert (tracker.request().serial, tracker.request().epoch) == (2, "e1")
    assert tracker.confirm(confirmed(9)) is None
    assert handed_over(tracker, delivery(2), delivery(3)) == ["m3"]


@pytest.mark.spec("UI-02")
def test_what_the_hub_no_longer_has_is_a_gap() -> None:
    tracker = following()
    handed_over(tracker, delivery(1))
    gap = tracker.confirm(confirmed(300, recovered=False))
    assert gap is not None
    assert (gap.epoch, gap.after) == ("e1", 1)
    assert handed_over(tracker, delivery(45), delivery(46)) == ["m45", "m46"]


@pytest.mark.spec("UI-02")
def test_another_epoch_is_a_gap_and_starts_over() -> None:
    tracker = following(7)
    gap = tracker.confirm(confirmed(2, "e2", recovered=False))
    assert gap is not None
    assert (tracker.epoch, tracker.serial) == ("e2", 2)
    assert handed_over(tracker, delivery(3)) == ["m3"]


def test_a_position_ahead_of_the_channel_is_a_gap_and_hides_nothing() -> None:
    tracker = Tracker("news", since=1000)
    assert tracker.confirm(confirmed(5, recovered=False)) is not None
    assert handed_over(tracker, delivery(6), delivery(7)) == ["m6", "m7"]


def test_since_a_time_begins_anywhere_and_asks_by_serial_afterwards() -> None:
    tracker = Tracker("news", since_time=123)
    assert tracker.request().timestamp == 123
    tracker.confirm(confirmed(40))
    assert tracker.position() is None
    assert handed_over(tracker, delivery(30), delivery(31)) == ["m30", "m31"]
    assert (tracker.request().timestamp, tracker.request().serial) == (None, 31)


@pytest.mark.spec("LIVE-12")
def test_a_retained_message_comes_on_subscribe_but_not_again() -> None:
    tracker = following(5)
    retained = delivery(3, retained=True)
    assert handed_over(tracker, retained) == ["m3"]
    tracker.confirm(confirmed(5))
    assert handed_over(tracker, retained) == []


def test_a_retained_message_that_was_received_live_does_not_come_again() -> None:
    tracker = following()
    assert handed_over(tracker, delivery(1)) == ["m1"]
    tracker.confirm(confirmed(1))
    assert handed_over(tracker, delivery(1, retained=True)) == []


def test_a_retained_message_ahead_of_its_replay_comes_once() -> None:
    tracker = Tracker("news", since=0)
    tracker.confirm(confirmed(2))
    found = handed_over(tracker, delivery(2, retained=True), delivery(1), delivery(2), delivery(3))
    assert found == ["m2", "m1", "m3"]


def test_a_retained_message_without_a_serial_comes_once_across_connections() -> None:
    tracker = following()
    assert handed_over(tracker, delivery(0, "r")) == ["r"]
    tracker.confirm(confirmed())
    assert handed_over(tracker, delivery(0, "r", retained=True)) == []


def test_remembered_ids_are_bounded() -> None:
    tracker = following()
    for number in range(REMEMBERED_IDS * 2):
        tracker.judge(delivery(0, f"u{number}"))
    assert tracker.judge(delivery(0, f"u{REMEMBERED_IDS * 2 - 1}")) is Verdict.DROP
    assert len(tracker._ids) == REMEMBERED_IDS


def test_a_reset_is_a_gap_unless_nothing_is_between() -> None:
    tracker = following(3)
    assert tracker.reset(ChannelReset("news", "e1", 3)) is None
    assert tracker.reset(ChannelReset("news", "e2", 8)) is not None
    assert handed_over(tracker, delivery(9)) == ["m9"]


def test_another_epoch_of_a_channel_that_was_empty_is_no_gap() -> None:
    tracker = following(0)
    assert tracker.reset(ChannelReset("news", "e2", 0, recovered=True)) is None
    assert tracker.confirm(confirmed(2, "e3")) is None
    assert tracker.position() == Position("news", 0, "e3")
    assert handed_over(tracker, delivery(1), delivery(2)) == ["m1", "m2"]


@pytest.mark.spec("UI-02")
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 4), st.booleans()), min_size=1, max_size=20
    )
)
def test_whatever_is_lost_or_doubled_on_the_way_all_arrive_once_in_order(
    steps: list[tuple[int, int, bool]],
) -> None:
    """A channel publishes, the way to the client drops the next few or sends some twice, and
    sometimes the connection breaks. The hub keeps everything."""
    tracker, received, head = following(), list[int](), 0

    def receive(serial: int) -> None:
        each = delivery(serial)
        verdict = tracker.judge(each)
        if verdict is Verdict.HAND_OVER:
            received.append(serial)
        elif verdict is Verdict.RECOVER:
            replay(tracker.recover().serial)
        assert verdict is not Verdict.LOST

    def replay(after: int | None) -> None:
        assert after is not None
        assert tracker.confirm(confirmed(head)) is None
        for serial in range(after + 1, head + 1):
            receive(serial)

    for published, lost, breaks in steps:
        first = head + 1
        head += published
        for serial in range(first + min(lost, published), head + 1):
            receive(serial)
            receive(max(serial - lost, 1))
        if breaks:
            tracker.recovering = True
            replay(tracker.request().serial)
    tracker.recovering = True
    replay(tracker.request().serial)
    assert received == list(range(1, head + 1))

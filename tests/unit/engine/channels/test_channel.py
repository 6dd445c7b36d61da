"""The states of a channel at its owner."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import HubbubError, StaleOwner, Unavailable
from hubbub.domain.messages import Message
from hubbub.domain.rules import Rules
from hubbub.engine.channels.channel import Channel, State
from hubbub.ports.bus import PublishOutcome


def new_channel() -> Channel:
    return Channel("demo", "news", 7, Rules(store=True))


def message() -> Message:
    return Message("1", "demo", "news", "message", b"1", "application/json", published_at=1)


def test_only_the_first_of_several_uses_reads_a_channel() -> None:
    channel = new_channel()
    assert channel.begin_loading()
    assert not channel.begin_loading()
    channel.end_loading()
    assert not channel.begin_loading()


async def test_after_a_failed_read_everyone_who_waits_is_told_and_the_next_use_reads_again() -> (
    None
):
    channel, outcomes = new_channel(), list[PublishOutcome]()
    channel.begin_loading()
    channel.wait(message(), outcomes.append)
    waiting = asyncio.ensure_future(channel.read())
    await asyncio.sleep(0)
    error = Unavailable("the disk is full")
    channel.fail_loading(error)
    assert [outcome.error for outcome in outcomes] == [error]
    with pytest.raises(Unavailable, match="the disk is full"):
        await waiting
    assert channel.begin_loading()


def test_rules_that_change_during_an_append_wait_for_its_end() -> None:
    channel = new_channel()
    channel.begin_loading()
    channel.end_loading()
    assert not channel.postpone_rules()
    channel.begin_append()
    assert channel.postpone_rules()
    assert channel.end_append()
    assert channel.state is State.READY
    channel.begin_append()
    assert not channel.end_append()


def test_a_closed_channel_stays_closed_whatever_was_under_way() -> None:
    channel = new_channel()
    channel.begin_loading()
    channel.end_loading()
    channel.begin_append()
    channel.close(StaleOwner("moved"))
    channel.end_append()
    channel.forget()
    channel.fail_loading(Unavailable("late"))
    assert channel.state is State.CLOSED
    assert not channel.begin_loading()


STEPS = ("use", "read", "fail", "append", "ended", "rules", "forget", "publish", "close")


@given(st.lists(st.sampled_from(STEPS)))
def test_every_publish_that_waits_is_taken_or_answered_whatever_the_order(steps: list[str]) -> None:
    channel, waiting, outcomes = new_channel(), 0, list[PublishOutcome]()
    for step in steps:
        if channel.state is State.CLOSED:
            break
        if step == "use":
            channel.begin_loading()
        elif step == "read" and channel.state is State.LOADING:
            channel.end_loading()
        elif step == "fail" and channel.state is State.LOADING:
            channel.fail_loading(HubbubError("no"))
        elif step == "append" and channel.state is State.READY:
            waiting -= len(list(channel.begin_append()))
        elif step == "ended" and channel.state > State.READY:
            channel.end_append()
        elif step == "rules":
            assert channel.postpone_rules() == (channel.state is State.OUTDATED)
        elif step == "forget":
            channel.forget()
            assert channel.state is not State.READY
        elif step == "publish":
            channel.wait(message(), outcomes.append)
            waiting += 1
        elif step == "close":
            channel.close(StaleOwner("moved"))
        assert len(channel.queue or ()) + len(outcomes) == waiting
    if channel.state is State.CLOSED:
        assert not channel.queue
        assert not channel.idle

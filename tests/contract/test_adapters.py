"""What every adapter promises (`ports.adapters`), tried with each of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from contract.adapter_trials import OUTPUTS, PULLS, SECRET, Mood, OutputTrial, PullTrial
from harness.adapters import adapter_context, changed, delivery, make_adapter
from harness.broken_servers import Broken, broken_server
from hubbub.domain.callbacks import Reach
from hubbub.ports.adapters import AdapterFailed, Delivery, Pulled, TemporaryFailure

pytestmark = [pytest.mark.spec("COMM-02", "COMM-03")]
outputs = pytest.mark.parametrize("trial", OUTPUTS.values(), ids=OUTPUTS)
pulls = pytest.mark.parametrize("trial", PULLS.values(), ids=PULLS)
FAILURES = (AdapterFailed, TemporaryFailure)


async def push(
    trial: OutputTrial, port: int, sent: Delivery | None = None, reach: Reach = "loopback"
) -> None:
    async with adapter_context(reach) as context:
        adapter: Any = make_adapter(trial.kind, trial.settings(port), context)
        try:
            await adapter.push(sent or delivery(*trial.parameters(port)))
        finally:
            await adapter.close()


async def pull(trial: PullTrial, port: int, settle: bool = False) -> Pulled | None:
    async with adapter_context() as context:
        adapter: Any = make_adapter(trial.kind, trial.settings(port), context)
        try:
            found: Pulled | None = await adapter.pull()
            if found is not None and settle:
                await adapter.settle(found.receipt)
                assert await adapter.pull() is None, "settled"
            return found
        finally:
            await adapter.close()


# -- output ---------------------------------------------------------------------------------------


@outputs
async def test_all_attempts_have_one_key_and_other_messages_another(trial: OutputTrial) -> None:
    async with trial.serve("accepts") as place:
        first = delivery(*trial.parameters(place.port), key="key-1")
        other = delivery(*trial.parameters(place.port), key="key-2", id="m-2", content="else")
        for sent in (first, first, other):
            await push(trial, place.port, sent)
        keys = place.keys()
    assert len(set(keys)) == 2
    assert keys[0] == keys[1]


@outputs
async def test_a_refusal_is_final(trial: OutputTrial) -> None:
    async with trial.serve("refuses") as place:
        with pytest.raises(AdapterFailed):
            await push(trial, place.port)


@outputs
async def test_a_server_that_cannot_now_is_tried_again(trial: OutputTrial) -> None:
    async with trial.serve("later") as place:
        with pytest.raises(TemporaryFailure):
            await push(trial, place.port)


@outputs
@pytest.mark.parametrize("how", ["hangs", "closes"])
async def test_a_server_without_a_word_is_tried_again(trial: OutputTrial, how: Broken) -> None:
    async with broken_server(how) as port, asyncio.timeout(10):
        with pytest.raises(TemporaryFailure):
            await push(trial, port)


@outputs
async def test_nonsense_is_no_success(trial: OutputTrial) -> None:
    async with broken_server("garbage") as port, asyncio.timeout(10):
        with pytest.raises(FAILURES):
            await push(trial, port)


@outputs
async def test_an_address_that_the_hub_may_not_reach_is_refused(trial: OutputTrial) -> None:
    async with trial.serve("accepts") as place:
        with pytest.raises(AdapterFailed):
            await push(trial, place.port, reach="public")
        assert place.keys() == []


@outputs
async def test_a_push_that_is_cancelled_ends_at_once(trial: OutputTrial) -> None:
    async with broken_server("hangs") as port, adapter_context() as context:
        settings = {**trial.settings(port), "timeoutSeconds": 60.0}
        adapter: Any = make_adapter(trial.kind, settings, context)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await adapter.push(delivery(*trial.parameters(port)))
        await adapter.close()


@outputs
@pytest.mark.parametrize("mood", ["refuses", "later"])
async def test_secrets_are_in_no_error_and_no_log(
    trial: OutputTrial, mood: Mood, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with trial.serve(mood) as place:
        with pytest.raises(FAILURES) as caught:
            await push(trial, place.port, changed(delivery(*trial.parameters(place.port))))
    assert SECRET not in str(caught.value)
    assert SECRET not in caplog.text


# -- pulled input ---------------------------------------------------------------------------------


@pulls
async def test_what_is_settled_is_not_given_again(trial: PullTrial) -> None:
    async with trial.serve() as port:
        assert await pull(trial, port, settle=True) is not None
        if trial.remembers:
            assert await pull(trial, port) is None


@pulls
async def test_what_is_not_settled_is_given_again_as_the_same_message(trial: PullTrial) -> None:
    async with trial.serve() as port:
        first, again = await pull(trial, port), await pull(trial, port)
    assert first is not None
    assert again is not None
    assert first.message == again.message
    assert first.message.id


@pulls
@pytest.mark.parametrize("how", ["hangs", "garbage", "closes"])
async def test_a_broken_server_is_an_error_that_tells_no_secret(
    trial: PullTrial, how: Broken, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with broken_server(how) as port, asyncio.timeout(10):
        with pytest.raises(FAILURES) as caught:
            await pull(trial, port)
    assert SECRET not in str(caught.value) + caplog.text


@pulls
async def test_a_pull_that_is_cancelled_ends_at_once(trial: PullTrial) -> None:
    async with broken_server("hangs") as port, adapter_context() as context:
        settings = {**trial.settings(port), "timeoutSeconds": 60.0}
        adapter: Any = make_adapter(trial.kind, settings, context)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await adapter.pull()
        await adapter.close()

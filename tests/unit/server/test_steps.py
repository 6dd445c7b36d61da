"""Steps: what was started is stopped in reverse order."""

from __future__ import annotations

import asyncio

import pytest

from hubbub.server.steps import Step, Steps

NAMES = ("store", "bus", "door")


class Recorder:
    """Steps that note what was called, and fail where the test says."""

    def __init__(self, *failing: str) -> None:
        self.called: list[str] = []
        self._failing = failing

    def steps(self) -> Steps:
        return Steps([self._step(name) for name in NAMES])

    def _step(self, name: str) -> Step:
        async def start() -> None:
            self._call(f"start {name}")

        def stop() -> None:
            self._call(f"stop {name}")

        return Step(name, start, stop)

    def _call(self, what: str) -> None:
        self.called.append(what)
        if what in self._failing:
            raise OSError(what)


async def test_steps_are_stopped_in_reverse_order_and_once() -> None:
    recorder = Recorder()
    steps = recorder.steps()
    await steps.start()
    await steps.stop()
    await steps.stop()
    assert recorder.called[:3] == ["start store", "start bus", "start door"]
    assert recorder.called[3:] == ["stop door", "stop bus", "stop store"]


async def test_a_start_that_fails_stops_its_own_step_and_those_before_it() -> None:
    recorder = Recorder("start bus")
    with pytest.raises(OSError, match="start bus"):
        await recorder.steps().start()
    assert recorder.called[2:] == ["stop bus", "stop store"]


async def test_a_step_that_cannot_be_stopped_is_logged_and_the_others_are_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder("start door", "stop bus")
    with pytest.raises(OSError, match="start door"):
        await recorder.steps().start()
    assert recorder.called[-1] == "stop store"
    assert "could not stop: bus" in caplog.text


async def test_a_stop_whose_time_is_over_breaks_off() -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    recorder = Recorder()
    steps = Steps([recorder._step("store"), Step("slow", stop=hang)])
    await steps.start()
    stopping = asyncio.ensure_future(steps.stop())
    await begun.wait()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert recorder.called == ["start store"]

"""`hubbub pipeline run --follow` ends when it is told to, also where the interrupt gets lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest

from hubbub.cli.pipeline import running as pipeline
from hubbub.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from hubbub.cli.pipeline.rounds import Rounds

pytestmark = [pytest.mark.spec("PIPE-02"), pytest.mark.timeout(10)]


def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def replaced_by_an_error_of_the_connection() -> None:
    """As PySpark does where it asks the JVM once more after an interrupt."""
    try:
        _terminate()
    except KeyboardInterrupt:
        raise PipelineError("Spark's JVM ended in the middle of the work") from None


def dropped_while_an_object_is_finalised() -> None:
    class Finalised:
        def __del__(self) -> None:
            _terminate()

    Finalised()
    raise PipelineError("the store does not answer")


class FakeRounds:
    journal = warehouse = "somewhere"

    def __init__(self, work: Callable[[], None]) -> None:
        self.runs = 0
        self._work = work

    def run(self, **_: object) -> None:
        self.runs += 1
        self._work()

    def end_spark(self) -> None:
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "work", [replaced_by_an_error_of_the_connection, dropped_while_an_object_is_finalised]
)
def test_a_lost_interrupt_ends_a_follower_all_the_same(work: Callable[[], None]) -> None:
    rounds = FakeRounds(work)
    with pipeline._interruptible(True) as interruption:
        pipeline._follow(cast("Rounds", rounds), 3600, interruption)
    assert rounds.runs == 1


def test_a_single_run_that_is_interrupted_does_not_blame_spark() -> None:
    with pytest.raises(KeyboardInterrupt), pipeline._interruptible(False):
        replaced_by_an_error_of_the_connection()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

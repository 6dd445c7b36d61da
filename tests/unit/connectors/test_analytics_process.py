"""Questions about analytics: the processes that answer them are shared between hubs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from harness.callbacks import eventually
from hubbub.connectors import analytics_process
from hubbub.connectors.analytics_process import AnalyticsProcess
from hubbub.domain.analytics import RowsQuery
from hubbub.domain.errors import Overloaded, Unavailable


async def test_many_questions_of_one_hub_leave_another_hub_its_place(tmp_path: Path) -> None:
    analytics = AnalyticsProcess(tmp_path)
    many = [asyncio.create_task(analytics.rows(RowsQuery("traffic", "acme"))) for _ in range(40)]
    await asyncio.sleep(0)
    refused = [task for task in many if task.done()]
    assert 0 < len(refused) < 40
    assert all(isinstance(task.exception(), Overloaded) for task in refused)
    other = asyncio.create_task(analytics.rows(RowsQuery("traffic", "other")))
    await asyncio.sleep(0)
    for task in (other, *many):
        task.cancel()
    found, *_ = await asyncio.gather(other, *many, return_exceptions=True)
    assert not isinstance(found, Overloaded)


async def test_a_question_is_answered_when_the_hub_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answering takes a core for a second; on a machine with one, the hub has it meanwhile."""
    tells = (
        "import os, time\nbefore = os.getppid()\n"
        "while os.getpriority(os.PRIO_PROCESS, 0) == os.getpriority(os.PRIO_PROCESS, before): "
        "time.sleep(0.01)\n"
        "print('{\"error\": \"' + str(os.getpriority(os.PRIO_PROCESS, 0)) + '\"}')"
    )
    monkeypatch.setattr(
        analytics_process, "module_command", lambda *_: (sys.executable, "-c", tells)
    )
    with pytest.raises(Unavailable) as refused:
        await AnalyticsProcess(tmp_path).rows(RowsQuery("traffic", "acme"))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert int(refused.value.message) == min(19, own + analytics_process.NICENESS)


async def test_an_answer_does_without_the_memory_of_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow imports Pandas where it is installed: 35 MB for each process that answers."""
    pytest.importorskip("pyarrow")
    tells = (
        "import atexit, json, runpy, sys\n"
        "told = lambda: json.dumps({'error': ' '.join({m.split('.')[0] for m in sys.modules})})\n"
        "out, sys.stdout = sys.stdout, open('/dev/null', 'w')\n"
        "atexit.register(lambda: print(told(), file=out, flush=True))\n"
        "runpy.run_module('hubbub.pipeline.answering', run_name='__main__')"
    )
    monkeypatch.setattr(
        analytics_process,
        "module_command",
        lambda _, *arguments: (sys.executable, "-c", tells, *arguments),
    )
    with pytest.raises(Unavailable) as said:
        await AnalyticsProcess(tmp_path).rows(RowsQuery("traffic", "acme"))
    imported = said.value.message.split()
    assert "pyarrow" in imported
    assert "pandas" not in imported


async def test_a_process_ends_with_its_asker_and_what_it_complains_of_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "pid"
    tells = (
        f"import os, time\nprint(os.getpid(), end='.', file=open({str(file)!r}, 'w'), flush=True)"
    )
    commands = [f"{tells}\ntime.sleep(60)", "print('odd')\nraise SystemExit('no disk')"]
    monkeypatch.setattr(
        analytics_process, "module_command", lambda *_: (sys.executable, "-c", commands.pop(0))
    )
    analytics = AnalyticsProcess(tmp_path)
    asking = asyncio.create_task(analytics.rows(RowsQuery("traffic", "acme")))

    async def is_running() -> bool:
        return file.exists() and file.read_text().endswith(".")

    await eventually(is_running)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()[:-1]), 0)
    with pytest.raises(Unavailable, match="see the hub's log"):
        await analytics.rows(RowsQuery("traffic", "acme"))
    assert "no disk" in caplog.text

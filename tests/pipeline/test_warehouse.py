"""Commits are all or nothing, and one pipeline works at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub.pipeline.errors import PipelineBusy, WarehouseUnreadable
from hubbub.pipeline.state import State
from hubbub.pipeline.warehouse import Change, Warehouse

pytestmark = pytest.mark.spec("PIPE-02")


def drafted(warehouse: Warehouse, name: str, *files: str) -> Change:
    draft = warehouse.draft(name)
    for file in files:
        path = draft / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return Change("traffic", draft, "hour", frozenset({"2026-11-15T12"}))


def files(warehouse: Warehouse) -> list[str]:
    return sorted(
        str(path.relative_to(warehouse.path)) for path in warehouse.path.rglob("*.parquet")
    )


def test_a_commit_replaces_partitions_and_removes_what_they_held(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    with warehouse.changing():
        change = drafted(
            warehouse, "a", "hour=2026-11-15T12/1.parquet", "hour=2026-11-15T13/2.parquet"
        )
        warehouse.commit([change], State())
        warehouse.commit([drafted(warehouse, "b", "hour=2026-11-15T12/3.parquet")], State())
    assert files(warehouse) == [
        "gold/traffic/hour=2026-11-15T12/3.parquet",
        "gold/traffic/hour=2026-11-15T13/2.parquet",
    ]
    assert [path.name for path in warehouse.files("traffic", ["2026-11-15T12"])] == ["3.parquet"]


def test_what_a_killed_run_left_behind_is_removed(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    with warehouse.changing():
        warehouse.commit([drafted(warehouse, "a", "hour=2026-11-15T12/1.parquet")], State())
    stray = warehouse.folder("traffic") / "hour=2026-11-15T12" / "9.parquet"
    stray.write_text("moved, and never committed")
    warehouse.drafts.mkdir()
    (warehouse.drafts / "half").write_text("")
    with warehouse.changing():
        assert files(warehouse) == ["gold/traffic/hour=2026-11-15T12/1.parquet"]
        assert list(warehouse.drafts.iterdir()) == []


def test_a_second_pipeline_says_who_is_working_and_stops(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    with warehouse.changing(), pytest.raises(PipelineBusy, match=f"process {os.getpid()}"):
        Warehouse(tmp_path).changing().__enter__()


def test_the_lock_of_a_killed_process_does_not_lock(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path\n"
        "from hubbub.pipeline.warehouse import Warehouse\n"
        f"with Warehouse(Path({str(tmp_path)!r})).changing(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=30).returncode == -9
    assert (tmp_path / "state" / "lock").exists()
    with Warehouse(tmp_path).changing():
        pass


@pytest.mark.parametrize(
    ("content", "said"), [(b"{", "is damaged"), (b'{"layout": 99}', "newer Hubbub")]
)
def test_a_state_that_cannot_be_read_is_named_with_a_remedy(
    tmp_path: Path, content: bytes, said: str
) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.state_folder.mkdir()
    (warehouse.state_folder / "state.json").write_bytes(content)
    with pytest.raises(WarehouseUnreadable, match=said):
        warehouse.load()

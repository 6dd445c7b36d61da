"""Adapters that an operator wrote, as files in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.adapters import adapter_context, delivery
from hubbub.connectors.adapters.operator_files import load_folder
from hubbub.ports.adapters import AdapterKinds, declared

pytestmark = [pytest.mark.spec("COMM-02")]
GOOD = """
import msgspec
from hubbub.ports.adapters import AdapterContext, Delivery, adapter

class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str

@adapter(name="note", settings=Settings)
class Note:
    def __init__(self, settings: Settings, context: AdapterContext) -> None:
        self.file = settings.file

    async def push(self, delivery: Delivery) -> None:
        with open(self.file, "a") as file:
            file.write(delivery.message.content)

    async def close(self) -> None:
        pass
"""


async def test_a_file_in_the_folder_is_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(GOOD)
    kinds = AdapterKinds()
    assert load_folder(tmp_path, kinds) == []
    assert kinds.names() == ["note"]
    assert "note" not in declared().names()
    kind = kinds.find("note")
    async with adapter_context() as context:
        made = kind.make(kind.read({"file": str(tmp_path / "out")}), context)
        await made.push(delivery())  # type: ignore[union-attr]
    assert (tmp_path / "out").read_text() == "it is red"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def (", "line 1: invalid syntax"),
        ("x = 1\nraise ValueError('no printer')", "line 2: ValueError: no printer"),
        ("import no_such_module", "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(1)", "line 1: SystemExit: 1"),
        ("x = 1", "it declares no adapter; decorate a class with @adapter(...)"),
        (GOOD + GOOD, "there is an adapter of the kind 'note' already; rename this one"),
        (GOOD + "\n1 / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_file_is_named_with_its_reason_and_stops_nothing(
    tmp_path: Path, source: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bad.py").write_text(source)
    (tmp_path / "good.py").write_text(GOOD.replace('"note"', '"other"'))
    (tmp_path / "_helper.py").write_text("def (")
    kinds = AdapterKinds()
    (broken,) = load_folder(tmp_path, kinds)
    assert broken.path.endswith("bad.py")
    assert reason in broken.reason
    assert broken.path in caplog.text
    assert kinds.names() == ["other"]


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    (tmp_path / "b.py").write_text(GOOD)
    (broken,) = load_folder(tmp_path, AdapterKinds())
    assert broken.path.endswith("b.py")

"""docs/adapters.md names every adapter and every setting."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import hubbub.connectors.adapters.included  # noqa: F401  declares them
from hubbub.ports.adapters import declared

PAGE = (Path(__file__).parents[4] / "docs" / "adapters.md").read_text()
NAMED = set(re.findall(r"`([A-Za-z-]+)`", PAGE))
KINDS = [name for name in declared().names() if not name.startswith("test-")]


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_and_its_settings_are_described(kind: str) -> None:
    fields = msgspec.structs.fields(declared().find(kind).settings)
    assert {kind, *(field.encode_name for field in fields)} <= NAMED


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_are_texts_by_the_names_of_their_settings(kind: str) -> None:
    found = declared().find(kind)
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(found.settings)}
    assert found.secrets <= fields.keys()
    assert all("str" in str(fields[name]) for name in found.secrets)

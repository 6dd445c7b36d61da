"""Kinds of adapters: declared by decorator, found by name, with settings that are checked."""

from __future__ import annotations

import msgspec
import pytest

from hubbub.domain.errors import Conflict, InvalidAttribute, NotFound
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterKind,
    AdapterKinds,
    Delivery,
    adapter,
    declared,
)


class ParrotSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: int = 3


@adapter(name="test-parrot", settings=ParrotSettings, stateful=True)
class Parrot:
    def __init__(self, settings: ParrotSettings, context: AdapterContext) -> None:
        self.settings = settings

    async def push(self, delivery: Delivery) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.mark.spec("COMM-02")
def test_a_decorated_class_is_a_kind_of_adapter() -> None:
    kind = declared().find("test-parrot")
    assert kind.make is Parrot
    assert kind.stateful
    assert kind.read({"words": 5}) == ParrotSettings(5)


def test_settings_that_are_none_are_refused_by_name() -> None:
    kind = declared().find("test-parrot")
    with pytest.raises(InvalidAttribute, match=r"test-parrot.*wrods"):
        kind.read({"wrods": 5})


@pytest.mark.spec("COMM-02")
def test_a_taken_name_is_a_conflict_and_an_unknown_one_is_told_what_there_is() -> None:
    kinds = AdapterKinds()
    kinds.add(AdapterKind("parrot", "output", ParrotSettings, Parrot))
    with pytest.raises(Conflict, match="parrot"):
        kinds.add(AdapterKind("parrot", "output", ParrotSettings, Parrot))
    with pytest.raises(NotFound, match=r"'owl'.*parrot"):
        kinds.find("owl")

"""Values of documents over protobuf, written byte by byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.documents.steps import STEP, finish
from hubbub.domain.documents.text import JsonText
from hubbub.domain.documents.values import Bytes, Value, stored_value, value_json
from hubbub.domain.errors import TooLarge
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.protobuf.documents import (
    MOST_VALUES,
    prepare_document,
    read_document,
    read_operations,
    write_document,
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT
    | st.binary(max_size=200).map(Bytes)
)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=60
)


def built(value: Any) -> pb.DocumentValue:
    """The message as the generated classes build it."""
    if isinstance(value, list):
        return pb.DocumentValue(kind=pb.DocumentValue.LIST, items=map(built, value))
    if isinstance(value, dict):
        items = map(built, value.values())
        return pb.DocumentValue(kind=pb.DocumentValue.OBJECT, items=items, keys=list(value))
    if value is None:
        return pb.DocumentValue(null=True)
    names = {bool: "boolean", int: "integer", float: "number", str: "text"}
    if isinstance(value, Bytes):
        return pb.DocumentValue(data=value.data)
    return pb.DocumentValue(**{names[type(value)]: value})


@pytest.mark.spec("DOC-01", "over protobuf")
@given(_VALUES)
def test_what_is_written_is_what_the_generated_classes_write(value: Value) -> None:
    text = JsonText(value_json(value))
    written = write_document(text)
    assert written == built(stored_value(text.text))
    assert write_document(finish(prepare_document(text))) == written
    assert read_document(written, "document").text == value_json(stored_value(text.text))


@pytest.mark.spec("SEC-01", "documents over protobuf")
@pytest.mark.parametrize("value", ["1", "[]", "{}", "[[7]]", '{"a":{}}'])
def test_a_large_document_is_written_in_steps(value: str) -> None:
    text = JsonText(f"[{','.join([value] * 40_000)}]".encode())
    steps = prepare_document(text)
    assert sum(1 for _ in steps) >= 40_000 // STEP


@pytest.mark.spec("SEC-01", "changes over protobuf")
def test_a_change_holds_a_bounded_number_of_values() -> None:
    most = pb.DocumentValue(kind=pb.DocumentValue.LIST)
    most.items.extend([pb.DocumentValue(null=True)] * (MOST_VALUES - 1))
    operations = [pb.DocumentOp(op="add", path="a", value=most)]
    assert read_operations(operations, "change")
    most.items.add(null=True)
    operations = [pb.DocumentOp(op="add", path="a", value=most)]
    with pytest.raises(TooLarge, match=r"32,768 values; make several changes"):
        read_operations(operations, "change")

"""Random changes, held against the library `jsonpatch`."""

import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hubbub.domain.documents.document import JsonDocument
from hubbub.domain.documents.operations import (
    merge_operations,
    read_merge_patch,
    read_patch,
    stored_patch,
)
from hubbub.domain.documents.values import (
    Bytes,
    DocumentLimits,
    admit,
    depth_of,
    size_of,
    stored_value,
    value_json,
)
from hubbub.domain.errors import HubbubError, InvalidPayload

LIMITS = DocumentLimits(document_bytes=400, depth=6)
NAMES = ["a", "b", "0", "1", "-", "", "a/b", "~", "$bytes", "$$bytes", "__proto__", "01", "é"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1.5, -0.0, 1e300, 2**53 - 1]),
    st.sampled_from(["", "x", "é\n", '"']),
    st.sampled_from([{"$bytes": ""}, {"$bytes": "AAEC"}]),
)
plain_scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x"]))


def nested(leaves: st.SearchStrategy[Any], names: list[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(names), inner, max_size=3),
        ),
        max_leaves=8,
    )


values = nested(scalars, NAMES)
segments = st.sampled_from([*NAMES, "2", "3", "1e0", "-1"])


def pointers(of: st.SearchStrategy[str] = segments) -> st.SearchStrategy[str]:
    escaped = of.map(lambda each: each.replace("~", "~0").replace("/", "~1"))
    return st.lists(escaped, max_size=4).map(lambda each: "".join(f"/{part}" for part in each))


def patches(
    of_values: st.SearchStrategy[Any] = values, of: st.SearchStrategy[str] = segments
) -> st.SearchStrategy[Any]:
    path = pointers(of)
    with_value = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "add", "add", "replace"]), "path": path, "value": of_values}
    )
    of_path = st.fixed_dictionaries({"op": st.just("remove"), "path": path})
    between = st.fixed_dictionaries(
        {"op": st.sampled_from(["move", "copy"]), "from": path, "path": path}
    )
    return st.lists(st.one_of(with_value, with_value, between, of_path), min_size=1, max_size=5)


def admitted(value: Any) -> JsonDocument:
    return JsonDocument(admit(json.loads(json.dumps(value)), LIMITS, LIMITS.depth))


@pytest.mark.spec("DOC-02", "what subscribers get: plain RFC 6902, which any library can follow")
@settings(max_examples=1500)
@given(start=values, patch=patches())
@example(start={"$$bytes": 1}, patch=[{"op": "copy", "from": "/$bytes", "path": ""}])
def test_a_stock_library_follows_every_change(start: Any, patch: Any) -> None:
    try:
        document = admitted(start)
        operations = read_patch(json.dumps(patch).encode(), LIMITS)
    except HubbubError:
        assume(False)
    before = document.json()
    try:
        emitted = document.apply(operations, LIMITS)
    except HubbubError:
        assert json.loads(document.json()) == json.loads(before), "it changes nothing"
        assert document.size == size_of(document.root)
        return
    assert document.size == size_of(document.root) <= LIMITS.document_bytes
    assert depth_of(document.root) <= LIMITS.depth
    told = b"[%b]" % b",".join(emitted)
    followed = jsonpatch.apply_patch(json.loads(before), json.loads(told))
    assert json.dumps(followed, sort_keys=True) == json.dumps(
        json.loads(document.json()), sort_keys=True
    )
    copy = JsonDocument.stored(before)
    copy.follow(stored_patch(told))
    assert copy.root == document.root
    assert copy.size == document.size


@pytest.mark.spec("DOC-01", "the six operations, as another library applies them")
@settings(max_examples=600)
@given(
    start=nested(plain_scalars, ["a", "b", "c"]),
    patch=patches(nested(plain_scalars, ["a", "b", "c"]), st.sampled_from(["a", "b", "0", "1"])),
)
def test_where_the_stock_library_applies_a_patch_the_result_is_the_same(
    start: Any, patch: Any
) -> None:
    try:
        expected = jsonpatch.apply_patch(json.loads(json.dumps(start)), patch)
    except Exception:  # noqa: BLE001 - the library raises several kinds, some by accident
        assume(False)
    limits = DocumentLimits()
    document = JsonDocument(admit(json.loads(json.dumps(start)), limits, limits.depth))
    # The library takes a list's name for an index in places; it moves a value into itself.
    inside = [
        each
        for each in patch
        if each["op"] == "move" and each["path"].startswith(each["from"] + "/")
    ]
    removes_root = [each for each in patch if each["op"] == "remove" and not each["path"]]
    assume(not inside and not removes_root)
    document.apply(read_patch(json.dumps(patch).encode(), limits), limits)
    assert json.loads(document.json()) == json.loads(json.dumps(expected))


@pytest.mark.spec("DOC-01", "bytes beside JSON, whatever members are called")
@settings(max_examples=500)
@given(value=values)
def test_a_value_is_the_same_after_it_was_written_and_read(value: Any) -> None:
    limits = DocumentLimits()
    try:
        found = admit(json.loads(json.dumps(value)), limits, limits.depth)
    except InvalidPayload:  # `$bytes` without base64
        assume(False)
    again = stored_value(value_json(found))
    assert again == found
    assert admit(json.loads(value_json(found)), limits, limits.depth) == found


@pytest.mark.spec("DOC-01", "merge patches (RFC 7396)")
@settings(max_examples=500)
@given(start=nested(plain_scalars, ["a", "b"]), patch=nested(plain_scalars, ["a", "b"]))
def test_a_merge_patch_does_what_its_specification_says(start: Any, patch: Any) -> None:
    limits = DocumentLimits()
    document = JsonDocument(json.loads(json.dumps(start)))
    merge = read_merge_patch(json.dumps(patch).encode(), limits)
    document.apply(merge_operations(document.root, merge), limits)
    assert document.root == specified(json.loads(json.dumps(start)), patch)


def specified(target: Any, patch: Any) -> Any:
    """The pseudo code of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = specified(result.get(name), value)
    return result


@pytest.mark.spec("DOC-01", "bytes are a scalar to merge patches")
def test_bytes_in_a_merge_patch_replace_what_was_there() -> None:
    document = JsonDocument({"a": {"b": 1}})
    merge = read_merge_patch(b'{"a":{"$bytes":"aGk="}}', DocumentLimits())
    document.apply(merge_operations(document.root, merge), DocumentLimits())
    assert document.root == {"a": Bytes(b"hi")}
    assert not list(merge_operations({}, {}))

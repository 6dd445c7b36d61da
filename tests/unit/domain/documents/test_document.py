import contextlib
import gc
import json
import tracemalloc
from typing import Any

import pytest

from hubbub.domain.documents.document import JsonDocument
from hubbub.domain.documents.operations import (
    Operation,
    merge_operations,
    read_merge_patch,
    read_patch,
    stored_patch,
)
from hubbub.domain.documents.paths import parse_path, path_text
from hubbub.domain.documents.steps import STEP
from hubbub.domain.documents.values import (
    Bytes,
    DocumentLimits,
    admit,
    admit_steps,
    depth_steps,
)
from hubbub.domain.errors import (
    HubbubError,
    InvalidPatch,
    InvalidPayload,
    NotFound,
    PatchFailed,
    TooLarge,
)

LIMITS = DocumentLimits()
pytestmark = pytest.mark.spec("DOC-01")


def changed(start: Any, *operations: Any, limits: DocumentLimits = LIMITS) -> tuple[Any, Any]:
    """The document afterwards, and the operations that subscribers are told."""
    document = JsonDocument(admit(json.loads(json.dumps(start)), limits, limits.depth))
    emitted = document.apply(read_patch(json.dumps(operations).encode(), limits), limits)
    return json.loads(document.json()), [json.loads(each) for each in emitted]


def add(path: str, value: Any) -> Any:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.parametrize(
    ("start", "path", "after", "told"),
    [
        ({}, "/a/b/c", {"a": {"b": {"c": 1}}}, [add("/a", {"b": {"c": 1}})]),
        ({}, "a/b", {"a": {"b": 1}}, [add("/a", {"b": 1})]),
        ({}, "/a/0", {"a": [1]}, [add("/a", [1])]),
        ({}, "/a/-/b", {"a": [{"b": 1}]}, [add("/a", [{"b": 1}])]),
        ({}, "/", {"": 1}, [add("/", 1)]),
        ({"a": {}}, "a/", {"a": {"": 1}}, [add("/a/", 1)]),
        ({"a": 5}, "/a/b", {"a": {"b": 1}}, [{"op": "replace", "path": "/a", "value": {"b": 1}}]),
        ({"a": None}, "/a/-", {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}]),
        (
            {"a": {"$bytes": "aGk="}},
            "/a/b",
            {"a": {"b": 1}},
            [{"op": "replace", "path": "/a", "value": {"b": 1}}],
        ),
        (5, "/a", {"a": 1}, [{"op": "replace", "path": "", "value": {"a": 1}}]),
        ({"a": [7]}, "/a/-", {"a": [7, 1]}, [add("/a/1", 1)]),
        ({"a": [7]}, "/a/1/x", {"a": [7, {"x": 1}]}, [add("/a/1", {"x": 1})]),
        ({"a": {}}, "/a/0", {"a": {"0": 1}}, [add("/a/0", 1)]),
        ({"a": {}}, "/a/-", {"a": {"-": 1}}, [add("/a/-", 1)]),
        (
            {"a": [7, 8]},
            "/a/x",
            {"a": {"0": 7, "1": 8, "x": 1}},
            [{"op": "replace", "path": "/a", "value": {"0": 7, "1": 8}}, add("/a/x", 1)],
        ),
        ({}, "/__proto__/x", {"__proto__": {"x": 1}}, [add("/__proto__", {"x": 1})]),
        ({}, "/~0~1", {"~/": 1}, [add("/~0~1", 1)]),
    ],
)
def test_parents_are_created_or_converted_as_the_next_segment_asks(
    start: Any, path: str, after: Any, told: Any
) -> None:
    assert changed(start, add(path, 1)) == (after, told)


@pytest.mark.parametrize(
    ("start", "operation", "reason"),
    [
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}, "test"),
        ({"a": True}, {"op": "test", "path": "/a", "value": 1}, "test"),
        ({"a": {"$bytes": "aGk="}}, {"op": "test", "path": "/a", "value": "hi"}, "test"),
        ({}, {"op": "remove", "path": "/a"}, "missing"),
        ({}, {"op": "replace", "path": "/a/b", "value": 1}, "missing"),
        ({"a": 5}, {"op": "remove", "path": "/a/b"}, "missing"),
        ({"a": [1]}, {"op": "remove", "path": "/a/1"}, "missing"),
        ({"a": [1]}, {"op": "remove", "path": "/a/-"}, "index"),
        ({"a": [1]}, add("/a/3", 1), "index"),
        ({"a": [1]}, add("/a/01", 1), "index"),
        ({"a": [1]}, add("/a/-1", 1), "index"),
        ({"a": [1]}, add("/a/1e0/b", 1), "index"),
        ({"a": [1]}, add("/a/" + "9" * 900, 1), "index"),
        ({}, add("/a/1", 1), "index"),
        ({"a": 1}, {"op": "move", "from": "/b", "path": "/c"}, "missing"),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}, "inside"),
        ({"a": {"b": 1}}, {"op": "move", "from": "", "path": "/a"}, "inside"),
    ],
)
def test_an_operation_that_does_not_fit_undoes_those_before_it(
    start: Any, operation: Any, reason: str
) -> None:
    document = JsonDocument(admit(json.loads(json.dumps(start)), LIMITS, LIMITS.depth))
    before = json.loads(document.json())
    patch = json.dumps([add("/new/x", [1]), operation]).encode()
    with pytest.raises(PatchFailed) as failed:
        document.apply(read_patch(patch, LIMITS), LIMITS)
    assert failed.value.details == {"opIndex": 1, "reason": reason}
    assert json.loads(document.json()) == before


@pytest.mark.parametrize(
    ("start", "operation", "after"),
    [
        ({"a": 1}, {"op": "remove", "path": ""}, {}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/0", "value": 9}, {"a": [9, 2]}),
        ({"a": [1, 2, 3]}, {"op": "move", "from": "/a/0", "path": "/a/-"}, {"a": [2, 3, 1]}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/a"}, {"a": 1}),
        ({"a": 5}, {"op": "copy", "from": "/a", "path": "/a/b"}, {"a": {"b": 5}}),
        ({"a": 5}, {"op": "move", "from": "/a", "path": "/b/c"}, {"b": {"c": 5}}),
        ({"a": {}}, {"op": "copy", "from": "", "path": "/a/b"}, {"a": {"b": {"a": {}}}}),
    ],
)
def test_operations_change_the_document(start: Any, operation: Any, after: Any) -> None:
    assert changed(start, operation)[0] == after


def test_tests_and_moves_onto_themselves_are_no_change() -> None:
    found = changed(
        {"a": 1},
        {"op": "test", "path": "/a", "value": 1.0},
        {"op": "move", "from": "/a", "path": "a"},
    )
    assert found == ({"a": 1}, [])


def test_a_copy_is_independent() -> None:
    after, _ = changed({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, add("/b/-", 2))
    assert after == {"a": [1], "b": [1, 2]}


@pytest.mark.parametrize(
    "patch",
    [
        '{"op":"add"}',
        "[5]",
        '[{"op":"spam","path":""}]',
        '[{"op":["add"],"path":"","value":1}]',
        '[{"path":"/a","value":1}]',
        '[{"op":"add","value":1}]',
        '[{"op":"add","path":7,"value":1}]',
        '[{"op":"add","path":"/a"}]',
        '[{"op":"move","path":"/a"}]',
        '[{"op":"copy","path":"/a","from":null}]',
        '[{"op":"add","path":"/a~2b","value":1}]',
        '[{"op":"remove","path":"/a~"}]',
    ],
)
def test_what_is_no_operation_is_an_invalid_patch(patch: str) -> None:
    with pytest.raises(InvalidPatch):
        read_patch(patch.encode(), LIMITS)


@pytest.mark.parametrize(
    "value",
    [
        "9007199254740993",
        "-9007199254740993",
        "1152921504606847001",
        "1" + "0" * 400,
        "1" + "0" * 5000,
        "1e999",
        "NaN",
        "Infinity",
        '"\\ud800"',
        '{"$bytes":"aGk"}',
        '{"$bytes":"a b="}',
        '{"$bytes":5}',
        '{"a":}',
    ],
)
def test_a_value_that_not_everyone_could_read_is_refused(value: str) -> None:
    with pytest.raises(InvalidPayload):
        read_patch(b'[{"op":"add","path":"/a","value":%b}]' % value.encode(), LIMITS)


def test_a_lone_surrogate_is_named() -> None:
    with pytest.raises(InvalidPayload, match="lone surrogate"):
        read_patch(b'[{"op":"add","path":"/a","value":"\\ud800"}]', LIMITS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0", 1),
        ("-0", 0),
        ("-0.0", 0),
        ("9007199254740991", 2**53 - 1),
        ("1e15", 10**15),
        ("1e300", 1e300),
        ("9007199254740992", 2.0**53),
        ("1152921504606847000", 2.0**60),  # as JavaScript writes it
        ("1152921504606846976", 2.0**60),
        ("-100000000000000000000", -1e20),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"$bytes":"aGk="}', Bytes(b"hi")),
        ('{"$$bytes":"x"}', {"$bytes": "x"}),
        ('{"$$$bytes":{"$bytes":""}}', {"$$bytes": Bytes(b"")}),
        ('{"$bytes":"x","b":1}', {"$bytes": "x", "b": 1}),
    ],
)
def test_values_are_read(text: str, value: Any) -> None:
    (operation,) = read_patch(b'[{"op":"add","path":"","value":%b}]' % text.encode(), LIMITS)
    assert operation.value == value
    assert type(operation.value) is type(value)


def refused(start: Any, *operations: Any, limits: DocumentLimits = LIMITS) -> HubbubError:
    with pytest.raises(TooLarge) as caught:
        changed(start, *operations, limits=limits)
    return caught.value


def test_depth_is_bounded_whichever_way_it_comes() -> None:
    limits = DocumentLimits(depth=4)
    deep: Any = {"a": {"b": {"c": {}}}}
    assert changed({}, add("", deep), limits=limits)[0] == deep
    refused({}, add("/x", deep), limits=limits)
    refused({}, add("/a/b/c/d/e", 1), limits=limits)
    refused(deep, {"op": "copy", "from": "", "path": "/a/z"}, limits=limits)
    refused(
        {"x": {}, "a": {"b": {"c": {}}}},
        {"op": "move", "from": "/a", "path": "/x/a"},
        limits=limits,
    )
    refused({}, add("/a", json.loads("[" * 200 + "]" * 200)), limits=limits)
    with pytest.raises(TooLarge):
        read_patch(b'[{"op":"add","path":"","value":%b}]' % (b"[" * 5000 + b"]" * 5000), LIMITS)


def test_a_document_stays_within_its_size_after_every_operation() -> None:
    limits = DocumentLimits(document_bytes=100)
    big = "x" * 90
    refused({}, add("/a", big), add("/b", big), limits=limits)
    # Also where a later operation would have made room.
    refused({"a": big}, add("/b", big), {"op": "remove", "path": "/a"}, limits=limits)
    after, _ = changed({"a": big}, {"op": "remove", "path": "/a"}, add("/b", big), limits=limits)
    assert after == {"b": big}


def test_copies_of_copies_do_not_explode() -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/{n}"} for n in range(50)]
    refused({"a": "x" * 1000}, *doubling)
    bounded = DocumentLimits(document_bytes=5000)
    again = [{"op": "copy", "from": "/a", "path": "/b"}] * 6
    refused({"a": "x" * 1000}, *again, limits=bounded)


def test_requests_are_bounded() -> None:
    with pytest.raises(TooLarge):
        read_patch(json.dumps([add("/a", 1)] * 1001).encode(), LIMITS)
    with pytest.raises(TooLarge):
        read_patch(json.dumps([add("/a", "x" * 300_000)]).encode(), LIMITS)
    refused({}, add("/" + "n" * 1025, 1))
    refused({}, add("/a", {"é" * 600: 1}))


def test_bytes_count_with_their_own_length() -> None:
    limits = DocumentLimits(document_bytes=1010)
    document = JsonDocument()
    patch = b'[{"op":"add","path":"/a","value":{"$bytes":"%b"}}]' % (b"AAAA" * 333)
    document.apply(read_patch(patch, limits), limits)
    assert document.size == len('{"a":}') + 999


def test_a_member_called_bytes_is_told_with_the_whole_document() -> None:
    after, told = changed({"a": 1}, add("/o/$bytes", "x"), add("/o/b", 1))
    assert after == {"a": 1, "o": {"$bytes": "x", "b": 1}}
    assert told == [{"op": "replace", "path": "", "value": after}]
    after, _ = changed({"a": 1}, add("/o/$bytes", "x"))
    assert after == {"a": 1, "o": {"$$bytes": "x"}}


def test_a_change_far_from_a_member_called_bytes_is_told_alone() -> None:
    start = {"o": {"$$bytes": 1}, "p": {"a": 1, "b": 2}}
    far = [add("/p/c", {"$bytes": "aGk="}), {"op": "remove", "path": "/p/a"}]
    assert changed(start, *far)[1] == far
    near = {"op": "move", "from": "/p/a", "path": "/o/a"}
    after, told = changed(start, near)
    assert told == [{"op": "replace", "path": "", "value": after}]


def part(values: int) -> list[Any]:
    return [[] for _ in range(values)]


def test_a_moved_part_is_not_looked_through() -> None:
    document = JsonDocument({"part": part(50_000), "there": {}})
    there_and_back = [
        {"op": "move", "from": "/part", "path": "/other"},
        {"op": "move", "from": "/other", "path": "/part"},
    ] * 500
    document.apply(read_patch(json.dumps(there_and_back).encode(), LIMITS), LIMITS)
    assert document.visits < 10 * len(there_and_back)


@pytest.mark.spec("SEC-01")
@pytest.mark.parametrize("value", [part(50_000), [0] * 50_000, {"a": part(50_000)}])
def test_each_step_looks_at_a_bounded_number_of_values(value: Any) -> None:
    for work in (admit_steps(value, LIMITS, 60), depth_steps(value)):
        assert sum(1 for _ in work) >= 50_000 // STEP


@pytest.mark.spec("SEC-01")
@pytest.mark.parametrize(
    ("start", "operations"),
    [
        pytest.param(
            {"a": part(3_000), "b": {}},
            [
                {"op": "move", "from": "/a", "path": "/b/c"},
                {"op": "move", "from": "/b/c", "path": "/a"},
            ],
            id="a large part is moved deeper",
        ),
        pytest.param([0] * 20_000, [add("/0", 1)], id="items are put before many others"),
        pytest.param(
            [0] * 20_000,
            [{"op": "move", "from": "/0", "path": "/-"}],
            id="the first of many items goes",
        ),
    ],
)
def test_what_a_change_looks_through_is_bounded_but_not_where_it_is_followed(
    start: Any, operations: list[Any]
) -> None:
    limits = DocumentLimits(document_bytes=100_000)
    patch = json.dumps(operations * 400).encode()
    document = JsonDocument(admit(json.loads(json.dumps(start)), limits, limits.depth))
    with pytest.raises(TooLarge, match="look through more than 50000 values") as refusal:
        document.apply(read_patch(patch, limits), limits)
    assert 10 < refusal.value.details["opIndex"] < 800
    assert json.loads(document.json()) == start
    assert document.visits < 2 * limits.visits
    document.follow(stored_patch(patch))  # as an earlier version stored it


@pytest.mark.spec("SEC-01")
def test_a_large_part_that_becomes_the_whole_again_and_again_is_measured_in_steps() -> None:
    start: Any = [0] * 200_000
    for _ in range(20):
        start = {"a": start}
    document = JsonDocument(start)
    moves = json.dumps([{"op": "move", "from": "/a", "path": ""}] * 20).encode()
    assert sum(1 for _ in document.apply_steps(read_patch(moves, LIMITS), LIMITS)) >= 19
    assert document.size == len(document.json()) == 400_001


@pytest.mark.spec("SEC-01")
def test_a_list_that_is_too_long_for_an_object_is_refused_before_the_object_is_made() -> None:
    document = JsonDocument([0] * 240_000)
    tracemalloc.start()
    with pytest.raises(TooLarge, match="copies more than"):
        document.apply(read_patch(json.dumps([add("/x", 1)]).encode(), LIMITS), LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * LIMITS.document_bytes


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 100, 101, 1000])
def test_the_size_of_a_list_that_becomes_an_object_is_known_exactly(count: int) -> None:
    document = JsonDocument({"l": [0] * count})
    document.apply(read_patch(json.dumps([add("/l/x", 1)]).encode(), LIMITS), LIMITS)
    assert document.size == len(document.json())


def test_an_update_does_not_outweigh_what_a_document_may() -> None:
    limits = DocumentLimits(document_bytes=20_000, name_bytes=4096)
    name = "n" * 2_000
    document = JsonDocument({name: {name: {}}})
    patch = {name: {name: {str(number): 0 for number in range(1_000)}}}
    merge = read_merge_patch(json.dumps(patch).encode(), limits)
    told = document.apply(merge_operations(document.root, merge), limits)
    assert [json.loads(each) for each in told] == [{"op": "replace", "path": "", "value": patch}]


def test_a_part_of_a_document() -> None:
    document = JsonDocument({"a": [{"b": 1}], "": 2})
    assert document.part_json(parse_path("a/0")) == b'{"b":1}'
    assert document.part_json(parse_path("/")) == b"2"
    for path in ("/x", "/a/1", "/a/-", "/a/0/b/c"):
        with pytest.raises(NotFound):
            document.part(parse_path(path))


def test_paths_are_written_as_pointers() -> None:
    assert path_text(()) == ""
    assert path_text(("",)) == "/"
    assert path_text(("a/b", "~", "0")) == "/a~1b/~0/0"


def test_no_change_waits_for_the_garbage_collector_with_what_it_replaced() -> None:
    """The collector looks at old objects when memory has doubled, and stops the loop meanwhile."""
    document = JsonDocument({"part": [[n] for n in range(100)], "small": {}})
    deep = Operation("move", ("small", "a"), ("part",))
    back = Operation("move", ("part",), ("small", "a"))
    limits = DocumentLimits(document_bytes=2000)
    gc.collect()
    document.apply([Operation("replace", (), None, {"part": [[0]] * 300, "small": {}})], limits)
    with contextlib.suppress(TooLarge):
        document.apply([deep, back] * 500, limits)
    assert gc.collect() == 0

"""The public test suite of JSON Patch, run against documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from hubbub.domain.documents.document import JsonDocument
from hubbub.domain.documents.operations import read_patch
from hubbub.domain.documents.values import DocumentLimits, admit
from hubbub.domain.errors import HubbubError

FOLDER = Path(__file__).parent / "json_patch_suite"
LIMITS = DocumentLimits()

# Cases that end otherwise than RFC 6902 says, by decision, and the document afterwards. Beside them
# the suite has two with an object that names `op` twice: the last one counts, as in browsers.
DECIDED: dict[str, Any] = {
    # A missing parent is created.
    "spec_tests.json-0": {"q": {"bar": 2}, "a": {"b": 1}},
    "spec_tests.json-12": {"foo": "bar", "baz": {"bat": "qux"}},
    # A list that is asked for a name becomes an object, with its items under their indexes.
    "tests.json-28": {"0": "foo", "1": "sil", "bar": 42},
}


def cases() -> list[Any]:
    found = []
    for name in ("spec_tests.json", "tests.json"):
        for number, case in enumerate(json.loads((FOLDER / name).read_text())):
            if "doc" in case and not case.get("disabled"):
                found.append(pytest.param(case, id=f"{name}-{number}"))
    return found


@pytest.mark.spec("DOC-01")
@pytest.mark.parametrize("case", cases())
def test_every_case_of_the_public_suite_holds_but_those_decided_otherwise(
    case: Any, request: pytest.FixtureRequest
) -> None:
    document = JsonDocument(admit(case["doc"], LIMITS, LIMITS.depth))
    before = document.json()
    try:
        document.apply(read_patch(json.dumps(case["patch"]).encode(), LIMITS), LIMITS)
    except HubbubError:
        assert "error" in case, case
        assert document.json() == before
        return
    if "error" in case:
        decided = DECIDED[request.node.callspec.id]
        assert json.loads(document.json()) == decided
    elif "expected" in case:
        assert json.loads(document.json()) == case["expected"]

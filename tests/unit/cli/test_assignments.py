"""KEY=VALUE arguments, checked against the settings that there are."""

from __future__ import annotations

import msgspec
import pytest

from hubbub.cli.administration.assignments import assign
from hubbub.domain.rules import HubSettings, Rules


@pytest.mark.parametrize(
    ("assignment", "changed"),
    [
        ("allowAnonymous=on", {"allowAnonymous": True}),
        ("defaultRules=open", {"defaultRules": "open"}),
        ("defaultRules=", {"defaultRules": None}),
        ("allowedOrigins=https://a, https://b", {"allowedOrigins": ["https://a", "https://b"]}),
        ("allowedOrigins=", {"allowedOrigins": []}),
        ("quotas.sessions=7", {"quotas": {"sessions": 7}}),
        ("callbackAddresses=private", {"callbackAddresses": "private"}),
    ],
)
def test_a_value_is_read_by_the_type_of_its_default(
    assignment: str, changed: dict[str, object]
) -> None:
    assert assign({}, (assignment,), msgspec.to_builtins(HubSettings())) == changed


def test_what_is_not_named_stays_and_the_original_is_not_touched() -> None:
    before = {"store": True, "journal": "off"}
    after = assign(before, ("maxAgeSeconds=60",), msgspec.to_builtins(Rules()))
    assert after == {"store": True, "journal": "off", "maxAgeSeconds": 60}
    assert before == {"store": True, "journal": "off"}

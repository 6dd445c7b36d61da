"""Updates of Mercure: the fields of a form, and ids."""

from __future__ import annotations

import pytest

from hubbub.domain.errors import BadRequest, TooLarge
from hubbub.domain.mercure.updates import Update, read_id, read_update, update_id

pytestmark = pytest.mark.spec("MERCURE-01")


def test_a_form_becomes_an_update() -> None:
    fields = [("topic", "a"), ("topic", "b"), ("topic", "a"), ("data", "x"), ("private", "")]
    assert read_update([*fields, ("type", "t"), ("retry", "5"), ("other", "1")]) == Update(
        ("a", "b"), "x", private=True, type="t", retry=5
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([("data", "x")], "at least one field `topic`"),
        ([("topic", "")], "has 0 characters"),
        ([("topic", "x" * 2049)], "has 2049 characters"),
        ([("topic", str(n)) for n in range(17)], "at most 16 topics, not 17"),
        ([("topic", "a"), ("id", "#1")], "`id` must not begin with '#'"),
        ([("topic", "a"), ("type", "a\nb")], "`type` is"),
        ([("topic", "a"), ("retry", "-1")], "`retry` is '-1'"),
        ([("topic", "a"), ("retry", "1e3")], "`retry` is '1e3'"),
        ([("topic", "a"), ("retry", "99999999999")], "`retry` is"),
    ],
)
def test_a_wrong_field_is_named(fields: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(BadRequest, match="^.*" + words.replace("(", r"\(")):
        read_update(fields)


def test_topics_that_do_not_fit_together_are_too_large() -> None:
    with pytest.raises(TooLarge, match="at most 7168 fit together"):
        read_update([("topic", f"{number}{'x' * 2000}") for number in range(4)])


@pytest.mark.parametrize("text", ["", "earliest", "urn:uuid:1", "urn:hubbub:e:", "urn:hubbub:e:-1"])
def test_an_id_of_another_hub_means_everything_that_is_kept(text: str) -> None:
    assert read_id(text) == (None, 0)


def test_an_id_names_a_position() -> None:
    assert read_id(update_id("be5ad7cb", 12)) == ("be5ad7cb", 12)
    assert update_id("be5ad7cb", 0) == "earliest"

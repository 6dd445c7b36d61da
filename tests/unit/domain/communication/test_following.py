"""Whatever is published to a channel becomes a message that can be sent to the peer who follows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.communication.following import copy_to_peer, is_of_another, subscription_of
from hubbub.domain.communication.messages import RESERVED_TYPES, check_fields, check_sent
from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.webhooks import Webhook

pytestmark = pytest.mark.spec("COMM-01", "COMM-07")

NEWS = Webhook("acme", "club:news", "a" * 32, "peer", "ann", "club:news")
TEXTS = st.none() | st.text(max_size=300)


def published(**more: Any) -> Message:
    fields = {"id": "m1", "hub": "acme", "channel": "club:news", "event": "note", "payload": b"1",
              "content_type": "application/json", "published_at": 0, "serial": 7}  # fmt: skip
    return Message(**{**fields, **more})


@given(
    id=st.text(min_size=1, max_size=300),
    event=st.text(max_size=300) | st.sampled_from(sorted(RESERVED_TYPES)),
    payload=st.binary(max_size=50),
    content_type=st.sampled_from(["application/json", "text/plain", "image/png"]),
    publisher=TEXTS,
    attributes=st.builds(
        Attributes,
        subtype=TEXTS,
        conversation_id=TEXTS,
        language=TEXTS,
        ttl=st.none() | st.integers(0, 2**53),
        headers=st.none()
        | st.dictionaries(
            st.sampled_from(["subject", "via", "x"]),
            st.text(max_size=2000) | st.integers() | st.lists(st.integers()),
        ),
    ),
)
def test_a_copy_has_all_fields_within_their_bounds(attributes: Attributes, **fields: Any) -> None:
    copy = copy_to_peer(NEWS, published(attributes=attributes, **fields))
    if copy is None:
        return
    check_fields(msgspec.structs.replace(copy, id="x"))
    assert copy.type not in RESERVED_TYPES
    assert subscription_of(copy.id) == NEWS.id
    with pytest.raises(InvalidAttribute):
        check_sent(copy)  # nobody else makes such ids


@pytest.mark.spec("COMM-14")
@pytest.mark.parametrize("event", ["AUTH", "CONTROL"])
def test_a_follower_gets_no_report_or_token_of_another_peer(event: str) -> None:
    def is_passed_over(receiver: str | None, kind: str = event) -> bool:
        attributes = Attributes(receiver=receiver)
        return is_of_another(NEWS, published(event=kind, attributes=attributes))

    assert is_passed_over("bob")
    assert not is_passed_over("ann")
    assert not is_passed_over(None)
    assert not is_passed_over("bob", "note")
    assert not is_of_another(NEWS, published(event=event))


def test_a_copy_that_comes_back_to_its_channel_goes_no_further() -> None:
    copy = copy_to_peer(NEWS, published())
    assert copy is not None
    assert (copy.content, copy.headers["message"], copy.headers["serial"]) == ("1", "m1", "7")
    again = published(id="m2", attributes=Attributes(headers=dict(copy.headers)))
    assert copy_to_peer(NEWS, again) is None
    elsewhere = msgspec.structs.replace(NEWS, channel="club:other")
    further = copy_to_peer(elsewhere, again)
    assert further is not None
    assert len(further.headers["via"].split()) == 2

"""Who answers a method, who may call it, and who may submit to a stream."""

from __future__ import annotations

import pytest

from hubbub.domain.errors import InvalidName
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.domain.rules import RpcRoute
from hubbub.domain.services import check_stream, may_call, may_submit, route_for, stream_channel


@pytest.mark.spec("RPC-01")
@pytest.mark.parametrize(
    ("method", "url"),
    [("cart.add", "add"), ("cart.remove", "cart"), ("pay", "all"), ("x", "all")],
)
def test_the_longest_pattern_wins_whatever_the_order(method: str, url: str) -> None:
    routes = {
        "a": RpcRoute("*", "all"),
        "b": RpcRoute("cart.*", "cart"),
        "c": RpcRoute("cart.add", "add"),
        "d": RpcRoute("cart.add", "never"),  # of equals the first by name
    }
    for named in (routes, dict(reversed(routes.items()))):
        found = route_for(named, method)
        assert found is not None
        assert found.url == url


@pytest.mark.spec("RPC-01")
def test_without_a_match_there_is_no_route() -> None:
    assert route_for({"a": RpcRoute("cart.*", "u")}, "pay") is None
    assert route_for({}, "pay") is None


@pytest.mark.spec("RPC-01", "LIVE-07")
def test_clients_call_what_their_patterns_match_and_services_everything() -> None:
    client = Identity(user_id="ann", rpcs=("cart.#", "pay"))
    assert may_call(client, "cart.add")
    assert not may_call(client, "cart.add:now")
    assert may_call(client, "pay")
    assert not may_call(client, "pay.now")
    assert not may_call(Identity(), "pay")
    assert may_call(Identity(level=Level.SERVICE), "pay")


@pytest.mark.spec("LIVE-18", "LIVE-07")
def test_a_stream_is_granted_as_a_channel_of_its_namespace() -> None:
    assert stream_channel("clicks") == "stream:clicks"
    granted = Identity(
        grants=(
            Grant("stream:cl*", publish=True),
            Grant("stream:views"),
        )
    )
    assert may_submit(granted, "clicks")
    assert not may_submit(granted, "views")
    assert may_submit(Identity(level=Level.ADMIN), "views")


@pytest.mark.spec("LIVE-18")
def test_the_name_of_a_stream_leaves_room_for_its_namespace() -> None:
    assert check_stream("x" * 248)
    for wrong in ("", "a*", "a#", "a\n", "x" * 249):
        with pytest.raises(InvalidName):
            check_stream(wrong)

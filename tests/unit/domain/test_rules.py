"""Which rules apply to a channel, whatever is declared."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.names import ChannelKind
from hubbub.domain.rules import ChannelSettings, HubConfiguration, HubSettings, Rules

RULES_IDS = st.sampled_from(["r1", "r2", "r3", "missing"])
RULES = {"r1": Rules(public=True), "r2": Rules(store=True), "r3": Rules(presence=True)}


@pytest.mark.spec("LIVE-11")
@given(
    own=st.none() | RULES_IDS,
    namespace=st.none() | RULES_IDS,
    default=st.none() | RULES_IDS,
    public=st.booleans(),
    anonymous=st.booleans(),
)
def test_the_channel_wins_over_its_namespace_and_that_over_the_default(
    own: str | None, namespace: str | None, default: str | None, public: bool, anonymous: bool
) -> None:
    hub = HubConfiguration(
        hub="acme",
        settings=HubSettings(
            default_rules=default, default_public=public, allow_anonymous=anonymous
        ),
        rules=RULES,
        namespaces={"room": namespace} if namespace else {},
        channels={"room:1": ChannelSettings(rules=own)},
    )
    candidates = [each for each in (own, namespace, default) if each in RULES]
    bare = Rules(public=public, allow_anonymous=anonymous)
    assert hub.rules_for("room:1") == (RULES[candidates[0]] if candidates else bare)
    others = [each for each in (namespace, default) if each in RULES]
    assert hub.rules_for("room:2") == (RULES[others[0]] if others else bare)
    assert hub.rules_for("room") == RULES.get(default or "", bare)


@pytest.mark.spec("OPS-02")
def test_a_hub_without_settings_opens_nothing() -> None:
    assert HubConfiguration("acme").rules_for("a") == Rules()
    assert Rules() == Rules(public=False, client_publish=False, allow_anonymous=False)


@pytest.mark.spec("LIVE-12")
@given(st.builds(Rules, *[st.booleans()] * 9))
def test_notification_channels_take_only_public_and_anonymous(rules: Rules) -> None:
    left = rules.for_kind(ChannelKind.NOTIFICATION)
    opened = Rules(public=rules.public, allow_anonymous=rules.allow_anonymous)
    assert left == msgspec.structs.replace(opened, live_history=False)
    assert rules.for_kind(ChannelKind.DEFAULT) == rules
    assert not rules.for_kind(ChannelKind.DOCUMENT).keeps_live_history

"""Metrics that are made from tables."""

from __future__ import annotations

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from hubbub.engine.counters import HubCounters, TopicCounters
from hubbub.engine.topics import durable
from hubbub.engine.topics.lags import HubLag
from hubbub.engine.webhooks.counting import HubWebhooks, PushCounters
from hubbub.server import telemetry
from hubbub.server.telemetry import webhooks
from hubbub.server.telemetry.families import Figure, by_hub


@pytest.mark.parametrize(
    ("figures", "known"),
    [
        (telemetry._COUNTERS, HubCounters()),
        (telemetry._GAUGES, HubCounters()),
        (durable._TOTALS, TopicCounters()),
        (telemetry._LAGS, HubLag()),
        (webhooks._COUNTERS, PushCounters()),
        (webhooks._GAUGES, HubWebhooks()),
    ],
)
def test_every_figure_of_a_table_is_known_of_a_hub(
    figures: tuple[Figure, ...], known: object
) -> None:
    for family in by_hub(GaugeMetricFamily, figures, {"acme": known}):
        (sample,) = family.samples
        assert (sample.labels, sample.value) == ({"hub": "acme"}, 0)


def test_a_family_has_a_series_for_each_hub() -> None:
    first, second = HubCounters(), HubCounters()
    first.messages_in, second.messages_in = 3, 5
    figures = (("messages_in", "messages_in", "Messages."),)
    (family,) = by_hub(CounterMetricFamily, figures, {"a": first, "b": second})
    assert (family.name, family.documentation) == ("hubbub_messages_in", "Messages.")
    assert {s.labels["hub"]: s.value for s in family.samples} == {"a": 3, "b": 5}

"""Series of figures: rates, bounds, and what is joined."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import Alone
from hubbub.engine.administration import series
from hubbub.engine.administration.series import SeriesRecorder
from hubbub.engine.counters import HubCounters


@pytest.mark.spec("UI-01", "ADMIN-05")
async def test_rates_are_per_second_and_the_oldest_rows_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "_SECONDS", 30)
    monkeypatch.setattr(series, "_TENS", 20)
    monkeypatch.setattr(series, "MOST_ROWS", 10)
    async with Alone(tmp_path) as alone:
        node = alone.node.node
        counted = node.counters["acme"] = HubCounters(sessions_opened=3)
        recorder = SeriesRecorder(node, lambda: (0.0, 0))
        for second in range(400):
            recorder.record()
            recorder.record()  # twice in a second counts once
            counted.messages_in += 7
            counted.bytes_out += 2**33 if second == 398 else 0
            alone.clock.advance(1)
        rows = recorder.rows("acme", "15m")
        assert len(rows) == 30
        assert [row[0] for row in rows] == list(range(rows[0][0], rows[0][0] + 30))
        assert {(row[1], row[3]) for row in rows} == {(3, 7)}
        assert rows[-1][6] == 2**32 - 1
        assert recorder.latest("acme") == rows[-1][1:]
        assert recorder.latest("*") == rows[-1][1:]
        day = recorder.rows("acme", "24h")
        assert len(day) == 10
        assert {row[3] for row in day} == {7}
        assert recorder.rows("nowhere", "15m") == []
        del node.counters["acme"]
        alone.clock.advance(1)
        recorder.record()
        assert recorder.rows("acme", "15m") == []


@pytest.mark.spec("UI-01")
async def test_so_many_hubs_have_series_and_all_count_for_the_sum(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        node = alone.node.node
        for number in range(series.MOST_HUBS + 20):
            node.counters[f"hub{number}"] = HubCounters(sessions_opened=number + 1)
        recorder = SeriesRecorder(node, lambda: (0.0, 0))
        for _ in range(3):
            recorder.record()
            alone.clock.advance(1)
        assert len(recorder.hubs) == series.MOST_HUBS
        assert "hub0" not in recorder.hubs
        many = series.MOST_HUBS + 20
        assert recorder.latest("*")[0] == many * (many + 1) // 2
        node.counters.clear()
        recorder.record()
        assert not recorder.hubs
        assert not recorder._before  # also of hubs without series

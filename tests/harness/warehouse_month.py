"""Rows of a warehouse that holds 31 days of two hubs: a wave with each day, and two days of which
nothing is known."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from harness.warehouse import latency

DAYS = 31
SILENT_DAYS = (12, 13)
"""Before `now`."""
HOUR = timedelta(hours=1)


def month(now: datetime) -> dict[str, list[dict[str, Any]]]:
    """For `write_warehouse`. The last whole hour before `now` is the newest."""
    end = now.replace(minute=0, second=0, microsecond=0)
    published, delivered, sessions = [], [], []
    for ago in range(1, DAYS * 24):
        if ago // 24 in SILENT_DAYS:
            continue
        time = end - ago * HOUR
        busy = 1 + math.sin((time.hour - 9) / 24 * 2 * math.pi) ** 2 + (time.weekday() < 5)
        for place, hub in enumerate(("demo", "shop")):
            for channel in ("news", "orders", "room:tea")[: 1 + (ago + place) % 3]:
                messages = round(40 * busy / (place + 1))
                common = {"hub": hub, "channel": channel, "at": time, "segment": "one"}
                published.append({**common, "times": messages, "size": 210})
                sent = {"count": 6 * messages, "size": 1300 * messages}
                spread = latency(*(1500, 1800, 2600) * 2 * messages)
                delivered.append({**common, "technology": "websocket", **sent, **spread})
            for number in range(round(4 * busy)):
                seconds = 300 + 211 * ((ago + number) % 17)
                opened = time + timedelta(seconds=97 * number)
                sessions.append(
                    {
                        "hub": hub,
                        "session": f"{hub}-{ago}-{number}",
                        "user": f"user{number}",
                        "opened_at": opened,
                        "closed_at": opened + timedelta(seconds=seconds),
                        "duration": seconds * 1_000_000,
                        "events": [],
                    }
                )
    return {"messages": published, "deliveries": delivered, "sessions": sessions}

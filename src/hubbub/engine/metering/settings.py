"""The category `metering` of the configuration."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

CATEGORY = "metering"


class MeteringSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Counters that survive a restart."""

    interval: Annotated[int, Meta(ge=1, le=300)] = 60
    """How often the counters are stored. A process that is killed loses what it counted since."""
    retention_days: Annotated[int, Meta(ge=1, le=3650)] = 90
    """Days for which the counters by five minutes are kept; totals are kept as long as the hub."""
    most_hubs: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Hubs with counters of their own, on a node: those that are declared or stored, or in which
    somebody has authenticated. All others count in the sum of all hubs."""


SETTINGS = MeteringSettings

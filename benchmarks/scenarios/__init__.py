"""What is measured: one scenario for each line that the project promises."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.findings import Scenario
from benchmarks.scenarios.channels import channels
from benchmarks.scenarios.commands import commands
from benchmarks.scenarios.crowd import crowd
from benchmarks.scenarios.dashboard import dashboard
from benchmarks.scenarios.documents import documents
from benchmarks.scenarios.fanout import saturated, steady
from benchmarks.scenarios.filters import filters
from benchmarks.scenarios.idle import idle
from benchmarks.scenarios.journal import journal_cost
from benchmarks.scenarios.latency import latency
from benchmarks.scenarios.lists import lists
from benchmarks.scenarios.neighbours import flood, neighbours
from benchmarks.scenarios.notifications import notifications
from benchmarks.scenarios.patterns import patterns
from benchmarks.scenarios.posts import posts
from benchmarks.scenarios.push import push
from benchmarks.scenarios.stalled import stalled
from benchmarks.scenarios.stored import stored
from benchmarks.scenarios.threads import threads

SCENARIOS: Mapping[str, Scenario] = {
    "saturated": saturated,
    "steady": steady,
    "latency": latency,
    "idle": idle,
    "crowd": crowd,
    "posts": posts,
    "stored": stored,
    "stalled": stalled,
    "neighbours": neighbours,
    "flood": flood,
    "channels": channels,
    "journal": journal_cost,
    "documents": documents,
    "notifications": notifications,
    "push": push,
    "threads": threads,
    "filters": filters,
    "patterns": patterns,
    "commands": commands,
    "lists": lists,
    "dashboard": dashboard,
}

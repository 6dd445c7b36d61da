"""`python -m benchmarks.soak`, or `make soak`: run it and say whether all was well."""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks.soak.administrator import Administrator
from benchmarks.soak.final import check_everything_arrived
from benchmarks.soak.followers import make_followers
from benchmarks.soak.gauge import Gauge
from benchmarks.soak.hub import Hub
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import Plan
from benchmarks.soak.publishers import Publisher
from benchmarks.soak.summary import Outcome, summary
from benchmarks.soak.visitors import Visitors

PUBLISHERS = 6
USERS = 50


async def soak(plan: Plan, hub: Hub) -> Outcome:
    ledger, gauge = Ledger(), Gauge()
    followers = make_followers(hub, ledger, plan)
    await hub.start()
    tokens = await asyncio.to_thread(hub.tokens, USERS)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(follower.run()) for follower in followers]
        others = _start_others(group, hub, ledger, plan, tokens, stopping)
        await _short_lives(hub, plan)
        await asyncio.sleep(plan.warm_up_seconds)
        watched = plan.long_life_seconds - plan.warm_up_seconds
        await gauge.watch(hub, watched, every_seconds=max(0.5, watched / 200))
        stopping.set()
        await asyncio.wait(others)
        await check_everything_arrived(hub, ledger, [f.track for f in followers])
        for task in following:
            task.cancel()
    descriptors = await hub.idle_count()
    await hub.stop(signal.SIGTERM)
    return Outcome(plan, ledger, gauge, hub, descriptors)


def _start_others(
    group: asyncio.TaskGroup,
    hub: Hub,
    ledger: Ledger,
    plan: Plan,
    tokens: list[str],
    stopping: asyncio.Event,
) -> list[asyncio.Task[None]]:
    rate = plan.publishes_per_second / PUBLISHERS
    publishers = [
        Publisher(f"p{number}", hub, ledger, number % 2 == 0, rate) for number in range(PUBLISHERS)
    ]
    visitors = Visitors(hub, ledger, tokens, plan.visits_per_second)
    administrator = Administrator(hub, ledger, hub.admin_token())
    work = [publisher.run(stopping) for publisher in publishers]
    work += [visitors.run(stopping), administrator.run(stopping)]
    return [group.create_task(each) for each in work]


async def _short_lives(hub: Hub, plan: Plan) -> None:
    for life in range(plan.short_lives):
        await asyncio.sleep(plan.short_life_seconds)
        await hub.stop(signal.SIGKILL if life % 2 else signal.SIGTERM)
        await hub.start()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--quick", action="store_true", help="one minute")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    plan = Plan(seconds=60.0 if given.quick else given.minutes * 60, seed=given.seed)
    random.seed(plan.seed)
    home = Path("data")
    home.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="soak-", dir=home) as folder:
        hub = Hub(Path(folder).resolve())
        try:
            outcome = uvloop.run(soak(plan, hub))
            print(summary(outcome))
            good = outcome.good
        finally:
            hub.kill()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

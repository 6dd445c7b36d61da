"""A campaign: a hub, producers and consumers, and somebody who kills them at random.

    export PYTHONPATH=.:tests
    python -m faults.exactly_once.campaign --kills 500 --seed 7 [--store postgres] [--keep FOLDER]

The seed decides who dies and when, so that a run can be repeated; the moments themselves also
depend on the machine. At the end the killing stops, everybody finishes, and the checker looks at
what the applications committed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.postgres import PASSWORD, USER, local_postgres
from benchmarks.servers import free_port
from faults.exactly_once.actors import HUB, TOPIC
from faults.exactly_once.checker import Report, check

PRODUCERS = ("anna", "boris", "clara")
CONSUMERS = ("ledger", "mirror")
CREW = ("crew-one", "crew-two")
FINISH_SECONDS = 400.0
_START_SECONDS = 120.0
_STORED = {
    "public": True,
    "clientPublish": True,
    "allowAnonymous": True,
    "store": True,
}


class Process:
    """A process that is started again whenever it ends."""

    def __init__(self, command: Sequence[str], folder: Path, name: str) -> None:
        self.name = name
        self._command = list(command)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.lives = 0
        self.suicides = 0
        self.failures: list[int] = []

    def start(self, *more: str) -> None:
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *more],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        self.lives += 1

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended_well(self) -> bool:
        return self._process is not None and self._process.poll() == 0

    def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def note_end(self) -> None:
        """It ended by itself: on purpose, or because it failed."""
        assert self._process is not None
        if self._process.returncode == -signal.SIGKILL:
            self.suicides += 1
        elif self._process.returncode:
            self.failures.append(self._process.returncode)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


class Campaign:
    def __init__(
        self, folder: Path, seed: int, kills: int, storage: dict[str, object] | None
    ) -> None:
        self.folder = folder
        self.kills = kills
        self.killed: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._port = free_port()
        self._stop = folder / "stop"
        self._hub = Process(self._serve(storage), folder, "hub")
        self._producers = [self._actor("producer", name) for name in PRODUCERS]
        self._consumers = [self._actor("consumer", name) for name in CONSUMERS]
        self._crew = [self._actor("crew", name) for name in CREW]

    def _serve(self, storage: dict[str, object] | None) -> list[str]:
        settings = {
            "listener": {"port": self._port, "shutdownTimeout": 1},
            "session": {"messagesPerSecond": 0},
            "limits": {"anonymousPerSecond": 0, "clientPerSecond": 0},
            "debug": {"level": "warning"},
            "hubs": {
                HUB: {
                    "settings": {"allowAnonymous": True, "defaultRules": "stored"},
                    "rules": {"stored": _STORED},
                }
            },
        }
        if storage:
            settings["storage"] = storage
        config = self.folder / "hubbub.yaml"
        config.write_text(json.dumps(settings))
        program = Path(sys.executable).with_name("hubbub")
        return [str(program), "serve", "--config", str(config)]

    def _actor(self, role: str, name: str) -> Process:
        command = [sys.executable, "-m", "faults.exactly_once.actors", role]
        command += ["--port", str(self._port), "--file", str(self.folder / f"{name}.db")]
        command += ["--stop", str(self._stop)]
        return Process(command, self.folder, name)

    # -- the run --------------------------------------------------------------------------------

    def run(self) -> Report:
        """Raises `TimeoutError` where somebody does not finish."""
        try:
            self._hub.start()
            self._until(self._ready, _START_SECONDS, "the hub to be ready")
            for actor in self._actors:
                self._start(actor)
            while self.total_kills < self.kills:
                self._kill_somebody()
            self._finish()
        finally:
            for process in (*self._actors, self._hub):
                process.stop()
        return self.check()

    def check(self) -> Report:
        files = {p.name: self.folder / f"{p.name}.db" for p in self._actors}
        return check(
            [files[name] for name in PRODUCERS],
            [files[name] for name in CONSUMERS],
            [[files[name] for name in CREW]],
        )

    @property
    def total_kills(self) -> int:
        return self.killed.total() + sum(actor.suicides for actor in self._actors)

    @property
    def failures(self) -> dict[str, list[int]]:
        """Processes that ended with an error of their own."""
        everybody = (self._hub, *self._actors)
        return {each.name: each.failures for each in everybody if each.failures}

    @property
    def _actors(self) -> list[Process]:
        return [*self._producers, *self._consumers, *self._crew]

    def _start(self, actor: Process, chance: float = 0.002) -> None:
        seed = self._random.randrange(1 << 30)
        actor.start("--seed", str(seed), "--chance", str(chance))

    def _kill_somebody(self) -> None:
        self._until(self._ready, _START_SECONDS, "the hub to be ready")
        self._start_again()
        time.sleep(self._random.uniform(0.05, 0.6))
        what = self._random.choices(
            ["hub", "hub in recovery", "producer", "consumer", "crew"], [4, 2, 2, 2, 1]
        )[0]
        if what.startswith("hub"):
            self._hub.kill()
            self._hub.start()
            if what == "hub in recovery":
                time.sleep(self._random.uniform(0.0, 0.8))
                self._hub.kill()
                self._hub.start()
                self.killed["hub"] += 1
        else:
            of = {"producer": self._producers, "consumer": self._consumers, "crew": self._crew}
            victim = self._random.choice(of[what])
            if not victim.running:
                return
            victim.kill()
            self._start(victim)
        self.killed[what] += 1

    def _start_again(self, chance: float = 0.002) -> None:
        """Those that ended by themselves."""
        if not self._hub.running:
            self._hub.note_end()
            self._hub.start()
        for actor in self._actors:
            if not actor.running and not (self._stop.exists() and actor in self._producers):
                actor.note_end()
                self._start(actor, chance)

    # -- the end --------------------------------------------------------------------------------

    def _finish(self) -> None:
        """No more killing: what is under way arrives."""
        for actor in self._actors:
            if actor.running:
                actor.kill()
            self._start(actor, chance=0)
        self._stop.touch()
        self._until(self._producers_done, FINISH_SECONDS, "the producers to finish")
        self._until(self._nothing_left, FINISH_SECONDS, "the consumers to finish")

    def _producers_done(self) -> bool:
        for producer in self._producers:
            if not producer.running and not producer.ended_well:
                producer.note_end()
                self._start(producer, chance=0)
        return all(producer.ended_well for producer in self._producers)

    def _nothing_left(self) -> bool:
        self._start_again(chance=0)
        return all(self._lag(name) == 0 for name in (*CONSUMERS, "crew"))

    def _lag(self, subscription: str) -> int:
        path = f"/v1/hubs/{HUB}/topics/{TOPIC}/subscriptions/{subscription}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as page:
                return int(json.load(page)["lag"])
        except (OSError, urllib.error.URLError):
            return -1

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=1):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def _until(self, condition: object, seconds: float, what: str) -> None:
        assert callable(condition)
        deadline = time.monotonic() + seconds
        while not condition():
            if len(self._hub.failures) > 3 or any(len(a.failures) > 3 for a in self._actors):
                raise RuntimeError(f"{self.failures} end by themselves; see {self.folder}")
            if not self._hub.running:
                self._hub.note_end()
                self._hub.start()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:g} s for {what}; see {self.folder}")
            time.sleep(0.05)


@contextlib.contextmanager
def storage(kind: str) -> Iterator[dict[str, object] | None]:
    """The settings of the store that the hub shall use."""
    if kind == "sqlite":
        yield None
        return
    with local_postgres() as server:
        place = {"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD}
        yield {"postgres": {**place, "dbName": "postgres", "sslMode": "disable"}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--keep", type=Path, help="leave everything in this folder")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.kills} kills, {given.store}", flush=True)
    with ExitStack() as stack:
        folder = given.keep or Path(tempfile.mkdtemp(prefix="hubbub-faults-"))
        folder.mkdir(parents=True, exist_ok=True)
        if not given.keep:
            stack.callback(shutil.rmtree, folder)
        place = stack.enter_context(storage(given.store))
        campaign = Campaign(folder, given.seed, given.kills, place)
        began = time.monotonic()
        report = campaign.run()
        minutes = (time.monotonic() - began) / 60
        print(f"{campaign.total_kills} kills in {minutes:.1f} minutes: {dict(campaign.killed)},")
        print(f"and {sum(a.suicides for a in campaign._actors)} by themselves at chosen moments")
        print(report)
        if campaign.failures:
            print(f"ended with errors: {campaign.failures}")
    return 0 if report.good and not campaign.failures else 1


if __name__ == "__main__":
    sys.exit(main())

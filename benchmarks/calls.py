"""`python -m benchmarks.calls`: the function calls that the hub makes for one message.

A publisher sends one message at a time, and a subscriber receives it; both use WebSocket and JSON.
Only calls on the event loop's thread count: those of Python functions, and those of functions in C.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from websockets.sync.client import connect

from benchmarks.hub import Hubbub, configuration
from benchmarks.load.stamp import Template, json_payload
from benchmarks.servers import free_port, running, workplace

_MESSAGES, _SIZE = 500, 200
_COUNTED = "counted.json"


def main() -> None:
    options = _options()
    if options.serve:
        _serve(options.serve)
        return
    for name, act in _ACTS.items():
        with _counting_hub(options.source) as (hub, counted):
            found = act(hub, counted)
        python, others = (sum(found[kind].values()) for kind in ("call", "c_call"))
        print(f"{name}: {python / _MESSAGES:.1f} calls of Python, {others / _MESSAGES:.1f} of C")
        if options.functions:
            for kind in ("call", "c_call"):
                for function, count in Counter(found[kind]).most_common(options.functions):
                    print(f"  {count / _MESSAGES:6.2f}  {kind:6}  {function}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__)
    parser.add_argument("--source", type=Path, help="the folder with another version of the hub")
    parser.add_argument("--functions", type=int, default=0, help="list so many of them")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser.parse_args()


# -- in the hub's process -------------------------------------------------------------------------


def _serve(config: str) -> None:
    """The hub; between two signals it counts."""
    found: dict[str, Counter[str]] = {"call": Counter(), "c_call": Counter()}

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            found[event][f"{code.co_filename.rpartition('/hubbub/')[2]}:{code.co_qualname}"] += 1
        elif event == "c_call":
            found[event][getattr(argument, "__qualname__", repr(argument))] += 1

    def end(*_: object) -> None:
        sys.setprofile(None)
        text = json.dumps(found)
        Path(config).with_name("counted.tmp").write_text(text)
        Path(config).with_name("counted.tmp").rename(Path(config).with_name(_COUNTED))

    signal.signal(signal.SIGUSR1, lambda *_: sys.setprofile(count))
    signal.signal(signal.SIGUSR2, end)
    from hubbub.cli.main import main as hubbub

    with mock.patch.object(sys, "argv", ["hubbub", "serve", "--config", config]):
        hubbub()


# -- outside of it --------------------------------------------------------------------------------


@contextlib.contextmanager
def _counting_hub(source: Path | None) -> Iterator[tuple[Hubbub, _Counted]]:
    port = free_port()
    with workplace() as directory:
        config = directory / "hubbub.yaml"
        config.write_text(json.dumps(configuration(port)))
        command = [sys.executable, "-m", "benchmarks.calls", "--serve", str(config)]
        here = str(Path(__file__).parents[1])
        found = f"{source}:{here}" if source else f"{here}/src:{here}"
        with running(command, port, directory, {"PYTHONPATH": found}) as process:
            hub = Hubbub(process, port, config, source=source)
            yield hub, lambda act: _counted(hub, act)


_Counted = Callable[[Callable[[], object]], dict[str, dict[str, int]]]


def _counted(hub: Hubbub, act: Callable[[], object]) -> dict[str, dict[str, int]]:
    """What the hub calls while `act` is repeated."""
    for _ in range(20):
        act()
    os.kill(hub.process.pid, signal.SIGUSR1)
    time.sleep(0.2)
    for _ in range(_MESSAGES):
        act()
    os.kill(hub.process.pid, signal.SIGUSR2)
    file = hub.config.with_name(_COUNTED)
    while not file.exists():
        time.sleep(0.05)
    found: dict[str, dict[str, int]] = json.loads(file.read_text())
    return found


def _one_to_one(hub: Hubbub, counted: _Counted) -> dict[str, dict[str, int]]:
    url = f"ws://127.0.0.1:{hub.port}/v1/hubs/{hub.hub}/socket"
    with (
        connect(url, compression=None) as subscriber,
        connect(url, compression=None) as publisher,
    ):
        request = {"reqID": 1, "channels": [{"channel": "calls"}]}
        subscriber.send(json.dumps({"event": "Subscribe", "payload": request}))
        while "subscribedChannels" not in str(subscriber.recv()):
            pass
        payload = {"json": json.loads(Template(json_payload(_SIZE)).fill(10**18))}
        item = {"channel": "calls", "event": "m", "payload": payload}
        message = json.dumps({"event": "Publish", "payload": {"publishes": [item]}})

        def act() -> None:
            publisher.send(message)
            subscriber.recv()

        return counted(act)


def _http(hub: Hubbub, counted: _Counted, path: str) -> dict[str, dict[str, int]]:
    headers = {"Authorization": f"Bearer {hub.token()}", "Content-Type": "application/json"}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", hub.port)) as connection:
        body = json.dumps("x" * (_SIZE - 2))

        def act() -> None:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status >= 300:
                raise SystemExit(f"{path} answered {answer.status}")

        return counted(act)


_ACTS: dict[str, Callable[[Hubbub, _Counted], dict[str, dict[str, int]]]] = {
    "one-to-one": _one_to_one,
    "http-publish": lambda hub, counted: _http(
        hub, counted, f"/v1/hubs/{hub.hub}/channels/calls/messages"
    ),
    "topic-put": lambda hub, counted: _http(
        hub, counted, f"/v1/hubs/{hub.hub}/topics/log%3Acalls/messages"
    ),
}

if __name__ == "__main__":
    main()

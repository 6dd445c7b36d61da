"""A process with a network of its own, connected to this one by two cables that can be pulled.

Network namespaces of Linux: only root can make them. What is lost is lost in the kernel, packet by
packet, and nobody is told.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


class Namespace:
    """`front` is for its clients, `back` for what it uses. Each cable has two ends: ours, and that
    of the namespace. The addresses are of those that are kept for tests of networks."""

    def __init__(self, number: int) -> None:
        run = os.getpid()
        self.name = f"hubbub-{run}-{number}"
        self._cables = {"back": f"hb{run}b{number}", "front": f"hb{run}f{number}"}
        self._subnet = f"198.{18 + run // 256 % 2}.{run % 256}"
        self._base = {"back": number * 8, "front": number * 8 + 4}

    def address(self, cable: str, inside: bool) -> str:
        return f"{self._subnet}.{self._base[cable] + (2 if inside else 1)}"

    def command(self, *arguments: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *arguments]

    def pull(self, cable: str) -> None:
        _ip("link", "set", self._cables[cable], "down")

    def plug_in(self, cable: str) -> None:
        _ip("link", "set", self._cables[cable], "up")

    def make(self) -> None:
        _ip("netns", "add", self.name)
        self._inside("link", "set", "lo", "up")
        for cable, device in self._cables.items():
            _ip("link", "add", device, "type", "veth", "peer", "name", cable, "netns", self.name)
            _ip("addr", "add", f"{self.address(cable, inside=False)}/30", "dev", device)
            self._inside("addr", "add", f"{self.address(cable, inside=True)}/30", "dev", cable)
            self._inside("link", "set", cable, "up")
            self.plug_in(cable)

    def remove(self) -> None:
        """Its cables go with it."""
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)

    def _inside(self, *arguments: str) -> None:
        _ip("-n", self.name, *arguments)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def namespace(number: int) -> Iterator[Namespace]:
    made = Namespace(number)
    try:
        made.make()
        yield made
    finally:
        made.remove()


def namespaces_work() -> bool:
    """Whether this process may make some."""
    if os.geteuid() or shutil.which("ip") is None:
        return False
    try:
        with namespace(31):
            return True
    except subprocess.CalledProcessError:
        return False

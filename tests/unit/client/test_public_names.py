"""What applications may import and call."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata

import pytest

import hubbub.client
from hubbub.client import HubbubError, Subscription
from hubbub.domain.errors import catalogue

pytestmark = pytest.mark.spec("UI-02")


def test_every_refusal_of_a_hub_can_be_imported_from_the_client() -> None:
    for kind in catalogue().values():
        assert getattr(hubbub.client, kind.__name__) is kind
        assert kind.__name__ in hubbub.client.__all__
        assert issubclass(kind, HubbubError)


def test_a_subscription_shows_applications_what_is_theirs() -> None:
    assert {name for name in vars(Subscription) if not name.startswith("_")} == {
        *("batch", "channels", "events", "positions", "unsubscribe"),
    }


def test_the_client_needs_nothing_of_the_server() -> None:
    """Of all that is installed here, only what `pip install .` brings can be imported."""
    wanted = {"hubbub", *_required("hubbub")}
    while more := {each for name in wanted for each in _required(name)} - wanted:
        wanted |= more
    blocked = [
        module
        for module, owners in metadata.packages_distributions().items()
        if wanted.isdisjoint(map(_plain, owners))
    ]
    assert {"aiohttp", "cryptography", "jwt", "nats", "uvloop", "yaml", "zmq"} <= set(blocked)
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({blocked!r}))\n"
        "import hubbub.client, hubbub.client.sync\n"
        "from hubbub.cli.main import main\n"
        "main(['publish', '--help'])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "Publish DATA to CHANNEL" in found.stdout


def _required(name: str) -> set[str]:
    """Packages that come with a package, without its extras."""
    lines = [line for line in metadata.requires(name) or () if ";" not in line]
    return {_plain(re.split(r"[^\w.-]", line)[0]) for line in lines}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

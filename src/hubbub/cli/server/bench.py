"""`hubbub bench`: the benchmarks, which are in the source and not in the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

import hubbub
from hubbub.cli.failures import FAILED, WRONG, clear_failures, fail

_PACKAGE = Path("benchmarks", "__main__.py")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure this machine with the benchmarks of a checkout.

    ARGUMENTS are theirs, for example --quick; `hubbub bench -- --help` lists them.
    """
    with clear_failures():
        checkout = _checkout()
        if checkout is None:
            fail("the benchmarks are in a checkout of Hubbub's source; run `hubbub bench` in it")
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(
            part for part in (str(checkout), os.environ.get("PYTHONPATH")) if part
        )
        command = [sys.executable, "-m", "benchmarks", *arguments]
        done = subprocess.run(command, env=environment, check=False)  # noqa: S603 - one's own words
        sys.exit(done.returncode if done.returncode in (0, WRONG) else FAILED)


def _checkout() -> Path | None:
    """A checkout around the current folder, or the one from which this package is installed."""
    here = Path.cwd()
    source = Path(hubbub.__file__).resolve().parents[2]
    for folder in (here, *here.parents, source):
        if (folder / _PACKAGE).is_file() and (folder / "src" / "hubbub").is_dir():
            return folder
    return None

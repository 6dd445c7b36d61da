"""Modules of this package in processes of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hubbub


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module, in the interpreter of this process."""
    return [sys.executable, "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """The environment of this process, in which the very package that runs here is found."""
    root = str(Path(hubbub.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}

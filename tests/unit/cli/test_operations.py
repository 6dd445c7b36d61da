"""The operations of the admin API as the command line knows them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hubbub.cli.administration.operations import operations
from hubbub.cli.main import main
from hubbub.gateways.admin.table import ROUTES
from hubbub.gateways.routes import Access

pytestmark = pytest.mark.spec("UI-03", "ADMIN-01")

ROOT = Path(__file__).parents[3]


def test_the_operations_are_those_of_the_server() -> None:
    """If this fails: python scripts/generate_operations.py"""
    script = runpy.run_path(str(ROOT / "scripts" / "generate_operations.py"))
    assert script["TARGET"].read_text() == script["render"]()


def test_each_route_of_administration_has_a_command() -> None:
    runner = CliRunner()
    words = set(runner.invoke(main, ["admin", "--help"]).output.split())
    wanted = {
        route.operation_id
        for route in ROUTES
        if route.access is not Access.HUB
        and (route.path.startswith("/v1/admin/") or route.tag != "Server")
    }
    assert wanted == operations().keys()
    for operation in operations().values():
        name = "".join(f"-{c.lower()}" if c.isupper() else c for c in operation.id)
        assert name in words
        assert runner.invoke(main, ["admin", name, "--help"]).exit_code == 0, name


def test_commands_of_administration_do_without_the_table_of_routes() -> None:
    code = (
        "import sys, hubbub.cli.administration.sections\n"
        "print([each for each in sys.modules if each.startswith('hubbub.gateways.admin')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

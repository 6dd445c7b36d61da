"""The files for Kubernetes are what Kubernetes takes: its own schemas, strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
OLDEST, NEWEST = "1.29", "1.34"
"""The versions that the files are for."""

pytestmark = pytest.mark.spec("OPS-04")


def resources(file: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each is not None]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_resource_fits_the_schema_of_its_kind(file: Path, version: str) -> None:
    found = resources(file)
    assert found
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)


def test_a_slip_is_found() -> None:
    hub = next(each for each in resources(FILES[0]) if "template" in each.get("spec", {}))
    hub["spec"]["template"]["spec"]["contaniers"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(hub, NEWEST, strict=True)

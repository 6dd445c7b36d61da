"""The documentation says what is true: its examples run as printed, what it names is there."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import tomllib
from pathlib import Path

import aiohttp
import pytest
import yaml

from harness.documentation import (
    ROOT,
    RUN_LANGUAGES,
    anchors_of,
    blocks_of,
    is_run_or_prose,
    links_of,
    pages,
    title_of,
)
from harness.example_runner import is_configuration, running_examples
from harness.nginx import running_nginx
from harness.running_hub import RunningHub
from harness.synapse import PROGRAM as SYNAPSE
from hubbub.domain.journal import KINDS
from hubbub.gateways.admin.table import ROUTES
from hubbub.protocols.hubbub_pb2 import EventType
from hubbub.server.settings import known_keys, load
from hubbub.server.settings.keys import CATEGORIES

PAGES = pages()
WITH_EXAMPLES = [
    page for page in PAGES if any(each.language in RUN_LANGUAGES for each in blocks_of(page))
]
SOURCE = ROOT / "src" / "hubbub"
IMPATIENT = aiohttp.ClientTimeout(total=10)

pytestmark = pytest.mark.spec("UI-04")


def needs_long(page: Path) -> bool:
    """Whether its examples start a homeserver and Spark."""
    return "scripts/synapse.sh" in page.read_text()


@pytest.mark.parametrize(
    "page", [each for each in WITH_EXAMPLES if not needs_long(each)], ids=title_of
)
async def test_examples_work_as_printed(page: Path, tmp_path: Path) -> None:
    async with running_examples(page, tmp_path) as examples:
        assert await examples.run()


@pytest.mark.long
@pytest.mark.spec("COMM-01", "COMM-03", "COMM-04", "PIPE-03")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [each for each in WITH_EXAMPLES if needs_long(each)], ids=title_of)
async def test_long_examples_work_as_printed(page: Path, tmp_path: Path) -> None:
    if not SYNAPSE.exists():
        pytest.skip("matrix-synapse is missing: sh scripts/synapse.sh")
    async with running_examples(page, tmp_path) as examples:
        assert await examples.run(patience_seconds=180)


@pytest.mark.parametrize("page", PAGES, ids=title_of)
def test_every_example_is_run_or_says_that_it_is_not(page: Path) -> None:
    if page.name == "javascript-reference.md":  # declarations, written by `make web-reference`
        return
    before = None
    for block in blocks_of(page):
        assert is_run_or_prose(block, before), f"{block.where}: run it, or mark it `prose`"
        before = block


async def test_pages_of_developer_mode_are_there(tmp_path: Path) -> None:
    readme = ROOT / "README.md"
    paths = set(re.findall(r"<http://localhost:8000(/[^>]*)>", readme.read_text()))
    assert paths
    async with running_examples(readme, tmp_path) as examples, aiohttp.ClientSession() as client:
        for path in paths:
            async with client.get(examples.address + path) as answer:
                assert (answer.status, answer.content_type) == (200, "text/html")


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
async def test_a_hub_can_be_used_behind_nginx_as_described(hub: RunningHub, tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "run-behind-nginx.md"
    described = next(each.text for each in blocks_of(page) if each.language == "nginx")
    async with (
        running_nginx(described, hub.server.port, tmp_path) as address,
        aiohttp.ClientSession(f"http://{address}", timeout=IMPATIENT) as client,
        client.get("/v1/hubs/acme/events?channel=news") as stream,
        client.ws_connect("/v1/hubs/acme/socket") as socket,
    ):
        assert (await socket.receive_json())["event"] == "SessionInfo"
        async with client.post("/v1/hubs/acme/channels/news/messages", data="by nginx") as answer:
            assert answer.status == 200
        async for line in stream.content:  # at once, without buffering
            if b"by nginx" in line:
                break
        async with client.get("/metrics") as answer:
            assert answer.status == 404


def test_no_page_has_its_reader_serve_the_folder_with_the_keys() -> None:
    """A web server in the folder of the project would serve `data/secrets.json`."""
    commands = [
        shlex.split(line.replace(" -d ", " --directory "))
        for page in PAGES
        for line in re.findall(r"python3 -m http\.server[^`\n]*", page.read_text())
    ]
    assert len(commands) > 1
    for words in commands:
        folder = Path(words[words.index("--directory") + 1])
        assert folder.name not in ("", "data"), words
        assert ".." not in folder.parts, words
        assert not folder.is_absolute(), words


@pytest.mark.parametrize("page", PAGES, ids=title_of)
def test_links_lead_somewhere(page: Path) -> None:
    missing = []
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            missing.append(link)
    assert not missing


def test_configurations_are_valid(tmp_path: Path) -> None:
    shown = [each for page in PAGES for each in blocks_of(page) if is_configuration(each)]
    assert shown
    file = tmp_path / "hubbub.yaml"
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    for block in shown:
        file.write_text(re.sub(r"\b(cert|key)\.pem", rf"{tmp_path}/\1.pem", block.text))
        load(file, {})
    load(ROOT / "examples" / "hubbub.yaml", {})


WEBSUB = {
    f"hub.{name}"
    for name in (
        *("mode", "topic", "callback", "lease_seconds", "secret", "algorithm"),
        *("challenge", "reason", "url"),
    )
}
"""Parameters of WebSub, which look like settings."""


@pytest.mark.parametrize("page", PAGES, ids=title_of)
def test_settings_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(rf"`((?:{'|'.join(CATEGORIES)})\.[\w.]+)`", page.read_text()))
    if page.name != "configuration.md":  # which also lists what is refused
        assert named <= set(known_keys()) | KINDS | WEBSUB


def test_every_event_of_the_protocol_is_explained() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    events = set(EventType.keys()) - {"UNSPECIFIED"}
    assert not {event for event in events if f"`{event}`" not in text}


def test_the_path_of_a_message_names_what_is_there() -> None:
    rows = re.findall(
        r"^\| \d+ \| `([\w/.]+)` \| (.+?) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 15
    missing = []
    for path, names in rows:
        source = (SOURCE / path).read_text()
        for part in re.findall(r"\w+", names):
            if not re.search(rf"\b(?:def|class) {part}\b", source):
                missing.append(f"{path}: {part}")
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=title_of)
def test_files_that_are_named_exist(page: Path) -> None:
    """`gateways/http.py`, `tests/harness/`, `docs/errors.md` and their like."""
    tops = "|".join(
        each.name
        for parent in (ROOT, SOURCE)
        for each in parent.iterdir()
        if each.is_dir() and each.name not in ("data", "site")  # made by use
    )
    named = set(re.findall(rf"`((?:{tops.replace('.', '[.]')})/[\w./-]*)`", page.read_text()))
    assert not {name for name in named if not any((at / name).exists() for at in (ROOT, SOURCE))}


async def test_metrics_that_are_named_exist(hub: RunningHub) -> None:
    await hub.socket()
    known = set(re.findall(r"^([a-z_]+)", await hub.metrics(), re.MULTILINE))
    page = (ROOT / "docs" / "how-to" / "monitor-with-prometheus.md").read_text()
    dashboard = (ROOT / "deploy" / "grafana-dashboard.json").read_text()
    used = set(re.findall(r"\b(?:hubbub|process)_[a-z_]*[a-z]\b", page + dashboard))
    of_webhooks = ("hubbub_webhook_seconds", "hubbub_webhook_failed_seconds")
    times = {"hubbub_publish_seconds", "hubbub_delivery_seconds", *of_webhooks}  # seen by parts
    series = ("lag", "unacknowledged", "redeliveries", "dead_letters")
    not_by_default = {"hubbub_nats_connected", "hubbub_workers"}
    not_by_default |= {f"hubbub_subscription_{each}" for each in series}
    assert used - known <= times | not_by_default
    assert {name for name in known if name.startswith("hubbub_")} <= used | {
        f"{name}_{part}" for name in times for part in ("bucket", "count", "sum")
    }


def test_the_reference_of_http_is_what_the_routes_say() -> None:
    """If this fails: python scripts/generate_http_reference.py"""
    script = runpy.run_path(str(ROOT / "scripts" / "generate_http_reference.py"))
    page = (ROOT / "docs" / "http-api.md").read_text()
    assert page == script["render"]()
    assert all(f"### `{route.method} {route.path}`\n" in page for route in ROUTES)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """`make docs` refuses such a page, and one that is named and not there."""
    named = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    there = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    there |= {f"project/{path.name}" for path in ROOT.glob("*.md") if path.name != "README.md"}
    assert len(set(named)) == len(named)
    assert there <= set(named)


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    files = [*(ROOT / "requirements").glob("*.in")]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
        *(line for file in files for line in file.read_text().splitlines()),
    ]
    wanted = {re.split(r"[^\w.-]", line)[0] for line in lines if line[:1].isalpha()}
    for path in ("web", "web/sdk", "web/dashboard", "tests/browser", "tests/runtimes"):
        package = json.loads((ROOT / path / "package.json").read_text())
        for kind in ("dependencies", "devDependencies", "optionalDependencies"):
            wanted |= {*package.get(kind, ())}
    page = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| ([\w.@/-]+(?:, [\w.@/-]+)*) \|", page, re.MULTILINE)
    named = {name for row in rows for name in row.split(", ")}
    assert named - {"package"} == wanted - {"hubbub", "@hubbub/client"}


def test_commands_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        command
        for page in PAGES
        for command in re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(), re.MULTILINE)
    }
    assert named <= targets


def test_decision_records_are_listed() -> None:
    folder = ROOT / "docs" / "adr"
    listed = set(links_of(folder / "README.md"))
    assert listed == {each.name for each in folder.glob("[0-9]*.md")}


def test_yaml_of_other_programs_can_be_read() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            if block.language == "yaml":
                assert yaml.safe_load(block.text)


def test_the_threat_model_states_the_shipped_limits() -> None:
    """Each row of "What tenants share" names a setting and its default."""
    text = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\|[^|]+\|[^|]+\| `([a-z][\w.]+)` \| `([^`]+)` \|", text, re.MULTILINE)
    assert len(rows) > 20
    reference = (ROOT / "docs" / "configuration.md").read_text()
    for key, default in rows:
        entry = rf"^\| `{key}`<br>[^|]*\|[^|]*\| `{default}` \|"
        assert re.search(entry, reference, re.MULTILINE), f"{key} is not {default} by default"

"""The files under deploy/ that start a cluster: they can be read, name settings that there are, and
agree with each other. The programs that they are for are asked where they are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from hubbub.gateways.proxies import TrustedProxies
from hubbub.server.nats_server import program
from hubbub.server.settings import Settings, load

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
KUBERNETES = ROOT / "deploy" / "kubernetes"
SECRET = "0123456789abcdef" * 4
NODES = ("hub1", "hub2", "hub3")
NATS = ("nats1", "nats2", "nats3")

pytestmark = pytest.mark.spec("OPS-04")


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    return found


def environment(service: dict[str, Any], secrets: dict[str, str]) -> dict[str, str]:
    """As the container gets it."""

    def fill(found: re.Match[str]) -> str:
        return secrets[found[1]]

    return {
        name: re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", fill, str(value))
        for name, value in service["environment"].items()
    }


def example_secrets() -> dict[str, str]:
    """Those that env.example asks for, each another one."""
    lines = (COMPOSE / "env.example").read_text().splitlines()
    names = [line.removesuffix("=") for line in lines if line and not line.startswith("#")]
    return {name: f"{index}{SECRET}" for index, name in enumerate(names)}


def hub_settings(name: str) -> Settings:
    given = environment(compose()["services"][name], example_secrets())
    assert given.pop("HUBBUB_CONFIG") == "/etc/hubbub/hubbub.yaml"
    return load(COMPOSE / "hubbub.yaml", given)


# -- compose --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NODES)
def test_every_node_starts_with_settings_that_there_are(name: str) -> None:
    settings = hub_settings(name)
    assert settings.cluster.node == name
    assert settings.cluster.secret_key is not None
    assert settings.listener.host == "0.0.0.0"
    assert [server.split("/")[2] for server in settings.broker.servers] == [
        f"{each}:4222" for each in NATS
    ]
    assert settings.storage.postgres.hosts == ("postgres",)


def test_nodes_differ_only_in_their_names_and_their_data() -> None:
    services = compose()["services"]
    for name in NODES:
        services[name]["environment"].pop("HUBBUB_CLUSTER_NODE")
        assert services[name]["volumes"].pop(0).startswith(f"{name}:")
    assert services["hub1"] == services["hub2"] == services["hub3"]


def test_env_example_asks_for_every_secret_and_holds_none() -> None:
    used = set(re.findall(r"\$\{(\w+):\?", (COMPOSE / "compose.yaml").read_text()))
    assert used == set(example_secrets())
    for line in (COMPOSE / "env.example").read_text().splitlines():
        assert line.startswith("#") or not line or line.endswith("=")


def test_volumes_networks_and_files_are_there() -> None:
    found = compose()
    for service in found["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in found["volumes"] or (COMPOSE / source).is_file(), source
        assert set(service["networks"]) <= set(found["networks"])
        for other in service.get("depends_on", ()):
            assert other in found["services"]


def test_only_the_load_balancer_is_open_and_only_to_this_machine() -> None:
    services = compose()["services"]
    assert {name for name, each in services.items() if "ports" in each} == {"proxy"}
    assert services["proxy"]["ports"] == ["127.0.0.1:8000:8000"]


def test_the_load_balancer_knows_every_node_and_its_port() -> None:
    text = (COMPOSE / "nginx.conf").read_text()
    port = hub_settings("hub1").listener.port
    assert re.findall(r"server (\w+):(\d+)", text) == [(name, str(port)) for name in NODES]
    (listening,) = re.findall(r"listen (\d+);", text)
    assert compose()["services"]["proxy"]["ports"][0].endswith(f":{listening}")


def test_nodes_have_time_to_drain_before_they_are_killed() -> None:
    seconds = float(compose()["services"]["hub1"]["stop_grace_period"].removesuffix("s"))
    assert seconds > hub_settings("hub1").listener.shutdown_timeout


def test_nginx_understands_its_file(tmp_path: Path) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    text = (COMPOSE / "nginx.conf").read_text()
    text = re.sub(r"server hub\d:", "server 127.0.0.1:", text)
    text = text.replace("/dev/stdout", f"{tmp_path}/log").replace("/dev/stderr", f"{tmp_path}/err")
    for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        text = text.replace("http {", f"http {{ {what}_temp_path {tmp_path}/{what};", 1)
    file = tmp_path / "nginx.conf"
    file.write_text(f"pid {tmp_path}/pid;\n{text}")
    command = ["nginx", "-t", "-q", "-p", str(tmp_path), "-c", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    problems = [line for line in done.stderr.splitlines() if "could not open error log" not in line]
    assert (done.returncode, problems) == (0, [])


@pytest.mark.parametrize("name", NATS)
def test_nats_understands_its_file(name: str) -> None:
    given = environment(compose()["services"][name], example_secrets())
    assert given["NATS_NAME"] == name
    check_nats(COMPOSE / "nats.conf", given)


def check_nats(file: Path, given: dict[str, str]) -> None:
    command = [program(), "-t", "-c", str(file)]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- Kubernetes -----------------------------------------------------------------------------------


def resources(name: str) -> dict[tuple[str, str], Any]:
    documents = yaml.safe_load_all((KUBERNETES / name).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def container(name: str, app: str) -> dict[str, Any]:
    pod = resources(name)["StatefulSet", app]["spec"]["template"]["spec"]
    (only,) = pod["containers"]
    found: dict[str, Any] = only
    return found


def kubernetes_settings(tmp_path: Path) -> Settings:
    file = tmp_path / "hubbub.yaml"
    file.write_text(resources("hubbub.yaml")["ConfigMap", "hubbub"]["data"]["hubbub.yaml"])
    comments = (KUBERNETES / "hubbub.yaml").read_text()
    secrets = re.findall(r"--from-literal=(HUBBUB_\w+)=", comments)
    given = {name: f"{index}{SECRET}" for index, name in enumerate(secrets)}
    for each in container("hubbub.yaml", "hubbub")["env"]:
        given[each["name"]] = each.get("value", "hubbub-0")
    assert given.pop("HUBBUB_CONFIG") == "/etc/hubbub/hubbub.yaml"
    return load(file, given)


def test_pods_start_with_settings_that_there_are(tmp_path: Path) -> None:
    settings = kubernetes_settings(tmp_path)
    assert settings.cluster.node == "hubbub-0"
    assert settings.cluster.secret_key is not None
    assert settings.storage.postgres.ssl_mode == "auto"


def test_probes_services_and_settings_agree_on_the_port(tmp_path: Path) -> None:
    found = resources("hubbub.yaml")
    pod = container("hubbub.yaml", "hubbub")
    assert pod["ports"] == [
        {"name": "http", "containerPort": kubernetes_settings(tmp_path).listener.port}
    ]
    paths = {name: pod[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {probe["port"] for probe in paths.values()} == {"http"}
    assert paths["readiness"]["path"] == "/readyz"
    assert paths["liveness"]["path"] == "/healthz"
    for name in ("hubbub", "hubbub-nodes"):
        (port,) = found["Service", name]["spec"]["ports"]
        assert port["targetPort"] == "http"


def test_pods_drain_before_they_are_killed_and_one_at_a_time(tmp_path: Path) -> None:
    found = resources("hubbub.yaml")
    pod = found["StatefulSet", "hubbub"]["spec"]["template"]["spec"]
    pause = float(container("hubbub.yaml", "hubbub")["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = kubernetes_settings(tmp_path).listener.shutdown_timeout
    assert pod["terminationGracePeriodSeconds"] > pause + drain
    assert found["PodDisruptionBudget", "hubbub"]["spec"]["maxUnavailable"] == 1
    assert found["StatefulSet", "hubbub"]["spec"]["updateStrategy"]["type"] == "RollingUpdate"


@pytest.mark.parametrize(("file", "app"), [("hubbub.yaml", "hubbub"), ("nats.yaml", "nats")])
def test_selectors_find_the_pods_which_have_no_privileges(file: str, app: str) -> None:
    found = resources(file)
    labels = found["StatefulSet", app]["spec"]["template"]["metadata"]["labels"]
    assert found["StatefulSet", app]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget", app]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service", app]["spec"]["selector"] == labels
    pod = found["StatefulSet", app]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    security = container(file, app)["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    mounted = {each["name"] for each in container(file, app)["volumeMounts"]}
    claims = found["StatefulSet", app]["spec"]["volumeClaimTemplates"]
    there = {each["name"] for each in pod["volumes"]} | {c["metadata"]["name"] for c in claims}
    assert mounted == there


def test_nats_on_kubernetes_is_where_the_nodes_look_for_it(tmp_path: Path) -> None:
    found = resources("nats.yaml")
    replicas = found["StatefulSet", "nats"]["spec"]["replicas"]
    assert kubernetes_settings(tmp_path).broker.servers == tuple(
        f"nats://nats-{index}.nats:4222" for index in range(replicas)
    )
    file = tmp_path / "nats.conf"
    file.write_text(found["ConfigMap", "nats"]["data"]["nats.conf"])
    given = dict.fromkeys(("NATS_PASSWORD", "NATS_SYSTEM_PASSWORD"), SECRET)
    for each in container("nats.yaml", "nats")["env"]:
        given[each["name"]] = each.get("value", SECRET)
    check_nats(file, given)
    ports = {each["containerPort"] for each in container("nats.yaml", "nats")["ports"]}
    assert ports == {each["port"] for each in found["Service", "nats"]["spec"]["ports"]}
    assert ports == {int(port) for port in re.findall(r"0\.0\.0\.0:(\d+)", file.read_text())}


@pytest.mark.spec("SEC-02")
@pytest.mark.parametrize("file", [COMPOSE / "nats.conf", KUBERNETES / "nats.yaml"])
def test_the_monitoring_of_nats_which_asks_for_no_login_is_not_open(file: Path) -> None:
    addresses = re.findall(r"^\s*https?(?:_port)?: *(\S+)", file.read_text(), re.MULTILINE)
    assert all(address.startswith("127.0.0.1:") for address in addresses), addresses


# -- both -----------------------------------------------------------------------------------------


def images() -> Iterator[str]:
    """Where a variable may name a digest, what holds without it."""
    for each in compose()["services"].values():
        yield re.sub(r"\$\{\w+_IMAGE:-(.+)\}", r"\1", each["image"])
    yield container("hubbub.yaml", "hubbub")["image"]
    yield container("nats.yaml", "nats")["image"]


def test_only_the_proxy_says_which_address_a_client_has(tmp_path: Path) -> None:
    """Others in the network of the containers count under their own address, whatever they say."""
    proxy = compose()["services"]["proxy"]["networks"]["inside"]["ipv4_address"]
    (pool,) = compose()["networks"]["inside"]["ipam"]["config"]
    network, others = ip_network(pool["subnet"]), ip_network(pool["ip_range"])
    assert ip_address(proxy) in network
    assert ip_address(proxy) not in others, "docker gives these to the other containers"
    trusted = TrustedProxies(hub_settings("hub1").listener.trusted_proxies)
    forged = {b"x-forwarded-for": b"203.0.113.9"}
    for peer in (str(others[1]), str(network[1]), "10.0.0.1", "192.168.0.1", "172.16.0.1"):
        assert trusted.client_of(peer, forged, False)[0] == peer
    assert trusted.client_of(proxy, forged, False)[0] == "203.0.113.9"
    on_kubernetes = TrustedProxies(kubernetes_settings(tmp_path).listener.trusted_proxies)
    assert on_kubernetes.client_of("10.0.0.1", forged, False)[0] == "10.0.0.1"


def test_no_hub_of_the_shipped_files_is_open_to_everyone(tmp_path: Path) -> None:
    for settings in (hub_settings("hub1"), kubernetes_settings(tmp_path)):
        for name, hub in settings.hubs.items():
            assert not hub.settings.allow_anonymous, name
            assert not any(rules.allow_anonymous for rules in hub.rules.values()), name


def test_foreign_images_are_pinned_to_a_version() -> None:
    for image in images():
        assert image == "hubbub" or re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?(-\w+)?", image), image

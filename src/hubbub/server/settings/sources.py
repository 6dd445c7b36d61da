"""Sources of settings: a YAML text and environment variables, merged into one tree."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from hubbub.server.settings.keys import REFUSED, SettingsError
from hubbub.server.settings.reader import Given, SettingsReader, join, nearest

PREFIX = "HUBBUB_"
HUBS_VARIABLE = "HUBBUB_HUBS"
MAPPINGS = {HUBS_VARIABLE: "hubs", "HUBBUB_DYNAMIC_HUBS": "dynamicHubs"}
"""Variables that hold a whole mapping, as YAML or JSON."""
MAX_FILE_BYTES = 4 << 20

# Read by the command line and its clients, not by the hub.
CLIENT_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in ("CONFIG", "URL", "SERVER", "HUB", "TOKEN", "DEV", "CA_FILE", "INSECURE")
)

# Kubernetes and Docker describe a service called "hubbub" to its neighbours in such variables.
_SERVICE_LINK = re.compile(
    r"HUBBUB_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")


class _Loader(yaml.SafeLoader):
    """Strict YAML: no duplicate keys, no aliases (so that input cannot grow without bound), and
    dates stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it so
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                problem="aliases are not supported; put a text that begins with * in quotes",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is not text", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} is there twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, origin: str) -> object:
    """The text as plain values. Errors name the line but never quote it, since it may be secret."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = re.sub(r"(['\"]).{2,}\1", "(hidden)", error.problem or "cannot be read")
        raise SettingsError([f"{origin}{where}: not valid YAML: {reason}"]) from None
    except yaml.YAMLError:
        raise SettingsError([f"{origin}: not valid YAML: a character is not allowed"]) from None
    except (ValueError, OverflowError):
        raise SettingsError([f"{origin}: not valid YAML: a number cannot be read"]) from None
    except RecursionError:
        raise SettingsError([f"{origin}: not valid YAML: nested too deeply"]) from None


def read_file(path: Path) -> object:
    """The values of a configuration file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SettingsError([f"{path}: larger than {MAX_FILE_BYTES} bytes"])
        text = data.decode()
    except UnicodeDecodeError:
        raise SettingsError([f"{path}: not UTF-8 text"]) from None
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror}"]) from None
    return parse_yaml(text, str(path))


def variable_of(path: str) -> str:
    """`connection.ws.pingInterval` becomes HUBBUB_CONNECTION_WS_PING_INTERVAL."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path.replace(".", "_"))
    return PREFIX + words.upper()


def read_environment(
    environment: Mapping[str, str], paths: Mapping[str, object], reader: SettingsReader
) -> dict[str, Given]:
    """Reads values from variables; an unknown HUBBUB_ variable is a problem."""
    known = {variable_of(path): path for path in paths}
    found: dict[str, Given] = {}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in CLIENT_VARIABLES:
            continue
        value = environment[variable]
        if variable in MAPPINGS:
            found[MAPPINGS[variable]] = Given(parse_yaml(value, variable), variable, is_text=False)
        elif variable in known:
            found[known[variable]] = Given(value, variable, is_text=True)
        elif not (_SERVICE_LINK.fullmatch(variable) or _SERVICE_URL.match(value)):
            reader.note(_refusal_of(variable, known))
    return found


def _refusal_of(variable: str, known: Mapping[str, str]) -> str:
    for path, reason in REFUSED.items():
        prefix = variable_of(path)
        if variable == prefix or variable.startswith(f"{prefix}_"):
            return f"{variable} is refused: {reason}"
    meant = nearest(variable, [*known, *MAPPINGS])
    hint = f"did you mean {meant}?" if meant else "see docs/configuration.md for the known ones"
    return f"{variable} is not a known variable; {hint}"


def graft(tree: dict[str, object], path: str, value: Given, reader: SettingsReader) -> None:
    """Sets a value in the tree at its path, overriding the file."""
    *categories, key = path.split(".")
    walked = ""
    for category in categories:
        walked = join(walked, category)
        branch: dict[str, object] = dict(reader.mapping(tree.get(category), walked))
        tree[category] = branch
        tree = branch
    tree[key] = value

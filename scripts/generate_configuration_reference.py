"""Write docs/configuration.md from the settings' own types, so that it cannot lie.

Run: python scripts/generate_configuration_reference.py
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hubbub.domain.rules import (
    AuthProvider,
    ChannelSettings,
    HubSettings,
    Quotas,
    RpcRoute,
    Rules,
    TrustedIssuer,
)
from hubbub.server.settings import Settings
from hubbub.server.settings.keys import CATEGORIES, REFUSED
from hubbub.server.settings.reader import expected, is_category, join, key_types
from hubbub.server.settings.sources import variable_of

TARGET = Path(__file__).parents[1] / "docs" / "configuration.md"

INTRODUCTION = """# Configuration

<!-- Written by scripts/generate_configuration_reference.py; change the sentences there or in
     src/hubbub/server/settings/keys.py and the modules beside it. -->

A hub starts without any configuration: it listens on this machine only, has no hub, lets nobody
in anonymously, and makes its own signing keys. Everything else is decided in one YAML file
(`hubbub serve --config hubbub.yaml`), in variables of the environment, or both. A variable wins
over the file, an option of the command line over both.

- `hubbub config check --config hubbub.yaml` says all that is wrong, or what is in effect.
- Each key below has a variable: `HUBBUB_`, then its path in capitals, words apart by `_`.
  Lists are separated by commas; booleans are `true` or `false`. `HUBBUB_HUBS` takes the whole
  mapping `hubs` as YAML or JSON.
- Durations are numbers of seconds, sizes are bytes, unless a line says otherwise.
- Unknown keys and variables are refused, with the one that was probably meant. So are keys
  without an effect in this version (at the end). YAML aliases are not supported.
- Secrets are never shown, neither in problems nor by `config check`. Give them as variables, or
  not at all: the hub then makes `secrets.json` in the folder `storage.path`, readable by its owner
  only.

An example to start from: [examples/hubbub.yaml](../examples/hubbub.yaml).

"""

HUBS = """## hubs

Each entry declares a hub (a tenant) by its id. Nothing declared means no hub, unless
`engine.allowDynamicHubs` is on.

```yaml
hubs:
  shop:
    settings: {defaultRules: open}
    rules: {open: {public: true}, kept: {store: true}}
    namespaces: {log: kept} # channels log:…
    channels: {news: {rules: open, metadata: {title: News}}}
    authProviders: {}
```

A channel's rules are its own, else its namespace's, else `defaultRules`. Rules and auth providers
that are referred to must be declared in the same hub.

`dynamicHubs` has the same keys as one hub, and is the template of hubs that nobody declared:
[hubs on demand](how-to/hubs-on-demand.md). In URLs of its auth providers and RPC routes `{hub}` is
the name of the hub. `HUBBUB_DYNAMIC_HUBS` takes the mapping as YAML or JSON.

"""

HUB_SECTIONS = (
    ("hubs.<hub>.settings", HubSettings),
    ("hubs.<hub>.settings.trustedIssuers[]", TrustedIssuer),
    ("hubs.<hub>.settings.quotas", Quotas),
    ("hubs.<hub>.rules.<id>", Rules),
    ("hubs.<hub>.channels.<name>", ChannelSettings),
    ("hubs.<hub>.authProviders.<id>", AuthProvider),
    ("hubs.<hub>.rpcRoutes.<id>", RpcRoute),
)


def render() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for name in CATEGORIES:
        category = Settings().category(name)
        lines.append(f"## {name}\n\n{inspect.getdoc(type(category))}\n\n")
        lines.append("| key and variable | takes | default | |\n|---|---|---|---|\n")
        lines.extend(_rows(category, name))
        lines.append("\n")
    lines.append(HUBS)
    for path, kind in HUB_SECTIONS:
        lines.extend(_hub_section(path, kind))
    lines.append("## Refused keys\n\n| key | why |\n|---|---|\n")
    lines.extend(f"| `{key}` | {reason} |\n" for key, reason in REFUSED.items())
    return "".join(lines)


def _rows(struct: msgspec.Struct, path: str) -> Iterator[str]:
    sentences = _sentences(type(struct))
    for key, (name, kind) in key_types(type(struct)).items():
        value, full = getattr(struct, name), join(path, key)
        if is_category(kind):
            yield from _rows(value, full)
        else:
            default = "generated" if name == "secret" else _default(value)
            yield (
                f"| `{full}`<br>`{variable_of(full)}` | {expected(kind)} | {default} | "
                f"{sentences[name]} |\n"
            )


def _sentences(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring below each attribute of a class, on one line."""
    (declaration,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(declaration, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, below in itertools.pairwise(declaration.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple | dict):
        return "empty"
    return f"`{value:.15g}`" if isinstance(value, float | int) else f"`{value}`"


def _hub_section(path: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    sentences = _sentences(kind)
    doc = (inspect.getdoc(kind) or "").replace("\n", " ")
    yield f"### `{path}`\n\n{doc}\n\n| key | takes | default | |\n|---|---|---|---|\n"
    for field in msgspec.structs.fields(kind):
        if not is_category(field.type):
            default = "required" if field.required else _default(_default_of(field))
            if kind is AuthProvider and field.name == "timeout_seconds":
                default = "see right"
            takes, sentence = expected(field.type), sentences[field.name]
            yield f"| `{field.encode_name}` | {takes} | {default} | {sentence} |\n"
    yield "\n"


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


if __name__ == "__main__":
    TARGET.write_text(render())
    print(f"wrote {TARGET.name}")

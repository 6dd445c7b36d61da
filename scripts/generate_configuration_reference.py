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
    Rules,
    TrustedIssuer,
)
from hubbub.server.settings import Settings
from hubbub.server.settings.keys import CATEGORIES, REFUSED
from hubbub.server.settings.reader import camel, expected, is_category, join, key_types
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

"""

HUB_SENTENCES = {
    HubSettings: {
        "allowAnonymous": "Sessions may stay without authentication.",
        "userChannel": "Each user has a channel `u:<user id>` shared by the user's sessions.",
        "defaultPublic": "Channels without rules are open to every session.",
        "defaultRules": "Rules of channels that have none of their own or by namespace.",
        "topicRules": "Rules that the first put or durable subscription gives a channel which does "
        "not store.",
        "authProvider": "The auth provider that checks the clients' credentials.",
        "sessionRestore": "A lost session can be restored with its one-time key.",
        "allowedOrigins": "Origins of web pages that may use this hub, in place of "
        "`listener.allowedOrigins`; the same forms.",
        "trustedIssuers": "Others whose signed tokens are accepted, see below.",
        "openTopics": "Everybody may register topics of Light-PubSubHubbub, publish to those "
        "without a key, and subscribe to them; other channels stay what their rules make them.",
        "callbackAddresses": "Where requests of the hub may go (webhooks, services, auth "
        "providers, keys, fetches): to public addresses only, also to this machine (`loopback`), "
        "or also to private networks (`private`). Only an operator may change it.",
        "natsSubjects": "Subjects of NATS, with all below them, that routes and auth providers "
        "may name besides those below `hubbub.rpc.{hub}` and `hubbub.auth.{hub}`. Only an operator "
        "may change them.",
    },
    TrustedIssuer: {
        "issuer": "`iss` of its tokens, exactly.",
        "audience": "What `aud` of its tokens must name.",
        "jwksUrl": "Where its public keys are; `https`, or `http` on this machine.",
        "keys": "Its public keys in JWK form, in place of `jwksUrl`.",
        "level": "What its tokens can do: a client's or a service's part.",
        "userClaim": "The claim that holds the user id.",
        "channelsClaim": "The claim that holds the permissions for channels.",
        "rpcsClaim": "The claim that holds the permitted calls.",
        "extraClaim": "The claim that holds what others see of the user in presence.",
        "addresses": "Where `jwksUrl` may be: `public`, `loopback`, or `private`. Without it, "
        "`private` in the file; through the admin API, as `callbackAddresses` of the hub.",
    },
    Quotas: {
        "sessions": "Sessions at the same time.",
        "channels": "Channels in memory at the same time.",
        "messagesPerSecond": "Messages published each second, by all together.",
        "deliveriesPerSecond": "Messages delivered each second, to all together.",
        "storedBytes": "Bytes of stored messages.",
        "webhooks": "Webhooks; 0 here means 10,000.",
        "webhookRequestsPerSecond": "Requests that go out to webhooks each second.",
    },
    Rules: {
        "retain": "The last message marked `retain` is sent to each new subscriber.",
        "store": "Messages marked `store` are on disk before anyone sees them.",
        "storeByDefault": "With `store`, messages without the mark, too, unless they are "
        "transient. So webhooks get all that is published.",
        "push": "Messages marked `push` may also go to push services.",
        "presence": "Subscribers see who else is there.",
        "occupancy": "Subscribers see how many are there.",
        "public": "Any authenticated session may subscribe without a permission.",
        "clientPublish": "Sessions may publish without a permission to do so.",
        "allowAnonymous": "Sessions without authentication may come in, where it is public.",
        "liveHistory": "The last messages are kept in memory for those who come back.",
        "journal": "What the [journal](journal.md) keeps about the channel: nothing, all but the "
        "payloads, or the payloads too.",
        "maxAgeSeconds": "Stored messages go when they are older; 0 for no limit.",
        "maxStoredMessages": "Beyond so many, the oldest stored messages of a channel go; 0 for no "
        "limit.",
        "maxStoredBytes": "The same for the bytes of their payloads.",
        "reclaimAcknowledged": "What every durable subscription of a channel has acknowledged "
        "goes, where there is one.",
        "dropUnread": "The three limits hold even for what a durable subscription still has to "
        "get; it counts what it missed.",
    },
    ChannelSettings: {
        "rules": "Rules of this channel.",
        "metadata": "Anything that services want to note, as JSON.",
    },
    AuthProvider: {
        "url": "Where to send the credentials; `http` or `https`, without a password in it.",
        "headers": "Headers to send with them, for example a key; their values are secret.",
        "timeoutSeconds": "Time to answer; without it, `hub.authenticateRequestTimeout`.",
        "addresses": "Where it may be, as of a trusted issuer.",
    },
}

HUB_SECTIONS = (
    ("hubs.<hub>.settings", HubSettings),
    ("hubs.<hub>.settings.trustedIssuers[]", TrustedIssuer),
    ("hubs.<hub>.settings.quotas", Quotas),
    ("hubs.<hub>.rules.<id>", Rules),
    ("hubs.<hub>.channels.<name>", ChannelSettings),
    ("hubs.<hub>.authProviders.<id>", AuthProvider),
)


def render() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for name in CATEGORIES:
        category = getattr(Settings(), name)
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
    sentences = HUB_SENTENCES[kind]
    doc = (inspect.getdoc(kind) or "").replace("\n", " ")
    yield f"### `{path}`\n\n{doc}\n\n| key | takes | default | |\n|---|---|---|---|\n"
    for field in msgspec.structs.fields(kind):
        key = camel(field.name)
        if not is_category(field.type):
            default = "required" if field.required else _default(_default_of(field))
            if key == "timeoutSeconds":
                default = "see right"
            yield f"| `{key}` | {expected(field.type)} | {default} | {sentences[key]} |\n"
    yield "\n"


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


if __name__ == "__main__":
    TARGET.write_text(render())
    print(f"wrote {TARGET.name}")

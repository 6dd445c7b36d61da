"""Groups of commands that follow from the admin API alone: namespaces, durable subscriptions,
users, collectives, routes, callbacks and message info."""

from __future__ import annotations

import click

from hubbub.cli.administration.commands import add
from hubbub.cli.tables import Columns


@click.group()
def namespaces() -> None:
    """See, change and delete the namespaces of a hub."""


add(
    namespaces, "list", "listNamespaces", "List the namespaces with their rules.",
    columns={"NAMESPACE": "name", "RULES": lambda each: each["value"]["rules"]},
)  # fmt: skip
add(
    namespaces, "set", "putNamespace",
    "Give all channels that begin with NAMESPACE and ':' the rules RULES.",
    done="{namespace}:… has the rules {rules}",
    arguments={"rules": click.argument("given_rules", metavar="RULES")},
)  # fmt: skip
add(
    namespaces, "delete", "deleteNamespace",
    "Delete NAMESPACE; its channels then have the hub's default rules.",
)  # fmt: skip


@click.group()
def subscriptions() -> None:
    """See and remove the durable subscriptions of a hub."""


_NAME = {"subscription": click.argument("subscription", metavar="[NAME]", default="default")}
_LAGS: Columns = {
    "CHANNEL": "channel", "OWNER": "owner", "NAME": "name", "LAG": "lag", "HANDED OUT": "handedOut",
    "REDELIVERED": "redeliveries", "DEAD": "deadLetters", "MISSED": "missed",
}  # fmt: skip
add(
    subscriptions, "list", "listDurableSubscriptions",
    "List the durable subscriptions with what they still have to get.", columns=_LAGS,
    nothing="the hub {hub!r} has no such durable subscription",
)  # fmt: skip
add(
    subscriptions, "show", "getDurableSubscription",
    "Show where OWNER's durable subscription NAME to CHANNEL stands.", arguments=_NAME,
)  # fmt: skip
add(
    subscriptions, "remove", "deleteDurableSubscription",
    """Remove OWNER's durable subscription NAME to CHANNEL for good.

    Messages that only it still had to get are not kept for it any more.
    """,
    question="Remove {owner}'s durable subscription {subscription!r} to {channel!r}?",
    arguments=_NAME,
)  # fmt: skip


@click.group()
def users() -> None:
    """Erase what a hub keeps about a user."""


add(
    users, "erase", "eraseUser",
    """Delete the notifications, push tokens, subscriptions and webhooks of USER. `left` is what a
    search afterwards still found.

    The user's name is taken off the notifications of others, and off channels with an owner. Those
    that the user owned belong to the hub from now on.

    The journal has a command of its own: `hubbub journal erase`.
    """,
    question="Erase what the hub {hub!r} keeps about {user!r}?",
)  # fmt: skip


@click.group()
def collectives() -> None:
    """Groups of peers that are addressed together, as `collective:NAME`."""


_COLLECTIVE = {
    "collective": click.argument("collective", metavar="NAME"),
    "members": click.argument("given_members", metavar="[PEER]...", nargs=-1),
}
add(collectives, "list", "listCollectives", columns={"COLLECTIVE": "id", "POLICY": "policy"})
add(collectives, "show", "getCollective", "Show the members of NAME.", arguments=_COLLECTIVE)
add(collectives, "delete", "deleteCollective", arguments=_COLLECTIVE)
add(
    collectives, "set", "putCollective", "Create the collective NAME, or give it these members.",
    arguments=_COLLECTIVE,
)  # fmt: skip
add(
    collectives, "add", "putMember", "Add PEER to the collective NAME.", done="added {peer}",
    arguments=_COLLECTIVE,
)  # fmt: skip
add(
    collectives, "remove", "deleteMember", "Take PEER out of the collective NAME.", question=None,
    done="removed {peer}", arguments=_COLLECTIVE,
)  # fmt: skip


@click.group()
def routes() -> None:
    """Rules that send messages to receivers besides the one that they name."""


_CONDITIONS = ("type", "subtype", "receiver", "sender")
add(
    routes, "list", "listRoutingRules", "List the rules with their conditions and receivers.",
    columns={
        "ROUTE": "name",
        "WHEN": lambda rule: [
            f"{name}={rule['value'][name]}" for name in _CONDITIONS if rule["value"].get(name)
        ],
        "TO": lambda rule: rule["value"]["route"],
    },
)  # fmt: skip
add(routes, "show", "getRoutingRule")
add(routes, "set", "putRoutingRule")
add(routes, "delete", "deleteRoutingRule")
add(
    routes, "add", "addRoute",
    """Send messages that match to RECEIVER, too: a peer, `collective:x` or `component:x`.

    At least one condition is needed. Prints the name of the new rule.
    """,
    prints="id",
    arguments={
        "route": click.argument("given_route", metavar="RECEIVER...", nargs=-1, required=True)
    },
)  # fmt: skip


@click.group()
def callbacks() -> None:
    """Servers that a hub asks about peers, or tells of messages."""


add(
    callbacks, "list", "listCallbacks",
    columns={
        "CALLBACK": "name",
        "URL": lambda each: each["value"]["url"],
        "ROLES": lambda each: each["value"]["roles"],
    },
)  # fmt: skip
add(callbacks, "show", "getCallback")
add(callbacks, "set", "putCallback")
add(callbacks, "delete", "deleteCallback")


@click.group("message-info")
def message_info() -> None:
    """What messages of a type and subtype mean, and which replies are valid."""


add(
    message_info, "list", "listMessageInfos",
    columns={
        "INFO": "name",
        "TYPE": lambda each: each["value"]["type"],
        "SUBTYPE": lambda each: each["value"]["subtype"],
        "PURPOSE": lambda each: each["value"]["purpose"],
    },
)  # fmt: skip
add(message_info, "show", "getMessageInfo")
add(message_info, "set", "putMessageInfo")
add(message_info, "delete", "deleteMessageInfo")
add(message_info, "about", "getMessageInfoAbout")

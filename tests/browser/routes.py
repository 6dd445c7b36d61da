"""Every page of the dashboard: its route with what the seed put there, its heading, and a text that
only data can show."""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    name: str
    route: str
    heading: str
    text: str
    whole: bool = False
    """A picture shows all of the page, not only what a screen holds."""


PAGES = (
    Shown("overview", "overview", "Overview", "The last 15 minutes", True),
    Shown("hub", "overview?hub=demo", "Hub demo", "Since the nodes began"),
    Shown("cluster", "cluster", "Cluster", "Members and their connections", True),
    Shown("metrics", "metrics?span=15m", "Metrics", "Messages per second", True),
    Shown("inspector", "inspector?hub=demo", "Inspector", "Connect to demo"),
    Shown("channels", "channels?hub=demo", "Channels", "ledger:may"),
    Shown("channel", "channels/ledger%3Amay?hub=demo", "ledger:may", "Settings of this channel"),
    Shown("sessions", "sessions?hub=demo", "Sessions", "rows"),
    Shown("subscriptions", "delivery?hub=demo", "Delivery", "billing"),
    Shown("webhooks", "delivery?hub=demo&show=webhooks", "Delivery", "http://127.0.0.1:9/in"),
    Shown(
        "notifications",
        "notifications?hub=demo&channel=notification%3Anews",
        "Notifications and push",
        "Maintenance on Friday",
    ),
    Shown("push", "notifications?hub=demo&show=push", "Notifications and push", "Keys and acc"),
    Shown("people", "people?hub=demo", "People", "desk http://127.0.0.1:9/ann"),
    Shown("peer", "people/peers/ann?hub=demo", "People", "Channels that it follows"),
    Shown("collectives", "people?hub=demo&show=collectives", "People", "TO_ALL_MEMBERS"),
    Shown("routes", "people?hub=demo&show=routes", "People", "type alarm → ann"),
    Shown("adapters", "people?hub=demo&show=adapters", "People", "How they do"),
    Shown("callbacks", "people?hub=demo&show=callbacks", "People", "No callback yet"),
    Shown("messages", "people?hub=demo&show=messages", "People", "The newest first"),
    Shown("dead-deliveries", "people?hub=demo&show=dead-deliveries", "People", "reached nobody"),
    Shown("rules", "rules?hub=demo", "Rules and hubs", "chatroom"),
    Shown("rule", "rules/rules/chatroom?hub=demo&show=rules", "Rules and hubs", "client publish"),
    Shown("namespaces", "rules?hub=demo&show=namespaces", "Rules and hubs", "ledger"),
    Shown("services", "rules?hub=demo&show=rpc-routes", "Rules and hubs", "prices.*"),
    Shown("settings", "rules?hub=demo&show=hub", "Rules and hubs", "Quotas"),
    Shown("hubs", "rules?hub=demo&show=hubs", "Rules and hubs", "shop"),
    Shown("tokens", "access?hub=demo", "Access", "Issue a token for demo"),
    Shown("revocations", "access?hub=demo&show=revocations", "Access", "issued until"),
    Shown("providers", "access?hub=demo&show=providers", "Access", "accounts"),
    Shown("erasure", "access?hub=demo&show=erasure", "Access", "Erase a user of demo"),
    Shown("audit", "audit", "Audit", "rules.put"),
    Shown("data", "data", "Data", "sessions_daily"),
    Shown("table", "data/sessions_daily", "sessions_daily", "As of"),
    Shown("trace", "trace?hub=demo", "Trace and settings", "Settings of this node"),
)

MONTH = Shown("month", "metrics?span=31d", "Metrics", "Mean duration", True)
"""Apart, since its tables take the analytics some seconds."""

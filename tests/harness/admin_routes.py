"""For each route of the admin API an address and a body that it takes."""

from __future__ import annotations

from typing import Any

from hubbub.gateways.routes import AnyRoute

PATHS = {
    "hub": "acme",
    "channel": "news",
    "topic": "news",
    "subscription": "default",
    "owner": "u:ann",
    "producer": "p",
    "rules": "default",
    "namespace": "room",
    "provider": "p",
    "session": "unknown",
    "user": "ann",
    "platform": "fcm",
    "keyID": "0123456789abcdef",
    "token": "t",
    "table": "traffic",
    "route": "r",
    "method": "cart.add",
    "stream": "clicks",
    "webhook": "w",
    "serial": "1",
    "conversation": "c",
    "rule": "r",
    "adapter": "mail",
    "callback": "c",
    "info": "i",
    "peer": "ann",
    "collective": "team",
    "restore": "0123456789abcdef",
    "key": "k",
    "subscriber": "s",
}
QUERIES = {"followEvents": "?channel=news", "search": "?q=x&channel=news"}
"""The parameters without which a route refuses a request."""
BODIES: dict[str, Any] = {
    "createHub": {"hub": "new"},
    "beginRestore": {"hub": "new", "archive": "nowhere.tar.gz"},
    "putHubSettings": {},
    "putRules": {},
    "tryRules": {},
    "trace": {"channel": "news", "seconds": 0.1},
    "putNamespace": {"rules": "default"},
    "putAuthProvider": {"url": "https://a.example"},
    "putRpcRoute": {"method": "cart.*", "url": "https://a.example"},
    "callService": {"n": 1},
    "submitEvent": {"n": 1},
    "putChannelSettings": {"rules": None},
    "putChannelMetadata": {"metadata": {}},
    "publishBatchAsAdmin": {"publishes": [{"channel": "news", "payload": {"json": 1}}]},
    "publishBatch": {"publishes": [{"channel": "news", "payload": {"json": 1}}]},
    "publish": {"n": 1},
    "createWebhook": {"channel": "news", "callback": "https://a.example/in"},
    "putMessage": {"n": 1},
    "subscribeTopic": {},
    "acknowledgeMessages": {"upTo": "1"},
    "logIn": {"user": "a"},
    "exchangeCredentials": {"password": "a"},
    "issueToken": {"userID": "ann"},
    "revoke": {"kind": "user", "subject": "nobody in particular"},
    "revokeEverywhere": {"kind": "user", "subject": "nobody in particular"},
    "createNotifications": {"notifications": [{"payload": {"json": 1}}]},
    "markNotificationsRead": {"all": True},
    "markNotificationsUnread": {"all": True},
    "markNotifications": {"all": True},
    "deleteNotifications": {"all": True},
    "replaceDocument": {"a": 1},
    "patchDocument": [{"op": "add", "path": "/a", "value": 1}],
    "restoreDocument": {"version": 1},
    "writeDocument": {"a": 1},
    "changeDocument": [{"op": "add", "path": "/a", "value": 1}],
    "sendCommand": {"cmd": "hEcho", "params": 1},
    "pushToUsers": {"users": ["ann"], "title": "Hello"},
    "testPush": {"user": "ann", "title": "Hello"},
    "putFcmAccount": {"project_id": "p", "client_email": "e", "private_key": "k"},
    "putApnsKey": {"keyID": "k", "teamID": "t", "key": "k"},
    "putPushToken": {"platform": "fcm", "token": "t"},
    "sendMessage": {"type": "t", "subtype": "s", "sender": "component:x"},
    "handInMessage": {"type": "t", "subtype": "s", "sender": "component:x"},
    "putPeer": {},
    "putPeers": {"peers": [{"id": "ann", "peer": {}}]},
    "putCollective": {"members": ["ann"]},
    "addRoute": {"type": "t", "route": ["ann"]},
    "putRoutingRule": {"type": "t", "route": ["ann"]},
    "putAdapter": {"kind": "rest"},
    "putCallback": {"url": "https://a.example"},
    "putMessageInfo": {"type": "t", "subtype": "s"},
    "putMercureKey": {"key": "a secret of at least thirty-two bytes"},
    "publishUpdate": {"topic": "a"},
    "replayDeadDeliveries": {},
    "discardDeadDeliveries": {"keys": ["none"]},
    "putPushTokenOfUser": {"platform": "fcm", "token": "t"},
}


def address(route: AnyRoute, **changed: str) -> str:
    path = route.path
    for part, prefix in (("/notifications", "notification:"), ("/document", "doc:")):
        if path.partition("{channel}")[2].startswith(part):
            changed = {"channel": f"{prefix}news", **changed}
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", (PATHS | changed)[name])
    return path + QUERIES.get(route.operation_id, "")

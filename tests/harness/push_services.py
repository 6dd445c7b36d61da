"""Push services on loopback, and devices that register with a hub."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import http_ece
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from harness.node_programs import node
from harness.receivers import Received, Receiver, Reply, whole_answer
from harness.running_hub import open_hub
from hubbub.domain.rules import HubConfiguration, Rules

SERVICES = Path(__file__).parents[1] / "push_services"
PUSHED = Rules(public=True, client_publish=True, allow_anonymous=True, push=True, store=True)


def push_hub(rules: Rules = PUSHED, **settings: Any) -> HubConfiguration:
    """A hub that may push, also to services on this machine."""
    return open_hub(rules=rules, **{"callback_addresses": "loopback", **settings})


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


# -- in node --------------------------------------------------------------------------------------


class WebPushTesting:
    """npm's web-push-testing."""

    def __init__(self, port: int, http: Any) -> None:
        self.url = f"http://localhost:{port}"
        self._http = http

    async def ask(self, path: str, **body: Any) -> Any:
        async with self._http.post(self.url + path, json=body) as answer:
            return await answer.json() if answer.content_type == "application/json" else None

    async def subscribe(self, key: str) -> dict[str, Any]:
        """A browser subscribes with the hub's key."""
        asked = {"userVisibleOnly": "true", "applicationServerKey": key}
        answer = await self.ask("/subscribe", **asked)
        return dict(answer["data"])

    async def notifications(self, subscription: dict[str, Any]) -> list[Any]:
        """The notifications that the service decrypted."""
        answer = await self.ask("/get-notifications", clientHash=subscription["clientHash"])
        return [json.loads(each) for each in answer.get("data", {}).get("messages", [])]


@contextlib.asynccontextmanager
async def web_push_testing(http: Any) -> AsyncIterator[WebPushTesting]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with node(SERVICES / "web_push.js", port) as process:
        assert process.stdout is not None
        assert b"running" in await asyncio.wait_for(process.stdout.readline(), 20)
        yield WebPushTesting(port, http)


class Apns:
    """`apns.js`."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.url = f"https://127.0.0.1:{port}"
        self.port = port
        self.requests: list[Any] = []

    async def got(self, count: int) -> list[Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            while len(self.requests) < count:
                self.requests.append(json.loads(await self._process.stdout.readline()))
        return self.requests


@contextlib.asynccontextmanager
async def apns_service(
    certificate: tuple[Path, Path], streams: int = 1000, goaway_every: int = 0
) -> AsyncIterator[Apns]:
    async with node(SERVICES / "apns.js", *certificate, streams, goaway_every) as process:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 20))
        yield Apns(process, port)


# -- in Python ------------------------------------------------------------------------------------


class Browser:
    """A subscription to a push service, and the key that reads what is pushed to it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.auth = bytes(range(16))

    @property
    def subscription(self) -> dict[str, Any]:
        public = self.private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )
        return {
            "endpoint": self.endpoint,
            "expirationTime": None,
            "keys": {"p256dh": b64url(public), "auth": b64url(self.auth)},
        }

    def read(self, request: Received) -> Any:
        plain = http_ece.decrypt(
            request.body, private_key=self.private, auth_secret=self.auth, version="aes128gcm"
        )
        return json.loads(plain)


class BrowserService(Receiver):
    """A push service of browsers, which answers as it is told: a status, or bytes, for each
    endpoint."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.answers: dict[str, Reply] = {}
        self.hanging: set[str] = set()

    def browser(self, path: str = "/ann") -> Browser:
        return Browser(f"http://127.0.0.1:{self.port}{path}")

    async def _answer(self, request: Received) -> Reply:
        if request.path in self.hanging:
            await asyncio.Event().wait()
        return self.answers.get(request.path, 201)


class Fcm(Receiver):
    """Google's push service: access tokens for assertions of the account, and messages that are as
    its discovery document describes them."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.key = rsa.generate_private_key(65537, 2048)
        self.answers: dict[str, Reply] = {}
        self.assertions = 0
        self.expired: set[str] = set()
        """Access tokens that hold no longer."""

    @property
    def account(self) -> dict[str, str]:
        return {
            "type": "service_account",
            "project_id": "proj-1",
            "private_key_id": "kid1",
            "private_key": pem(self.key),
            "client_email": "push@proj-1.example",
            "token_uri": "http://10.0.0.1/steal",
        }

    @property
    def settings(self) -> dict[str, str]:
        return {"push__fcmUrl": self.url, "push__fcmTokenUrl": f"{self.url}/token"}

    @property
    def sent(self) -> list[Any]:
        return [json.loads(each.body)["message"] for each in self.messages if "send" in each.path]

    def _answer(self, request: Received) -> Reply:
        if request.path == "/token":
            return self._token(request)
        bearer = request.headers["authorization"].removeprefix("Bearer ")
        if not bearer.startswith("access-") or bearer in self.expired:
            return _error(401, "UNAUTHENTICATED")
        message = json.loads(request.body)["message"]
        problem = _schema_problem(message)
        if request.path != "/v1/projects/proj-1/messages:send" or problem:
            return _error(400, "INVALID_ARGUMENT", problem)
        return self.answers.get(
            message["token"], whole_answer(200, b'{"name":"projects/proj-1/messages/1"}')
        )

    def _token(self, request: Received) -> Reply:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        try:
            claims = jwt.decode(
                form["assertion"], self.key.public_key(), ["RS256"], audience=f"{self.url}/token"
            )
        except jwt.InvalidTokenError:
            return whole_answer(400, b'{"error":"invalid_grant"}')
        assert claims["iss"] == "push@proj-1.example"
        assert claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
        assert claims["exp"] - claims["iat"] <= 3600
        self.assertions += 1
        given = {"access_token": f"access-{self.assertions}", "expires_in": 3599}
        return whole_answer(200, json.dumps({**given, "token_type": "Bearer"}).encode())


def _error(status: int, word: str, message: str = "") -> bytes:
    said = {"error": {"code": status, "status": word, "message": message}}
    return whole_answer(status, json.dumps(said).encode())


_MESSAGE = {"name", "data", "notification", "android", "webpush", "apns", "fcmOptions", "token"}
_ANDROID = {"collapse_key": str, "priority": str, "ttl": str}


def _schema_problem(message: dict[str, Any]) -> str:
    """Why the message violates the schema `Message` in the discovery document of FCM v1."""
    if not message.keys() <= _MESSAGE or not isinstance(message.get("token"), str):
        return "message"
    if not all(isinstance(each, str) for each in message.get("data", {}).values()):
        return "message.data"
    if not message.get("notification", {}).keys() <= {"title", "body", "image"}:
        return "message.notification"
    for name, value in message.get("android", {}).items():
        if name not in _ANDROID or not isinstance(value, _ANDROID[name]):
            return f"message.android.{name}"
    if message.get("android", {}).get("priority") not in (None, "NORMAL", "HIGH"):
        return "message.android.priority"
    ttl = message.get("android", {}).get("ttl", "0s")
    return "" if ttl.endswith("s") and ttl[:-1].isdecimal() else "message.android.ttl"

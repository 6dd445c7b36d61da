"""Ways to three people, on this machine: `mail` is a mail server with mailboxes (dovecot), `matrix`
a homeserver (matrix-synapse), `browser` a browser with its push service. Each prints how it is
reached, then what comes, until Ctrl-C. The servers are those of the project's tests; the how-to
"A red build" says how to install them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

sys.path.extend(str(Path(__file__).resolve().parents[1] / part) for part in ("tests", ""))

from harness.certificates import make_certificate
from harness.mail import PASSWORD, Dovecot, dovecot, mail_server
from harness.push_services import Browser
from harness.receivers import Received, Receiver
from harness.synapse import Account, Homeserver, homeserver


def say(*words: object) -> None:
    print(*words, flush=True)


def put_into_mailbox(mailboxes: Dovecot, address: str, raw: bytes) -> None:
    mailboxes.append(address.partition("@")[0], raw)
    say("mail for", address)


def show_push(browser: Browser, request: Received) -> int:
    pushed = browser.read(request)
    say(f"the browser of eve shows: {pushed['title']}: {pushed['body']}")
    return 201


async def open_room(server: Homeserver) -> tuple[Account, Account, str]:
    """A room of the hub's account, in which bob is, too."""
    hub, bob = await server.register("hub"), await server.register("bob")
    asked = {"invite": [bob.user], "preset": "private_chat"}
    room: str = (await hub.ask("POST", "/createRoom", **asked))["room_id"]
    await bob.ask("POST", f"/join/{quote(room)}")
    return hub, bob, room


async def show_room(bob: Account, room: str) -> None:
    since = ""
    while True:
        found = await bob.ask("GET", f"/sync?timeout=30000{since}")
        since = f"&since={found['next_batch']}"
        joined = found.get("rooms", {}).get("join", {}).get(room, {})
        for event in joined.get("timeline", {}).get("events", ()):
            if event["type"] == "m.room.message":
                say("bob reads in the room:", event["content"]["body"])


async def mail() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with dovecot(folder / "mail", make_certificate(folder)) as mailboxes:
            async with mail_server() as smtp:
                smtp.deliver = lambda address, raw: put_into_mailbox(mailboxes, address, raw)
                say(f"SMTP {smtp.port}, IMAP {mailboxes.port}, password {PASSWORD}")
                await asyncio.Event().wait()


async def matrix() -> None:
    with tempfile.TemporaryDirectory() as name:
        async with homeserver(Path(name)) as server:
            hub, bob, room = await open_room(server)
            say(f"homeserver {server.url}, room {room}, token {hub.token}")
            await show_room(bob, room)


async def browser() -> None:
    async with Receiver() as pushes:
        eve = Browser(f"{pushes.url}/eve")
        pushes.respond = lambda request: show_push(eve, request)
        say("subscription", json.dumps(eve.subscription))
        await asyncio.Event().wait()


WAYS = {"mail": mail, "matrix": matrix, "browser": browser}

if __name__ == "__main__":
    if sys.argv[1:2] not in [[name] for name in WAYS]:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(WAYS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: ends the servers, too
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(WAYS[sys.argv[1]]())

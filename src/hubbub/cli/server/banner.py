"""What `serve` prints when it is ready: where it is, and in developer mode what to try next."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from hubbub import __version__
from hubbub.server.settings import Settings

DEFAULT_PORT = 8000


def banner(
    settings: Settings, port: int, zeromq: str | None = None, ticket: str | None = None
) -> str:
    """`zeromq` is where the ZeroMQ door is, if there is one; `ticket` opens the dashboard once."""
    listener = settings.listener
    scheme = "https" if listener.tls.certificate else "http"
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    address = f"{scheme}://{host}:{port}"
    topics = f" and {zeromq}" if zeromq is not None else ""
    ready = (
        f"hubbub {__version__} is ready at {address}{topics}  (data in {settings.storage.path}/)"
    )
    if not settings.developer:
        return ready
    option = "" if port == DEFAULT_PORT else f" --url ws://{host}:{port}"
    command = command_name()
    link = f"#ticket={ticket}   (good once, for ten minutes)" if ticket is not None else ""
    path = ""
    if command != "hubbub":
        folder = shlex.quote(str(Path(command).parent.resolve()))
        path = f"""

  The documentation types `hubbub`. In each terminal, once:
  export PATH={folder}:"$PATH"
"""
    return f"""{ready}

  Developer mode: the hub `demo` is open to everyone on this machine.

  See the hub           {address}/dashboard{link}
  Chat in the browser   {address}/chat   (open it twice)
  A shared to-do list   {address}/board  (open it twice)
  Follow a channel      {command} subscribe news{option}
  Say something         {command} publish news 'Hello'{option}
  The same with curl    curl -d 'Hello' {address}/v1/hubs/demo/channels/news/messages
                        curl -N '{address}/v1/hubs/demo/events?channel=news'
  Kept on disk          {command} publish log:orders '{{"id": 1}}' --json --store{option}
                        {command} history log:orders{option}
  Exactly once          {command} subscribe --durable orders{option}
                        {command} put orders 'one book'{option}
                        {command} get orders{option}
  The same over ZeroMQ  {zeromq}   (a REQ socket; docs/zeromq.md)
  Webhooks              curl -X PUT -d sports {address}/hub/register   (docs/webhooks.md)

  Ctrl-C stops it.{path}
"""


def command_name() -> str:
    """How to call this program from the folder it was started in."""
    found = shutil.which("hubbub")
    started = Path(sys.argv[0])
    if started.name != "hubbub" or (found and Path(found).samefile(started)):
        return "hubbub"
    return sys.argv[0]

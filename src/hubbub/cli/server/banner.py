"""The output of `serve` when it is ready: its addresses, and suggestions in developer mode."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from hubbub import __version__
from hubbub.server.address import address_of
from hubbub.server.settings import Settings

DEFAULT_PORT = 8000


def banner(
    settings: Settings,
    port: int,
    zeromq: str | None = None,
    ticket: str | None = None,
    mqtt_ports: Sequence[int] = (),
) -> str:
    """`zeromq` is the ZeroMQ endpoint, if there is one; `ticket` logs in to the dashboard once."""
    address = address_of(settings, port)
    topics = f" and {zeromq}" if zeromq is not None else ""
    ready = (
        f"hubbub {__version__} is ready at {address}{topics}  (data in {settings.storage.path}/)"
    )
    if not settings.developer:
        return ready
    option = "" if port == DEFAULT_PORT else f" --url {address.replace('http', 'ws', 1)}"
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

  See the hub           {_dashboard(settings, port)}/dashboard{link}
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
  Over MQTT             {_devices(mqtt_ports)}   (docs/mqtt.md)
  Webhooks              curl -X PUT -d sports {address}/hub/register   (docs/webhooks.md)

  Ctrl-C stops it.{path}
"""


def _devices(ports: Sequence[int]) -> str:
    """A command that publishes as a device does."""
    return f"mosquitto_pub -p {ports[0]} -t news -m Hello" if ports else "no port: see the log"


def _dashboard(settings: Settings, port: int) -> str:
    """The origin of the dashboard, if `listener.dashboard` sets one."""
    own, shared = settings.listener.dashboard, urlsplit(address_of(settings, port))
    if own.host is not None and ":" in own.host.rpartition("]")[2]:
        return f"{shared.scheme}://{own.host}"
    host = own.host or shared.netloc.rpartition(":")[0]
    return f"{shared.scheme}://{host}:{own.port or port}"


def command_name() -> str:
    """The command line that runs this program from the current folder."""
    found = shutil.which("hubbub")
    started = Path(sys.argv[0])
    if started.name != "hubbub" or (found and Path(found).samefile(started)):
        return "hubbub"
    return sys.argv[0]

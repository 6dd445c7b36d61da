"""What `serve` prints when it is ready: where it is, and in developer mode what to try next."""

from __future__ import annotations

from hubbub import __version__
from hubbub.server.settings import Settings

DEFAULT_PORT = 8000


def banner(settings: Settings, port: int) -> str:
    listener = settings.listener
    scheme = "https" if listener.tls.certificate else "http"
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    address = f"{scheme}://{host}:{port}"
    ready = f"hubbub {__version__} is ready at {address}  (data in {settings.storage.path}/)"
    if not settings.developer:
        return ready
    option = "" if port == DEFAULT_PORT else f" --url ws://{host}:{port}"
    return f"""{ready}

  Developer mode: the hub `demo` is open to everyone on this machine.

  Chat in the browser   {address}/chat   (open it twice)
  Follow a channel      hubbub subscribe news{option}
  Say something         hubbub publish news 'Hello'{option}
  The same with curl    curl -d 'Hello' {address}/v1/hubs/demo/channels/news/messages
                        curl -N '{address}/v1/hubs/demo/events?channel=news'
  Kept on disk          hubbub publish log:orders '{{"id": 1}}' --json --store{option}
                        hubbub history log:orders{option}

  Ctrl-C stops it.
"""

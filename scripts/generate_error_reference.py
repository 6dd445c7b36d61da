"""Write docs/errors.md from the tree of errors itself, so that it cannot lie.

Run: python scripts/generate_error_reference.py
"""

from __future__ import annotations

from pathlib import Path

from hubbub.domain.errors import HubbubError, catalogue

TARGET = Path(__file__).parents[1] / "docs" / "errors.md"

INTRODUCTION = """# Errors

<!-- Written by scripts/generate_error_reference.py from src/hubbub/domain/errors.py. -->

Every error has a code that never changes its meaning. Messages are for people and may change; write
programs against the codes.

- Over HTTP an error is the answer's status and a body
  `{"error": {"code": "…", "message": "…", "retry": true}}`; with `retry`, also `Retry-After`.
  Where the hub knows how long to wait, `retryAfter` has the seconds, over WebSocket too; over
  ZeroMQ a fourth frame has the milliseconds.
- On a WebSocket a failed request is answered with the same object, in its own response or in an
  `Error`. A connection that the hub ends is first sent `Disconnect` with `code`, `reason` and
  `reconnect`, then closed with the close code. Broken frames are closed with the codes of RFC 6455
  (1002, 1003, 1007, 1009), a server that stops with 1001.
- On an event stream the last event is `Disconnect`.

**Retry**: the same request may work later. **Reconnect**: after a close with this error, connect
again by yourself (with growing pauses); where it says no, something must change first: the
request, the token, the settings.

| code | when | HTTP | close | retry | reconnect |
|---|---|---|---|---|---|
"""


def main() -> None:
    TARGET.write_text(render())


def render() -> str:
    return INTRODUCTION + "".join(
        f"| `{code}` | {_meaning(kind)} | {kind.http_status} | {kind.close_code} "
        f"| {_yes_or_no(kind.retry)} | {_yes_or_no(kind.reconnect)} |\n"
        for code, kind in catalogue().items()
    )


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _meaning(kind: type[HubbubError]) -> str:
    """From the tree at the top of the module; where it is silent, the name says it all."""
    return _meanings().get(kind.__name__) or _words(kind.__name__)


def _meanings() -> dict[str, str]:
    from hubbub.domain import errors

    lines = [line.lstrip("│├└─ ") for line in (errors.__doc__ or "").splitlines()]
    pairs = (line.split(maxsplit=1) for line in lines if line)
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def _words(name: str) -> str:
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name).strip()


if __name__ == "__main__":
    main()

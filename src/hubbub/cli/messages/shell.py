"""`hubbub shell`: an interactive client for topics."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from hubbub.cli.failures import FAILED, advice
from hubbub.cli.messages.envelope import parse_envelope
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.topics import describe, name_option, show_subscriptions
from hubbub.cli.printing import escape_control, message_line
from hubbub.client import Client, TopicMessage, sync
from hubbub.domain.errors import HubbubError, NotSubscribed, TopicNotFound

PROMPT = "hubbub> "
HISTORY = ".hubbub_history"
PUT = "put TOPIC MESSAGE"
HELP = """\
put TOPIC MESSAGE     store a message (before TOPIC, options as of `hubbub put`: --ttl 5000)
get [TOPIC]           the next message of a topic, or of each of your topics
subscribe TOPIC       from now on, keep its messages for you (subscribe TOPIC first: all there are)
unsubscribe TOPIC     no longer
ack [TOPIC [SERIAL]]  acknowledge what you got (needed with --no-ack only)
topics                your subscriptions, and how much waits for each
help                  this text
quit                  leave (or Ctrl-D)"""


@click.command()
@name_option
@click.option("--no-ack", is_flag=True, help="Acknowledge with `ack`, not by itself after a get.")
@hub_options
def shell(make_client: Callable[[], Client], name: str, no_ack: bool) -> None:
    """Talk to topics by hand: put, get, subscribe, unsubscribe, ack, topics, help, quit.

    Commands can also be piped in, one on each line; the exit code is 1 if one of them failed.
    """
    with sync.Client(make_client()) as client:
        session = Shell(client, name, acknowledge=not no_ack)
        if sys.stdin.isatty():
            _talk(session)
        else:
            for line in sys.stdin:
                if not session.execute(line):
                    break
    if session.failures and not sys.stdin.isatty():
        sys.exit(FAILED)


class Usage(Exception):
    """The line is not valid for the command."""


class Shell:
    def __init__(self, client: sync.Client, name: str, acknowledge: bool) -> None:
        self._topics = client.topics
        self._name = name
        self._acknowledge = acknowledge
        self._got: dict[str, int] = {}
        """The serial of the last fetched and unacknowledged message, by topic."""
        self.seen: set[str] = set()
        self.failures = 0
        self._commands: dict[str, Callable[[str], None]] = {
            "put": self._put,
            "get": self._get,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "ack": self._ack,
            "topics": self._list,
            "help": lambda _: click.echo(HELP),
        }

    @property
    def words(self) -> list[str]:
        return [*self._commands, "quit"]

    def execute(self, line: str) -> bool:
        """Executes a line; returns whether to continue."""
        word, _, rest = line.strip().partition(" ")
        if word in ("quit", "exit"):
            return False
        if not word or word.startswith("#"):
            return True
        try:
            command = self._commands.get(word)
            if command is None:
                raise Usage(f"there is no command {word!r}; `help` lists them")
            command(rest.strip())
        except Usage as error:
            self._fail(f"ERROR: {error}")
        except HubbubError as error:
            self._fail(f"{_answer(error)}: {error.message}{_advice(error)}")
        return True

    def _fail(self, text: str) -> None:
        self.failures += 1
        click.echo(escape_control(text), err=True)

    # -- commands -------------------------------------------------------------------------------

    def _put(self, rest: str) -> None:
        options: list[str] = []
        while rest.startswith("--"):
            option, rest = _split(rest, PUT)
            options.append(option)
            if "=" not in option:
                value, rest = _split(rest, PUT)
                options.append(value)
        topic, message = _split(rest, PUT)
        if not message:
            raise Usage(f"there is no message; write: {PUT}")
        try:
            envelope = parse_envelope(options)
        except click.UsageError as error:
            raise Usage(error.format_message()) from None
        receipt = self._topics.put(self._know(topic), _unquote(message), **envelope)
        click.echo(f"PutReply {receipt.id} #{receipt.serial}")

    def _get(self, rest: str) -> None:
        if rest:
            topic, nothing = _split(rest, "get [TOPIC]")
            _expect_end(nothing, "get [TOPIC]")
            found = self._topics.get(self._know(topic), self._name)
        else:
            each = self._topics.get_each(self._name)
            found = [message for _, message in sorted(each.items()) if message is not None]
            self.seen.update(each)
        if not found:
            click.echo("EmptyTopic")
        for message in found:
            self._show(message)

    def _show(self, message: TopicMessage) -> None:
        click.echo(message_line(message, as_json=False))
        if self._acknowledge:
            self._topics.ack(message.channel, [message.serial], self._name)
        else:
            self._got[message.channel] = message.serial

    def _subscribe(self, rest: str) -> None:
        topic, start = _split(rest, "subscribe TOPIC [first]")
        if start not in ("", "first"):
            raise Usage("write: subscribe TOPIC, or subscribe TOPIC first")
        info = self._topics.subscribe(
            self._know(topic), self._name, start="first" if start else "new"
        )
        click.echo(describe(info))

    def _unsubscribe(self, rest: str) -> None:
        topic, nothing = _split(rest, "unsubscribe TOPIC")
        _expect_end(nothing, "unsubscribe TOPIC")
        self._topics.unsubscribe(self._know(topic), self._name)
        self._got.pop(topic, None)
        click.echo(f"UNSUBSCRIBED {topic}")

    def _ack(self, rest: str) -> None:
        if not rest:
            if not self._got:
                raise Usage("there is nothing to acknowledge; get something first")
            wanted = dict(self._got)
        else:
            topic, serial = _split(rest, "ack [TOPIC [SERIAL]]")
            if serial and not serial.isdecimal():
                raise Usage(f"{serial!r} is not a serial; write: ack [TOPIC [SERIAL]]")
            if not serial and topic not in self._got:
                raise Usage(f"nothing of {topic!r} waits for it; write: ack TOPIC SERIAL")
            wanted = {topic: int(serial) if serial else self._got[topic]}
        for topic, number in wanted.items():
            floor = self._topics.ack(topic, [number], self._name)
            self._got.pop(topic, None)
            click.echo(f"Ack {topic}, all done up to #{floor}")

    def _list(self, rest: str) -> None:
        _expect_end(rest, "topics")
        found = self._topics.subscriptions()
        self.seen.update(info.key.channel for info in found)
        show_subscriptions(found)

    def _know(self, topic: str) -> str:
        self.seen.add(topic)
        return topic


def _answer(error: HubbubError) -> str:
    """The error's name in the reliable publish-subscribe service."""
    if isinstance(error, NotSubscribed):
        return "NotSubscribed"
    return "NonExistentTopic" if isinstance(error, TopicNotFound) else "ERROR"


def _advice(error: HubbubError) -> str:
    if isinstance(error, NotSubscribed):
        return ": subscribe TOPIC"
    return advice(error)


def _split(rest: str, usage: str) -> tuple[str, str]:
    """The topic, possibly quoted, and the rest of the line."""
    source = io.StringIO(rest)
    lexer = shlex.shlex(source, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        topic = lexer.get_token()
    except ValueError:
        raise Usage(f"a quotation mark is missing; write: {usage}") from None
    if not topic:
        raise Usage(f"there is no topic; write: {usage}")
    return topic, source.read().strip()


def _unquote(message: str) -> str:
    """Removes enclosing quotation marks; other text is unchanged."""
    if message[0] in "'\"":
        with contextlib.suppress(ValueError):
            parts = shlex.split(message)
            if len(parts) == 1:
                return parts[0]
    return message


def _expect_end(rest: str, usage: str) -> None:
    if rest:
        raise Usage(f"{rest!r} is too much; write: {usage}")


# -- at a terminal ------------------------------------------------------------------------------


def _talk(session: Shell) -> None:
    click.echo("`help` lists the commands, `quit` or Ctrl-D leaves")
    with _line_editing(session):
        while True:
            try:
                line = input(PROMPT)
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:
                click.echo()
                continue
            try:
                if not session.execute(line):
                    return
            except KeyboardInterrupt:
                click.echo("given up; it may have happened", err=True)


@contextlib.contextmanager
def _line_editing(session: Shell) -> Iterator[None]:
    """History and completion, if readline is available."""
    try:
        import readline
    except ImportError:
        yield
        return
    _complete_with(readline, session)
    file = Path.home() / HISTORY
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.set_history_length(1000)
            readline.write_history_file(file)


def _complete_with(readline: Any, session: Shell) -> None:
    def complete(text: str, state: int) -> str | None:
        first = not readline.get_line_buffer()[: readline.get_begidx()].strip()
        choices = session.words if first else sorted(session.seen)
        found = [choice for choice in choices if choice.startswith(text)]
        return f"{found[state]} " if state < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")

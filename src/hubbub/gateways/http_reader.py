"""Reads the requests of one HTTP connection from its bytes, one after another.

Parsing is done by httptools. It receives pieces in which at most one request ends, so that the
caller decides when the next request is read. A head with the same bytes as an earlier one is not
parsed again. Small pieces of an incomplete head are gathered and parsed together."""

from __future__ import annotations

import httptools

from hubbub.domain.errors import BadRequest, HeadTooLarge, HubbubError, Malformed, TooLarge
from hubbub.gateways.http import HttpLimits, ReceivedRequest, RequestHead

_KNOWN_HEADS = 2048
_KNOWN_HEAD_BYTES = 4096
_END = b"\r\n\r\n"
"""Ends every head and every chunked body."""
_BETWEEN_BYTES = len(": \r\n")
_GATHERED_BYTES = 512
"""Maximum size of a gathered incomplete head; a larger one is parsed before its end."""
_CHUNKED_BYTES = 16 * 1024
"""Bytes passed to the parser at once, since chunks may be as small as a byte."""
_ONCE = (b"host", b"authorization", b"content-type")


class Upgrade(Exception):
    """The connection changes to another protocol from `RequestReader.at` on."""

    def __init__(self, request: ReceivedRequest) -> None:
        self.request = request


class RequestReader:
    """The parsing state of one connection. After an error it must not be used again."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_chunked",
        "_expects_continue",
        "_gathered",
        "_head_bytes",
        "_head_done",
        "_headers",
        "_held_bytes",
        "_known",
        "_last",
        "_length",
        "_limits",
        "_parser",
        "_raw",
        "_request",
        "_tail",
        "_url",
        "at",
        "between",
        "wants_continue",
    )

    def __init__(self, limits: HttpLimits, known_heads: dict[bytes, RequestHead]) -> None:
        """`known_heads` is shared by the connections of a listener."""
        self._limits = limits
        self._known = known_heads
        self._parser = httptools.HttpRequestParser(self)
        self._last: RequestHead | None = None
        """The last recognised head, which is likely to be the next one."""
        self._request: ReceivedRequest | None = None
        """The request that ended in the last parsed piece."""
        self._tail = b""
        """The last bytes of an incomplete request."""
        self.at = 0
        """Where the last call of `read` stopped."""
        self.between = True
        """No request is incomplete."""
        self._reset(b"")

    def _reset(self, raw: bytes) -> None:
        self._raw = raw
        """The whole head, if it arrived in one piece; empty if it is not to be recognised again."""
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._head_done = False
        self._held_bytes = 0
        """Bytes received since the parser last returned anything."""
        self._gathered = b""
        """Unparsed pieces of the head."""
        self._length = 0
        self._chunked = False
        self._body: bytes | bytearray = b""
        self._body_bytes = 0
        self._expects_continue = False
        self.wants_continue = False
        """The client sends the body after `100 Continue`."""

    @property
    def method(self) -> bytes:
        """The method of the request in progress; empty if unknown."""
        return bytes(self._parser.get_method()) if self.url else b""

    @property
    def url(self) -> bytes:
        return b"" if self.between else self._url

    @property
    def headers(self) -> dict[bytes, bytes]:
        return {} if self.between else self._headers

    @property
    def body_bytes(self) -> int:
        """Buffered bytes of the body in progress."""
        return self._body_bytes

    @property
    def held_bytes(self) -> int:
        """Buffered bytes of the request in progress, head and body."""
        if self.between:
            return 0
        return self._head_bytes + self._held_bytes + len(self._gathered) + self._body_bytes

    def drop(self) -> None:
        """Drops the request in progress, which will not be read to its end."""
        self._reset(b"")

    def close(self) -> None:
        """Breaks the reference cycle between parser and reader, which would live until a garbage
        collection."""
        if hasattr(self, "_parser"):
            del self._parser

    def read_alone(self, data: bytes) -> ReceivedRequest | None:
        """Returns the request if the data is exactly one request with a known head; otherwise reads
        nothing."""
        head = self._last
        if head is None or not self.between or not data.startswith(head.raw):
            return None
        return ReceivedRequest(head, data[len(head.raw) :]) if len(data) == head.size else None

    def gather(self, data: bytes) -> bool:
        """Stores a small piece of a head that does not end in it; returns False, without reading,
        for other data. So a head that arrives a few bytes at a time costs little; errors in it are
        found at its end, or by `parse_gathered`."""
        gathered = self._gathered + data
        if self.between or self._head_done or len(gathered) > _GATHERED_BYTES:
            return False
        if _END in self._tail + gathered:
            return False
        self._gathered = gathered
        return True

    def parse_gathered(self) -> None:
        """Raises `HubbubError` for an invalid request. The gathered data contains no end of a
        head."""
        gathered, self._gathered = self._gathered, b""
        if gathered:
            self._parse(gathered, 0)

    def read(self, data: bytes, start: int) -> ReceivedRequest | None:
        """Reads at most one request from `start` on; `at` says where it stopped. None: the request
        is incomplete. Raises `HubbubError` for an invalid request, and `Upgrade`."""
        if self._gathered:
            self.parse_gathered()
        if self.between:
            head = self._last
            if head is None or not data.startswith(head.raw, start):
                head = self._find_known(data, start)
            if head is not None:
                end = start + head.size
                if end <= len(data):
                    self.at = end
                    return ReceivedRequest(head, data[start + len(head.raw) : end])
        return self._parse(data, start)

    def _find_known(self, data: bytes, start: int) -> RequestHead | None:
        end = data.find(_END, start, start + _KNOWN_HEAD_BYTES)
        if end < 0:
            return None
        self._last = self._known.get(data[start : end + len(_END)])
        return self._last

    # -- the parser -----------------------------------------------------------------------------

    def _parse(self, data: bytes, start: int) -> ReceivedRequest | None:
        self.at = end = self._piece_end(data, start)
        piece = data[start:end]
        self._request = None
        begins = self.between
        if begins:
            # Newlines before a request are none of it: a head that is known again has none.
            whole = piece.endswith(_END) and piece[:1].isupper()
            self._raw = piece if whole and len(piece) <= _KNOWN_HEAD_BYTES else b""
        else:
            self._held_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self.at = start + upgrade.args[0]
            return self._upgrade()
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, HubbubError) else Malformed(str(error)) from None
        except httptools.HttpParserError as error:
            raise Malformed(f"not an HTTP request: {error}") from None
        if self._request is None and not self.between:
            self._tail = (self._tail + piece[-3:])[-3:]
            if begins and not self._head_done:
                self._held_bytes = len(piece)
            # The parser keeps a line until its end: one without an end must not fill the memory.
            if self._held_bytes > self._limits.head_bytes:
                raise self._head_too_large()
        return self._request

    def _piece_end(self, data: bytes, start: int) -> int:
        """The end of a piece in which at most one request ends."""
        if self._head_done and not self.between and not self._chunked:
            return min(len(data), start + self._length - self._body_bytes)
        if not self.between:
            tail = self._tail
            across = (tail + data[start : start + 3]).find(_END)
            if across >= 0:
                return start + across + len(_END) - len(tail)
        end = data.find(_END, start)
        end = len(data) if end < 0 else end + len(_END)
        return min(end, start + _CHUNKED_BYTES) if self._chunked and not self.between else end

    def on_message_begin(self) -> None:
        if self._request is not None:
            raise Malformed("a request is not separated from the one before it")
        self.between = False
        self._tail = b""
        self._reset(self._raw)

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + _BETWEEN_BYTES)
        if self._head_done:
            return  # a trailer: nothing that it says may count as said in the head
        name = name.lower()
        known = self._headers.get(name)
        if known is None:
            self._headers[name] = value
        elif name in _ONCE:
            raise BadRequest(f"the header {name.decode()!r} is there twice")
        else:
            self._headers[name] = known + b", " + value
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            raise self._head_too_large()

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"the head is larger than {self._limits.head_bytes} bytes")

    def on_headers_complete(self) -> None:
        self._head_done = True
        self._held_bytes = 0
        headers = self._headers
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise BadRequest(f"HTTP/{version} is not served here; use HTTP/1.1")
        coding = headers.get(b"transfer-encoding")
        if coding is not None:
            if b"content-length" in headers:
                raise BadRequest("Content-Length and Transfer-Encoding exclude each other")
            if coding.strip().lower() != b"chunked" or version != "1.1":
                raise BadRequest("the only Transfer-Encoding taken here is 'chunked', in HTTP/1.1")
            self._chunked = True
        if b"host" not in headers and version == "1.1":
            raise BadRequest("the header 'host' is missing")
        length = headers.get(b"content-length")
        if length is not None:
            self._length = int(length)
            if self._length > self._limits.body_bytes:
                raise self._too_large()
        self.wants_continue = self._expects_continue

    def on_body(self, body: bytes) -> None:
        self._held_bytes = 0
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            raise self._too_large()
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is larger than {self._limits.body_bytes} bytes")

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser.should_upgrade():
            return
        self.between = True
        keep_alive = bool(parser.should_keep_alive()) and parser.get_http_version() == "1.1"
        head = RequestHead(parser.get_method(), self._url, self._headers, keep_alive)
        self._remember(head)
        self._request = ReceivedRequest(head, bytes(self._body))
        self._body = b""
        self._body_bytes = 0

    def _remember(self, head: RequestHead) -> None:
        """Stores the head, so that the same bytes need no parsing again."""
        if (
            not self._raw
            or not head.keep_alive
            or b"expect" in head.headers
            or b"transfer-encoding" in head.headers
        ):
            return
        known = self._known
        if len(known) >= _KNOWN_HEADS:
            known.clear()
        head.raw = self._raw
        head.size = len(head.raw) + head.length
        known[head.raw] = head

    # -- leaving HTTP ---------------------------------------------------------------------------

    def _upgrade(self) -> ReceivedRequest | None:
        """Raises `Upgrade`, or `BadRequest`."""
        if self._headers.get(b"upgrade", b"websocket").lower() != b"websocket":
            return self._ignore_upgrade()
        if self._parser.get_http_version() != "1.1":
            raise BadRequest("a WebSocket handshake needs HTTP/1.1")
        head = RequestHead(self._parser.get_method(), self._url, self._headers, keep_alive=False)
        raise Upgrade(ReceivedRequest(head))

    def _ignore_upgrade(self) -> ReceivedRequest | None:
        """A client that prefers another protocol (HTTP/2) is served with HTTP/1.1."""
        del self._headers[b"upgrade"]
        version = self._parser.get_http_version()
        lines = [b"%b %b HTTP/%b" % (self._parser.get_method(), self._url, version.encode())]
        lines += [b"%b: %b" % header for header in self._headers.items()]
        self._parser = httptools.HttpRequestParser(self)
        self.between = True
        at = self.at
        request = self._parse(b"\r\n".join([*lines, b"", b""]), 0)
        self.at = at
        return request

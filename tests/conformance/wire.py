"""HTTP/1.1 by hand over TLS: sends any bytes, reads one answer at a time, and says when an answer is not well formed."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any


class Broken(Exception):
    """What came back is not an HTTP answer."""


class Closed(Exception):
    """The server closed the connection before an answer."""


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    streams: bool = False  # chunked, and not read to its end

    def json(self) -> Any:
        return json.loads(self.body)


def encoded(method: str, target: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: localhost"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogatepass") + (body or b"")


class Wire:
    """One connection."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float = 20.0) -> None:
        plain = socket.create_connection((host, port), timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket: socket.socket = tls.wrap_socket(plain, server_hostname=host) if tls else plain
        except OSError:
            plain.close()
            raise
        self._left = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, *, method: str = "GET", whole: bool = True) -> Answer:
        """The next answer; of a stream only the head where `whole` is false."""
        answer = _head(self._until(b"\r\n\r\n"))
        while answer.status == 100:
            answer = _head(self._until(b"\r\n\r\n"))
        if method == "HEAD" or answer.status in (204, 304):
            return answer
        if answer.headers.get("transfer-encoding") == "chunked":
            if not whole:
                answer.streams = True
                return answer
            while chunk := self.chunk():
                answer.body += chunk
            return answer
        if "content-length" not in answer.headers:
            raise Broken(f"an answer without a length: {answer}")
        answer.body = self._exactly(int(answer.headers["content-length"]))
        return answer

    def chunk(self) -> bytes:
        """The next chunk of a stream; empty at its end."""
        size = int(self._until(b"\r\n"), 16)
        data = self._exactly(size)
        if self._exactly(2) != b"\r\n":
            raise Broken("a chunk without its end")
        return data

    def ask(self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Answer:
        self.send(encoded(method, target, headers, body))
        return self.read(method=method)

    def close(self) -> None:
        self._socket.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._left:
            self._more()
        found, _, self._left = self._left.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._left) < size:
            self._more()
        found, self._left = self._left[:size], self._left[size:]
        return found

    def _more(self) -> None:
        try:
            data = self._socket.recv(262_144)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise Closed(str(error)) from None
        if not data:
            raise Closed("end of data")
        self._left += data


def _head(text: bytes) -> Answer:
    first, *lines = text.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if version != "HTTP/1.1" or not rest[:3].isdigit():
        raise Broken(f"not a status line: {first!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Broken(f"not a header: {line!r}")
        headers[name.lower()] = value.strip()
    return Answer(int(rest[:3]), headers)

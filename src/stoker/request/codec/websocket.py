"""What Stoker itself knows of WebSocket (RFC 6455): the handshake's headers, where frames end, a close frame. Pure."""

from __future__ import annotations

from collections.abc import Mapping

KEY_PREFIX = b"openai-insecure-api-key."
"""A browser cannot set Authorization: its key stands behind this in Sec-WebSocket-Protocol (OpenAI, Realtime API)."""
_CLOSE = 0x8
"""The opcode of a close frame."""
_SENT_ON = (b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions")


def offers_websocket(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the head of a GET asks to speak WebSocket from then on."""
    return headers.get(b"upgrade", b"").strip().lower() == b"websocket" and b"sec-websocket-key" in headers


def subprotocols(headers: Mapping[bytes, bytes]) -> tuple[list[bytes], bytes]:
    """The subprotocols that the client offers without its key, and the key; empty: there is none."""
    offered = [part.strip() for part in headers.get(b"sec-websocket-protocol", b"").split(b",")]
    keys = [part[len(KEY_PREFIX) :] for part in offered if part.startswith(KEY_PREFIX)]
    return [part for part in offered if part and not part.startswith(KEY_PREFIX)], keys[0] if keys else b""


def handshake_headers(headers: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """The headers of the handshake that go to the serve. The client's key for Stoker is not among them."""
    found = [(name, headers[name]) for name in _SENT_ON if name in headers]
    offered, _ = subprotocols(headers)
    if offered:
        found.append((b"sec-websocket-protocol", b", ".join(offered)))
    return [(b"connection", b"Upgrade"), (b"upgrade", b"websocket"), *found]


def close_frame(code: int, reason: str) -> bytes:
    """A server's frame that ends a session. `reason` is cut to what a control frame may hold."""
    text = reason.encode()[:123].decode(errors="ignore").encode()
    return bytes((0x88, 2 + len(text))) + code.to_bytes(2, "big") + text


class FrameBoundary:
    """Follows one direction of a session, to know whether a frame may be put in, and whether that side has closed.

    Constant time for each frame.
    """

    def __init__(self) -> None:
        self.has_closed = False
        """A close frame began: its side ends the session."""
        self._head = b""
        self._payload = 0

    @property
    def is_between_frames(self) -> bool:
        return not self._head and not self._payload

    def feed(self, data: bytes) -> None:
        """Take in the next bytes."""
        at = 0
        while at < len(data):
            if self._payload:
                taken = min(self._payload, len(data) - at)
                self._payload -= taken
                at += taken
                continue
            missing = _head_size(self._head) - len(self._head)
            self._head += data[at : at + missing]
            at += missing
            if len(self._head) >= 2 and len(self._head) == _head_size(self._head):
                self._payload = _payload_size(self._head)
                self.has_closed = self.has_closed or self._head[0] & 0x0F == _CLOSE
                self._head = b""


def _head_size(head: bytes) -> int:
    if len(head) < 2:
        return 2
    extra = {126: 2, 127: 8}.get(head[1] & 0x7F, 0)
    return 2 + extra + (4 if head[1] & 0x80 else 0)


def _payload_size(head: bytes) -> int:
    short = head[1] & 0x7F
    if short < 126:
        return short
    return int.from_bytes(head[2 : 4 if short == 126 else 10], "big")

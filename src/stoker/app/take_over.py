"""Replaces a running Stoker: `stoker up --replace`. The other side is `gateway.hand_over`."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, NamedTuple

from stoker.app.context import Announce
from stoker.domain.access import ListenSettings
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.figures import counted
from stoker.gateway.socket_channel import MessageKind, close_all, receive, send
from stoker.store.state_dir import StateDir

_ANSWER_WITHIN = 10.0
_POLL_INTERVAL = 0.02
"""Seconds between two attempts to lock the state directory."""
_LAST_STEPS = 10.0
"""Seconds between the end of the connection and the end of the other process."""
_REPORT = 5.0
"""Seconds between two announcements of the requests that are waited for."""
_LARGEST_HEAD = 64 * 1024


class TakenSockets(NamedTuple):
    """What the other process gave. All are open; none is read yet."""

    listening: list[socket.socket]
    """TCP, then the control socket."""
    connections: list[socket.socket]
    """Idle connections of clients."""


def take_over(state: StateDir, door: ListenSettings, announce: Announce) -> TakenSockets | None:
    """Ask the Stoker that owns `state` for its sockets, wait until it has ended, and lock `state`.

    None: no Stoker runs there, and nothing is locked. Blocks for up to that Stoker's grace; clients that connect
    meanwhile wait. On KeyboardInterrupt, or when this process dies, the other one goes on. Raises StokerError.
    """
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel.settimeout(_ANSWER_WITHIN)
        try:
            channel.connect(os.fspath(state.socket_path))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        try:
            answer = _ask(channel, door)
            announce(f"replacing process {answer['process']}: its requests have {answer['grace']:g} s to end")
            return _receive(channel, state, int(answer["process"]), announce)
        except (OSError, ValueError, LookupError) as error:
            text = f"the running Stoker did not hand over its sockets ({error}): stop it, and start this one again"
            raise StokerError(text, code="not_replaced") from error
    finally:
        channel.close()


def _ask(channel: socket.socket, door: ListenSettings) -> dict[str, Any]:
    """The answer. Raises ClientError with the other process's reason, OSError and ValueError.

    Not one byte more than the answer is read: what follows brings sockets.
    """
    body = json.dumps({"host": door.host, "port": door.port, "process": os.getpid()}).encode()
    head = b"POST /admin/hand-over HTTP/1.1\r\nhost: stoker\r\ncontent-type: application/json\r\n"
    channel.sendall(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
    raw = b""
    while not raw.endswith(b"\r\n\r\n"):
        if not (more := channel.recv(1)) or len(raw) > _LARGEST_HEAD:
            raise ConnectionResetError("no answer")
        raw += more
    status, *lines = raw.decode("latin-1").split("\r\n")
    length = next(int(line[15:]) for line in map(str.lower, lines) if line.startswith("content-length:"))
    document = json.loads(channel.recv(length, socket.MSG_WAITALL))
    if status.split()[1] == "404":
        text = "the running Stoker is too old to hand over its sockets: stop it, and start this one again"
        raise ClientError(text, code="not_replaced", status=409)
    if status.split()[1] != "200":
        error = document["error"]
        raise ClientError(str(error["message"]), code=str(error.get("code") or "not_replaced"), status=409)
    return dict(document)


def _receive(channel: socket.socket, state: StateDir, process: int, announce: Announce) -> TakenSockets:
    """Until the other process has unlocked the state directory. Raises StokerError, OSError and ValueError."""
    receiver = _Receiver(channel, announce)
    locked_by: float | None = None
    try:
        while not (receiver.taken.listening and _has_locked(state)):
            if receiver.is_open:
                receiver.receive(_POLL_INTERVAL)
                continue
            locked_by = locked_by or time.monotonic() + _LAST_STEPS
            if not receiver.taken.listening or time.monotonic() > locked_by:
                raise ConnectionResetError(f"process {process} closed the connection")
            time.sleep(_POLL_INTERVAL)
        while receiver.receive(0.0):  # all that came was sent before the directory was unlocked
            pass
    except BaseException:
        close_all([*receiver.taken.listening, *receiver.taken.connections])
        raise
    return receiver.taken


class _Receiver:
    """Collects what the other process sends."""

    def __init__(self, channel: socket.socket, announce: Announce) -> None:
        self.taken = TakenSockets([], [])
        self.is_open = True
        self._channel = channel
        self._announce = announce
        self._report_at = time.monotonic() + _REPORT

    def receive(self, seconds: float) -> bool:
        """Wait at most so long for a message. False: none came."""
        self._channel.settimeout(seconds)
        try:
            message = receive(self._channel)
        except (TimeoutError, BlockingIOError):
            return False
        if message is None:
            self.is_open = False
            return False
        match message.kind:
            case MessageKind.LISTENING:
                self.taken.listening.extend(message.sockets)
                send(self._channel, MessageKind.RECEIVED)
            case MessageKind.CONNECTION:
                self.taken.connections.extend(message.sockets)
            case MessageKind.UNDER_WAY:
                self._report(message.number)
            case MessageKind.RECEIVED:
                raise ValueError("it answers as a successor")
        return True

    def _report(self, number: int) -> None:
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + _REPORT
            self._announce(f"waiting for {counted(number, 'request')} to end")


def _has_locked(state: StateDir) -> bool:
    try:
        state.lock()
    except ClientError:
        return False
    return True

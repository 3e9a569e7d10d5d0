"""A small synchronous HTTP client over STATE/stoker.sock."""

from __future__ import annotations

import errno
import http.client
import json
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import msgspec

from stoker.cli.console.answers import (
    LoadableAnswer,
    PauseAnswer,
    ReloadAnswer,
    StatusAnswer,
    SwitchAnswer,
    SwitchPreview,
)
from stoker.cli.console.errors import NotRunning, RequestRefused, UnreadableAnswer
from stoker.domain.decision import Decision

T = TypeVar("T")
SILENCE = 40.0
"""Seconds after which events that stay away mean that Stoker does not answer: it sends a comment every 15."""
ANSWER_TIMEOUT = 10.0
"""Seconds that an answer may take which needs no model to load."""
CHECK_TIMEOUT = 60.0
"""Of one for which the files of serves are looked at."""


class ServerEvent(NamedTuple):
    """One event of GET /events. `id`: empty if it has none."""

    kind: str
    data: Any
    id: str


class UnixConnection(http.client.HTTPConnection):
    """HTTP/1.1 over a unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self.timeout)
        try:
            sock.connect(str(self._path))
        except BaseException:
            sock.close()
            raise
        self.sock = sock


class Control:
    """Speaks to one running `up`. One request at a time; `close` may be called from another thread.

    Every call raises NotRunning (nothing listens), RequestRefused (with the message and code of the answer) or
    UnreadableAnswer (no answer in time, or one that makes no sense).
    `start_hint` is the command that starts a Stoker if none runs.
    """

    def __init__(self, path: Path, start_hint: str = "stoker up") -> None:
        self.path = path
        self.start_hint = start_hint
        self._connection: UnixConnection | None = None

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End whatever call is under way (it raises UnreadableAnswer there) and let go of the socket."""
        connection, self._connection = self._connection, None
        if connection is not None:
            cut_off(connection)
            connection.close()

    def document(self, path: str) -> dict[str, Any]:
        """GET `path`; the JSON object as it came."""
        return self._ask("GET", path, None, ANSWER_TIMEOUT)

    def status(self) -> StatusAnswer:
        return parse(self.document("/status"), StatusAnswer)

    def read_status(self) -> tuple[dict[str, Any], StatusAnswer]:
        """GET /status, as it came and as a record."""
        document = self.document("/status")
        return document, parse(document, StatusAnswer)

    def preview(self, serve: str, force: bool = False) -> SwitchPreview:
        """What a switch would do now."""
        body = {"serve": serve, "force": force}
        return parse(self._ask("POST", "/admin/preview", body, CHECK_TIMEOUT), SwitchPreview)

    def loadable(self) -> list[str]:
        """The serves that could be loaded now without stopping another one."""
        return parse(self._ask("POST", "/admin/preview", {}, CHECK_TIMEOUT), LoadableAnswer).serves

    def switch(
        self, serve: str, force: bool = False, drain_timeout: float | None = None, evict: bool = True
    ) -> SwitchAnswer:
        """Load `serve` and wait until it is proved ready, however long that takes. Without `evict`: only if nothing
        has to stop for it.
        """
        body = {"serve": serve, "force": force, "drain_timeout": drain_timeout} | ({} if evict else {"evict": False})
        return parse(self._ask("POST", "/admin/switch", body, None), SwitchAnswer)

    def unload(self, serve: str, drain_timeout: float | None = None) -> dict[str, Any]:
        """Drain and stop `serve`; waits until it is gone."""
        return self._ask("POST", "/admin/unload", {"serve": serve, "drain_timeout": drain_timeout}, None)

    def drain(self, serve: str | None) -> dict[str, Any]:
        """Admit nothing more to `serve` (None: to anything)."""
        return self._ask("POST", "/admin/drain", {"serve": serve}, ANSWER_TIMEOUT)

    def undrain(self, serve: str | None) -> dict[str, Any]:
        return self._ask("POST", "/admin/undrain", {"serve": serve}, ANSWER_TIMEOUT)

    def pause(self, slot: str | None, reason: str) -> PauseAnswer:
        """End what is loaded in `slot` (None: in all of this machine), and load nothing there. Does not wait."""
        return parse(self._ask("POST", "/admin/pause", {"slot": slot, "reason": reason}, ANSWER_TIMEOUT), PauseAnswer)

    def resume(self, slot: str | None) -> PauseAnswer:
        return parse(self._ask("POST", "/admin/resume", {"slot": slot}, ANSWER_TIMEOUT), PauseAnswer)

    def promote(self, alias: str, serve: str, evidence: str, reason: str, force: bool) -> dict[str, Any]:
        """Move an alias to `serve`. `evidence`: the id of a gate's result."""
        body = {"alias": alias, "serve": serve, "evidence": evidence, "reason": reason, "force": force}
        return self._ask("POST", "/admin/promote", body, ANSWER_TIMEOUT)

    def reset(self, alias: str) -> dict[str, Any]:
        """Point an alias at the serve that the configuration names."""
        return self._ask("POST", "/admin/reset", {"alias": alias}, ANSWER_TIMEOUT)

    def route(self, prompt: str, model: str, task: str | None) -> dict[str, Any]:
        """What would become of a request."""
        return self._ask("POST", "/admin/route", {"prompt": prompt, "model": model, "task": task}, timeout=30)

    def reload(self, dry_run: bool = False) -> ReloadAnswer:
        """Read the configuration again; waits until what changed is carried out. `dry_run`: what would change."""
        return parse(self._ask("POST", "/admin/reload", {"dry_run": True} if dry_run else {}, None), ReloadAnswer)

    def decisions(self, limit: int, failed: bool = False) -> list[Decision]:
        """Newest first. `failed`: only of requests that failed."""
        answer = self.document(f"/admin/decisions?limit={limit}{'&failed=true' if failed else ''}")
        return parse(answer.get("decisions"), list[Decision])

    def decision(self, request_id: str) -> tuple[Decision, list[dict[str, str]] | None]:
        """With the facts that explain it, each with `name` and `words`; None: an older Stoker has none."""
        answer = self.document(f"/admin/decisions/{urllib.parse.quote(request_id, safe=':')}")
        known = answer.get("explanation")
        facts = None if known is None else parse(known.get("facts"), list[dict[str, str]])
        return parse(answer.get("decision"), Decision), facts

    def keys(self) -> dict[str, Any]:
        """All keys and applications."""
        return self.document("/admin/keys")

    def key(self, name: str) -> dict[str, Any]:
        """One key, with what is left of its limits."""
        return self.document(f"/admin/keys/{urllib.parse.quote(name)}")

    def make_key(self, name: str, app: str, settings: dict[str, Any], expires_in: float | None) -> dict[str, Any]:
        """`key` in the answer is its value."""
        body = {"name": name, "app": app, "settings": settings, "expires_in": expires_in}
        return self._ask("POST", "/admin/keys", body, ANSWER_TIMEOUT)

    def change_key(self, kind: str, name: str, verb: str, **fields: Any) -> dict[str, Any]:
        """`kind`: `key` or `app`. `verb`: set, reset, disable, enable, rotate, delete."""
        return self._ask("POST", f"/admin/{kind}s/{urllib.parse.quote(name)}/{verb}", fields, ANSWER_TIMEOUT)

    def usage(self, by: str, since: float, key: str | None) -> dict[str, Any]:
        """Who used what in the last `since` seconds."""
        more = "" if key is None else f"&key={urllib.parse.quote(key)}"
        return self.document(f"/v1/usage?by={urllib.parse.quote(by)}&since={since:g}{more}")

    def scratchpad(self, request_id: str, offset: int) -> dict[str, Any]:
        """What an orchestrated request has written down from `offset` on. RequestRefused 404: nothing yet."""
        path = f"/admin/orchestrator/{urllib.parse.quote(request_id, safe=':')}?offset={offset}"
        return self.document(path)

    def events(self, topics: str, after: str = "") -> Iterator[ServerEvent]:
        """What happens, as it happens, until Stoker ends the stream. `after`: the id of the last event that is known.

        `close` does not end it; leaving the iteration does.
        """
        asked = f"GET /events?topics={topics}"
        connection = UnixConnection(self.path, SILENCE)
        try:
            with self._clear_errors(asked, SILENCE):
                connection.request("GET", f"/events?topics={topics}", headers={"last-event-id": after} if after else {})
                response = connection.getresponse()
                if response.status != 200:
                    _read(response.status, response.read(), asked)
            fields: dict[str, str] = {}
            while True:
                with self._clear_errors(asked, SILENCE):
                    raw = response.readline()
                if not raw:
                    return
                if line := raw.decode().rstrip("\n"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    yield ServerEvent(fields.get("event", ""), json.loads(fields["data"]), fields.get("id", ""))
                    fields.clear()
                else:
                    fields.clear()
        finally:
            connection.close()

    def _ask(self, method: str, path: str, body: object, timeout: float | None) -> dict[str, Any]:
        connection = self._connection = UnixConnection(self.path, timeout)
        headers = {"content-type": "application/json"} if body is not None else {}
        asked = f"{method} {path}"
        try:
            with self._clear_errors(asked, timeout):
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                status, payload = response.status, response.read()
        finally:
            self.close()
        return _read(status, payload, asked)

    @contextmanager
    def _clear_errors(self, asked: str, timeout: float | None) -> Iterator[None]:
        """Errors of the connection become those that say what to do."""
        try:
            yield
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NotRunning(
                f"Stoker does not run here (nothing listens on {self.path}); start it: {self.start_hint}"
            ) from error
        except PermissionError as error:
            raise RequestRefused(
                f"{self.path} belongs to another user; run this command as the user of `stoker up`"
            ) from error
        except TimeoutError as error:
            raise UnreadableAnswer(
                f"Stoker did not answer {asked} on {self.path} within {timeout:g} s; check whether its "
                "process is suspended"
            ) from error
        except (http.client.HTTPException, OSError) as error:
            raise UnreadableAnswer(
                f"Stoker closed the connection while answering {asked} on {self.path} "
                f"({type(error).__name__}); "
                "see the terminal or journal of `stoker up`"
            ) from error


def cut_off(connection: http.client.HTTPConnection) -> None:
    """End what another thread may be reading from it."""
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that sits in recv; close() does not
        except OSError as error:
            if error.errno not in (errno.ENOTCONN, errno.EBADF):  # the other side, or the other thread, was faster
                raise


def _read(status: int, payload: bytes, asked: str) -> dict[str, Any]:
    try:
        document = json.loads(payload or b"{}")
    except ValueError as error:
        raise UnreadableAnswer(
            f"Stoker answered {asked} with {status} and without JSON; restart `stoker up`"
        ) from error
    if not isinstance(document, dict):
        raise UnreadableAnswer(f"Stoker answered {asked} with JSON that is not an object; restart `stoker up`")
    if status < 400:
        return document
    refusal = document.get("error")
    if not isinstance(refusal, dict):
        raise RequestRefused(f"Stoker answered {asked} with status {status} and no reason", status=status)
    raise RequestRefused(str(refusal.get("message", "")), code=str(refusal.get("code") or "refused"), status=status)


def parse(document: object, kind: type[T]) -> T:
    """`document` as `kind`. Raises UnreadableAnswer."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise UnreadableAnswer(
            f"this version does not understand the answer of the running Stoker ({error}); "
            "restart `stoker up` with the version that is installed"
        ) from error

"""A small HTTP/1.1 client for questions, bounded in time and size: one connection each, or one for many."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.domain.host_port import host_port
from stoker.domain.lease import Target
from stoker.http.response import ResponseReader
from stoker.http.tls_contexts import tls_contexts

TIMEOUT = 2.0
BODY_LIMIT = 2**20


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response. `body` is cut at the limit."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case; of a repeated one, the last."""

    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class NoResponse(Exception):
    """No HTTP response: refused, reset, too late, or not HTTP. The text says which.

    `is_refusal`: the machine answered, and nothing listens on that port. `is_unconnected`: for that or another reason
    (its name, the way there, TLS) there was no connection, which was known at once.
    """

    def __init__(self, text: str, is_refusal: bool = False, is_unconnected: bool = False) -> None:
        super().__init__(text)
        self.is_refusal = is_refusal
        self.is_unconnected = is_unconnected or is_refusal


async def ask(
    target: Target,
    path: str,
    payload: Any = None,
    timeout: float = TIMEOUT,
    method: str | None = None,
    limit: int | None = None,
) -> HttpResponse:
    """GET `path`, or POST `payload` as JSON, or what `method` says. Raises NoResponse. On cancel the connection is
    closed. `limit`: bytes of the body; None: BODY_LIMIT.
    """
    writer: asyncio.StreamWriter | None = None
    response = ResponseReader()
    try:
        with _telling_why(target, timeout):
            async with asyncio.timeout(timeout):
                reader, writer = await _open_connection(target)
                writer.write(_request_bytes(target, path, payload, method))
                await response.read(reader, BODY_LIMIT if limit is None else limit)
    finally:
        if writer is not None:
            writer.transport.abort()  # nothing more to send, so no need to close politely
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return _as_response(response)


async def connect(target: Target, timeout: float = TIMEOUT) -> None:
    """Open a connection and close it. Raises NoResponse. On cancel the connection is closed."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(target.address or target.host, target.port)
    except TimeoutError:
        raise NoResponse(f"no connection within {timeout:.1f} s") from None
    except ConnectionRefusedError:
        raise NoResponse(f"nothing listens on port {target.port}", is_refusal=True) from None
    except OSError as error:
        raise NoResponse(f"connection failed ({error.strerror or error})", is_unconnected=True) from error
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class KeptConnection:
    """One connection for many questions, which tells when the other side closed it. The first question opens it, and
    so does the next one after its end. One caller at a time.
    """

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def is_open(self) -> bool:
        """As far as is known: see `closed`."""
        return self._writer is not None

    async def ask(self, target: Target, path: str, payload: Any = None, timeout: float = TIMEOUT) -> HttpResponse:
        """As `ask`. The target must be the same each time."""
        with _telling_why(target, timeout):
            async with asyncio.timeout(timeout):
                if self.is_open:
                    response = ResponseReader()
                    try:
                        return await self._exchange(target, path, payload, response)
                    except (OSError, ValueError):
                        if response.status:
                            raise
                        # it was closed while nobody asked: what came of that, a new connection shows
                return await self._exchange(target, path, payload, ResponseReader())

    async def closed(self) -> None:
        """Returns as soon as no connection is open: at once if there is none."""
        if self._reader is None:
            return
        with contextlib.suppress(OSError):
            await self._reader.read(1)  # nothing was asked, so anything that comes is an end
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _exchange(self, target: Target, path: str, payload: Any, response: ResponseReader) -> HttpResponse:
        keeps = False
        try:
            if self._reader is None or self._writer is None:
                self._reader, self._writer = await _open_connection(target)
            self._writer.write(_request_bytes(target, path, payload, is_last=False))
            await response.read(self._reader, BODY_LIMIT)
            keeps = response.can_follow and not response.is_cut
        finally:
            if not keeps:
                self.close()
        return _as_response(response)


def _as_response(response: ResponseReader) -> HttpResponse:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers.items()}
    return HttpResponse(response.status, bytes(response.body), headers)


async def _open_connection(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises TimeoutError, ConnectionRefusedError, and NoResponse where there is no connection for another reason."""
    context = await tls_contexts.get(target.ca_file) if target.tls else None
    name, host = target.host if target.tls else None, target.address or target.host
    try:
        return await asyncio.open_connection(host, target.port, ssl=context, server_hostname=name)
    except (TimeoutError, ConnectionRefusedError):
        raise
    except OSError as error:
        raise NoResponse(f"connection failed ({error.strerror or error})", is_unconnected=True) from error


@contextlib.contextmanager
def _telling_why(target: Target, timeout: float) -> Iterator[None]:
    """Turns what goes wrong inside into NoResponse."""
    try:
        yield
    except TimeoutError:
        raise NoResponse(f"no answer within {timeout:.1f} s") from None
    except ConnectionRefusedError:
        raise NoResponse(f"nothing listens on port {target.port}", is_refusal=True) from None
    except OSError as error:
        raise NoResponse(f"connection failed ({error.strerror or error})") from error
    except ValueError as error:
        raise NoResponse("what answers there does not speak HTTP") from error


def _request_bytes(
    target: Target, path: str, payload: Any = None, method: str | None = None, is_last: bool = True
) -> bytes:
    """`is_last`: no other question follows on the connection."""
    body = b"" if payload is None else json.dumps(payload).encode()
    lines = [
        f"{method or ('GET' if payload is None else 'POST')} {target.base_path}{path} HTTP/1.1",
        f"Host: {host_port(target.host, target.port)}",
        *(("Connection: close",) if is_last else ()),
        "Accept: application/json",
        "User-Agent: stoker-probe",
    ]
    if target.key is not None and target.key_header == "x-api-key":
        lines += [f"X-Api-Key: {target.key}", "Anthropic-Version: 2023-06-01"]
    elif target.key is not None:
        lines.append(f"Authorization: Bearer {target.key}")
    if target.is_replica_elsewhere:
        lines.append("X-Stoker-Forwarded: 1")
    if payload is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

"""A tiny HTTP/1.1 client for probes: one connection per request, every one of them bounded in time and size."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass
from typing import Any

TIMEOUT = 2.0
BODY_LIMIT = 2**20
_HEAD_LIMIT = 2**16


@dataclass(frozen=True, slots=True)
class Address:
    """Where to ask. `base_path` stands before every path, without a trailing slash."""

    host: str
    port: int
    base_path: str = ""
    key: str | None = None
    tls: bool = False
    key_header: str = "authorization"
    """`authorization` (as a bearer), or `x-api-key`, as Anthropic wants it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; a body over BODY_LIMIT is cut there."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None if it is not that."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class NoAnswer(Exception):
    """Nothing, or nothing that is HTTP: refused, reset, too late. The text says which."""


async def ask(address: Address, path: str, payload: Any = None, timeout: float = TIMEOUT) -> Answer:
    """GET `path`, or POST `payload` as JSON. Raises NoAnswer; on cancel the connection is closed."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(
                address.host,
                address.port,
                limit=_HEAD_LIMIT,
                ssl=ssl.create_default_context() if address.tls else None,
            )
            writer.write(_request(address, path, payload))
            return await _read(reader)
    except TimeoutError:
        raise NoAnswer(f"no answer within {timeout:.1f} s") from None
    except ConnectionRefusedError:
        raise NoAnswer(f"nothing listens on port {address.port}") from None
    except OSError as error:
        raise NoAnswer(f"connection failed ({error.strerror or error})") from error
    except (ValueError, EOFError, asyncio.LimitOverrunError) as error:
        raise NoAnswer("what answers there does not speak HTTP") from error
    finally:
        if writer is not None:
            writer.transport.abort()  # at once: a probe has nothing left to say
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _request(address: Address, path: str, payload: Any) -> bytes:
    body = b"" if payload is None else json.dumps(payload).encode()
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [
        f"{'GET' if payload is None else 'POST'} {address.base_path}{path} HTTP/1.1",
        f"Host: {host}:{address.port}",
        "Connection: close",
        "Accept: application/json",
        "User-Agent: stoker-probe",
    ]
    if address.key is not None and address.key_header == "x-api-key":
        lines += [f"X-Api-Key: {address.key}", "Anthropic-Version: 2023-06-01"]
    elif address.key is not None:
        lines.append(f"Authorization: Bearer {address.key}")
    if payload is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *rest = head[:-4].split(b"\r\n")
    version, status, *_ = first.split(b" ", 2)
    if not version.startswith(b"HTTP/1."):
        raise ValueError(version)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in rest)}
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = await _read_chunks(reader)
    elif b"content-length" in headers:
        body = await reader.readexactly(min(int(headers[b"content-length"]), BODY_LIMIT))
    else:
        body = await _read_to_end(reader)
    return Answer(int(status), body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while len(body) < BODY_LIMIT:
        size = int((await reader.readline()).split(b";")[0], 16)
        if size == 0:
            break
        body += await reader.readexactly(min(size, BODY_LIMIT - len(body)))
        if len(body) < BODY_LIMIT:
            await reader.readexactly(2)
    return bytes(body)


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while len(body) < BODY_LIMIT and (piece := await reader.read(BODY_LIMIT - len(body))):
        body += piece
    return bytes(body)

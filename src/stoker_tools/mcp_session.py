"""One session with one MCP server, by the official SDK. Imported with the first use of such a server: the SDK takes
seconds to load.

What a server sends is bounded: a message at `max_bytes`, a call and the list of tools at `timeout`. It is asked for
tools alone; what it asks of Stoker (sampling, elicitation, roots) is declined.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from stoker.domain.server_tools import McpTool
from stoker.fleet.process.environment import child_environment
from stoker.fleet.process.starter import started
from stoker.http.tls_contexts import tls_contexts
from stoker_tools.result_text import MCP_DESCRIPTION, cleaned, shortened
from stoker_tools.search import CONNECT_WITHIN, ToolFailed
from stoker_tools.tables import Tool

for _name in ("mcp", "mcp_types", "client", "httpx2", "httpcore2"):  # what they log may hold what was said
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
MOST_TOOLS, MOST_PAGES, LARGEST_SCHEMA = 200, 20, 32 * 2**10
CLOSE_WITHIN = 2.0
"""Seconds that a program has to end once its input is closed."""
CLOSE_LIMIT = 3 * CLOSE_WITHIN
RESUME_EVERY = 1.0
"""Seconds between two times that a stream which broke off is asked for again, whatever the server says."""
_TEXTS = ("description", "title", "$comment")
_LAST_WORDS = 400
_OF_THE_CALL = (types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INTERNAL_ERROR)
"""Errors after which a session over HTTP goes on. After others the server may know it no more: the next call opens a
new one.
"""


class McpSession:
    """From `open` until it breaks or `close` is called. A broken one is not used again."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.is_broken = False
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._words: list[bytes] = []

    async def open(self) -> None:
        """Raises ToolFailed. On cancel nothing of it is left."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run(ready), name=f"mcp-{self.tool.name}")
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Returns after CLOSE_LIMIT even if it has not ended."""
        self._ending.set()
        self.is_broken = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_LIMIT)

    async def list_tools(self) -> list[McpTool]:
        """Raises ToolFailed."""
        assert self._client is not None
        found: list[McpTool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            try:
                page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            except Exception as error:
                raise self._refused(error, "it does not list its tools") from None
            found += (tool for one in page.tools if (tool := _tool(one)) is not None)
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_TOOLS:
                break
        return found[:MOST_TOOLS]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """What the tool said, and whether it failed. Raises ToolFailed. On cancel the server is told.

        Not by the SDK's `call_tool`: that checks the answer against patterns of the server, which may take for ever.
        """
        assert self._client is not None
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.CallToolRequest(params=params)
        try:
            result = await self._client.session.send_request(request, types.CallToolResult)
        except Exception as error:
            raise self._refused(error, "the call failed") from None
        text = "\n".join(_text(block) for block in result.content)
        if not text and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        return text, result.is_error

    def _refused(self, error: Exception, what: str) -> ToolFailed:
        """Only the code, or the type: the message may have anything in it of the request or of the answer."""
        if not isinstance(error, MCPError):
            return ToolFailed("unavailable", f"{what}: its answer does not keep to MCP ({type(error).__name__})")
        is_program = self.tool.command is not None
        if error.code == types.CONNECTION_CLOSED or (not is_program and error.code not in _OF_THE_CALL):
            self.is_broken = True
        if error.code == types.CONNECTION_CLOSED:
            return ToolFailed("unavailable", "the connection broke, or it sent more than `max_bytes`")
        return ToolFailed("unavailable", f"{what} (MCP error {error.code})")

    async def _run(self, ready: asyncio.Future[None]) -> None:
        """The SDK wants its contexts left by the task that entered them."""
        try:
            async with Client(self._transport(), cache=None) as client:
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                await self._ending.wait()
        except asyncio.CancelledError:
            ready.cancel()
            raise
        except Exception as error:
            self.is_broken = True
            if not ready.done():
                ready.set_exception(ToolFailed("unavailable", self._why(error), self._last_words()))
        finally:
            self.is_broken = True

    def _why(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, OSError) and self.tool.command is not None:
            return f"its command cannot be started ({error.strerror})"
        if isinstance(error, ToolFailed):
            return error.why
        kind = f"MCP error {error.code}" if isinstance(error, MCPError) else type(error).__name__
        return f"no session could be opened ({kind})"

    def _last_words(self) -> str:
        words = b"".join(self._words)[-_LAST_WORDS:].decode("utf-8", "replace").strip()
        return words.splitlines()[-1] if words else ""

    # -- transports ----------------------------------------------------------------------------------------------------

    def _transport(self) -> Any:
        return self._program() if self.tool.command is not None else self._http()

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[Any]:
        tool = self.tool
        assert tool.url is not None
        headers = {"accept-encoding": "identity"}
        if tool.key is not None:
            headers["authorization"] = f"Bearer {tool.key.reveal()}"
        verify = await tls_contexts.get() if tool.url.startswith("https:") else False
        transport = _BoundedTransport(httpx2.AsyncHTTPTransport(verify=verify), tool.max_bytes)
        timeout = httpx2.Timeout(tool.timeout, connect=min(CONNECT_WITHIN, tool.timeout))
        async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=timeout, trust_env=False) as client:
            bound = tool.max_bytes
            async with streamable_http_client(tool.url, http_client=client, max_sse_event_size=bound) as streams:
                yield streams

    @asynccontextmanager
    async def _program(self) -> AsyncIterator[Any]:
        """A program that speaks lines of JSON. It is a process group of its own, and ends as a whole; if Stoker is
        killed, the kernel kills the program, and what that has started lives on.
        """
        assert self.tool.command is not None
        environment = child_environment(os.environ, self.tool.env, {})
        if shutil.which(self.tool.command[0], path=environment.get("PATH")) is None:
            raise ToolFailed("unavailable", f"there is no program '{self.tool.command[0]}' that can be run")
        process = await asyncio.create_subprocess_exec(
            *started(self.tool.command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
            limit=self.tool.max_bytes,
        )
        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_read, process, to_session)
                group.start_soon(_write, process, from_session, to_session)
                group.start_soon(self._listen, process)
                try:
                    yield incoming, outgoing
                finally:
                    group.cancel_scope.cancel()
        finally:
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()
            with anyio.CancelScope(shield=True):
                await _end(process)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """What it says on stderr goes nowhere, except the last words of one that does not start."""
        assert process.stderr is not None
        while data := await process.stderr.read(4096):
            if self._client is None:
                self._words = [*self._words, data][-2:]


async def _read(process: asyncio.subprocess.Process, to_session: Any) -> None:
    """A line that is too long ends the session: what follows it cannot be read any more."""
    assert process.stdout is not None
    with contextlib.suppress(ValueError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with to_session:
            while line := await process.stdout.readline():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue  # no message: programs print other things, too
                await to_session.send(SessionMessage(message))


async def _write(process: asyncio.subprocess.Process, from_session: Any, to_session: Any) -> None:
    assert process.stdin is not None
    try:
        async with from_session:
            async for one in from_session:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await to_session.aclose()


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_WITHIN):
            await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_WITHIN):
            await process.wait()
    transport = getattr(process, "_transport", None)  # one that left the group may hold the pipes open
    if transport is not None:
        transport.close()


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Answers that are one document have at most so many bytes, and none is compressed. The SDK bounds each event of a
    stream itself. No stream is open beside the calls: what the server would say there is of no use, and the SDK asks
    for it again as often as the server wants.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, most: int) -> None:
        self._inner = inner
        self._most = most
        self._may_resume_at = 0.0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            if "last-event-id" not in request.headers:
                return httpx2.Response(405, request=request)
            now = asyncio.get_running_loop().time()
            pause, self._may_resume_at = self._may_resume_at - now, max(now, self._may_resume_at) + RESUME_EVERY
            await asyncio.sleep(max(0.0, pause))
        try:
            async with asyncio.timeout(CLOSE_WITHIN if request.method == "DELETE" else None):
                response = await self._inner.handle_async_request(request)
        except TimeoutError:
            raise httpx2.ReadTimeout("no answer to the end of the session", request=request) from None
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            raise httpx2.RemoteProtocolError("it is compressed, although that was not asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream, self._most)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, most: int) -> None:
        self._inner = inner
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._inner:
            self._left -= len(data)
            if self._left < 0:
                raise httpx2.RemoteProtocolError("the answer is too long")
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()


def _tool(given: types.Tool) -> McpTool | None:
    """None: it is too large to be offered, or its name cannot be shown."""
    if len(given.name) > 256 or not given.name.isprintable():
        return None
    try:
        if len(json.dumps(given.input_schema)) > LARGEST_SCHEMA:
            return None
        schema = _cleaned_schema(given.input_schema)
    except RecursionError:
        return None
    description = shortened(cleaned(given.description or ""), MCP_DESCRIPTION)
    hints = given.annotations
    return McpTool(given.name, description, schema, hints is not None and hints.read_only_hint is True)


def _cleaned_schema(part: Any) -> Any:
    """Without what a reader does not see in the texts for models. Names and values are the server's own."""
    if isinstance(part, list):
        return [_cleaned_schema(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        name: cleaned(value) if name in _TEXTS and isinstance(value, str) else _cleaned_schema(value)
        for name, value in part.items()
    }


def _text(block: Any) -> str:
    """A block as text; what is none is named."""
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    if isinstance(block, types.ResourceLink):
        return f"{block.name}: {block.uri}"
    return f"({block.type}, not shown)"

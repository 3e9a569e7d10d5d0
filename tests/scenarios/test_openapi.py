"""What /openapi.json says holds, and nothing that it allows, or nearly allows, makes Stoker fail."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.scenarios.caller import story
from tests.scenarios.plane import Plane, running, serve

from stoker_content.verify.schema import Schema
from stoker_lab.testing.client import FramingError, RawClient, RawHead
from stoker_lab.testing.script.script import Script

ALL = "spark"
NAMES = (ALL, "vectors", "auto", "none", "")
ENDLESS = ("/events", "/logs/stream", "/models/sse")
"""Streams without an end: only their head is read."""
LEFT_OUT = ("/admin/drain", "/admin/hand-over", "/admin/pause", "/admin/reload", "/models/unload")
"""What is drained, or still stops, answers 503, as it should; a reload takes long."""
KEY = "key-of-boss-with-16-letters"
DIALECTS = ["chat", "completions", "messages", "responses", "embeddings", "rerank", "speech", "transcription", "image"]


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve(ALL, Script(tokens=2), dialects=DIALECTS, slot=None, queue=100),
        serve("vectors", Script(tokens=2), dialects=["chat"], slot=None),
        '[responses]\nstore = true\n[[tier]]\nname = "t"\nserve = "spark"\n',
        front_door='keys = [{ name = "boss", value = "env:boss", scope = "admin" }]\n',
        environment={"boss": KEY},
    ) as plane:
        yield plane


def paths(plane: Plane) -> dict[str, dict[str, Any]]:
    status, document = plane.ask("GET", "/openapi.json")
    assert status == 200
    found: dict[str, dict[str, Any]] = document["paths"]
    for methods in found.values():
        for operation in methods.values():
            for answer in operation["responses"].values():
                for content in answer["content"].values():
                    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
                    if name:
                        content["schema"] = document["components"]["schemas"][name]
    return found


class Cases:
    """Requests that an operation allows, and some that it does not."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def value(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        dice = self._dice
        if not schema or dice.random() < 0.08:
            return self.anything(depth)
        if "anyOf" in schema:
            return self.value(dice.choice(schema["anyOf"]), name, depth)
        if name in ("model", "serve", "alias") and dice.random() < 0.8:
            return dice.choice(NAMES)
        match schema.get("type"):
            case "string":
                return self.text()
            case "integer" | "number":
                return dice.choice((0, 1, 5, 100, -1, 10**9, 2**63, 10**30, 0.5))
            case "boolean":
                return dice.random() < 0.5
            case "array":
                return [self.value(schema.get("items", {}), name, depth + 1) for _ in range(dice.randrange(4))]
            case "object":
                required = schema.get("required", ())
                found = {
                    one: self.value(own, one, depth + 1)
                    for one, own in schema.get("properties", {}).items()
                    if dice.random() < (0.95 if one in required else 0.4)
                }
                if dice.random() < 0.1:
                    found[self.text()] = self.anything(depth + 1)
                if "role" in found and dice.random() < 0.8:
                    found["role"] = dice.choice(("user", "assistant", "system", "tool", "developer"))
                return found
        return self.anything(depth)

    def anything(self, depth: int = 0) -> Any:
        dice = self._dice
        plain = (None, True, 0, -1, 2**63, 1.5, "", "x", "\x00", "\ud83d\ude00", "ü" * 50)
        if depth > 4 or dice.random() < 0.6:
            return dice.choice(plain)
        if dice.random() < 0.5:
            return [self.anything(depth + 1) for _ in range(dice.randrange(3))]
        keys = ("type", "text", "role", "content", "name", "id", "url", "image_url", "input", "function", "arguments")
        types = ("text", "input_text", "message", "tool_use", "tool_result", "function_call", "image_url", "thinking")
        found = {dice.choice(keys): self.anything(depth + 1) for _ in range(dice.randrange(4))}
        return {**found, "type": dice.choice(types)} if dice.random() < 0.5 else found

    def text(self) -> str:
        texts = ("hi", ALL, "", "a/b", "..", "%", "é", "\x00", "x" * 300, "auto:code", "resp_1", "conv_x", "1", "-1")
        return self._dice.choice(texts)

    def request(self, method: str, path: str, operation: dict[str, Any]) -> bytes:
        dice = self._dice
        target = re.sub(r"\{(\w+)\}", lambda found: self._segment(found[1]), path)
        query = [
            f"{one['name']}={quote(self._named(one['name']), safe='')}"
            for one in operation.get("parameters", ())
            if one["in"] == "query" and dice.random() < 0.6
        ]
        lines = [f"{method} {target}{'?' if query else ''}{'&'.join(query)} HTTP/1.1", "host: 127.0.0.1"]
        lines.append(f"authorization: Bearer {KEY}")
        body = self._body(operation)
        if body is not None:
            kind, data = body
            lines += [f"content-type: {kind}", f"content-length: {len(data)}"]
            return "\r\n".join([*lines, "", ""]).encode() + data
        return "\r\n".join([*lines, "", ""]).encode()

    def _segment(self, name: str) -> str:
        known = {"model": ALL, "serve": ALL, "log": ALL, "key": "boss", "path": "v1/models"}
        if name in known and self._dice.random() < 0.6:
            return known[name]
        return quote(self.text(), safe="") or "x"

    def _named(self, name: str) -> str:
        return self._dice.choice(NAMES) if name == "model" else self.text()

    def _body(self, operation: dict[str, Any]) -> tuple[str, bytes] | None:
        content = operation.get("requestBody", {}).get("content")
        if content is None:
            return None
        kind, described = next(iter(content.items()))
        found = self.value(described["schema"])
        if kind == "multipart/form-data":
            parts = [
                f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                for name, value in (found.items() if isinstance(found, dict) else ())
                if name.isidentifier()
            ]
            return "multipart/form-data; boundary=b", ("".join(parts) + "--b--\r\n").encode("utf-8", "replace")
        data = json.dumps(found).encode()
        if self._dice.random() < 0.05:
            data = self._dice.choice((b"", b"{", b"[]", b"null", b"\xff", data[:-1], b"1" * 5000))
        return kind, data


HONEST = (b"upstream_unusable", b"slot_paused")
"""Codes of refusals that are no fault of Stoker's: the engine's answer cannot be used; the request before paused it."""


async def answered(client: RawClient, path: str) -> tuple[RawHead, bytes | None]:
    """The head, and the body where it ends."""
    head = await client.head()
    kind = head.header("content-type") or ""
    if head.status == 200 and (path.startswith(ENDLESS) or (path.startswith("/logs") and "json" not in kind)):
        return head, None
    return head, await client.body(head)


def judge(operation: dict[str, Any], request: bytes, head: RawHead, body: bytes | None) -> None:
    """Raises AssertionError."""
    is_refused = head.status >= 500 and any(b'"code":"%b"' % code in (body or b"") for code in HONEST)
    assert head.status < 500 or is_refused, (head.status, request[:600], body)
    answers = operation["responses"]
    answer = answers.get(str(head.status)) or answers["200" if head.status < 300 else "default"]
    if body is None or (head.header("content-type") or "").partition(";")[0] != "application/json":
        return
    schema = answer["content"].get("application/json", {}).get("schema", {})
    fitting = Schema(json.dumps(schema).encode()).fits(json.loads(body))
    assert fitting.fit is not False, (schema, request[:600], body[:600])
    assert fitting.unchecked == ()


async def try_cases(plane: Plane, operations: list[tuple[str, str, dict[str, Any]]], count: int, seed: int) -> None:
    cases, dice = Cases(seed), random.Random(seed)
    client = RawClient(plane.port, timeout=60)
    await client.connect()
    try:
        for _ in range(count):
            method, path, operation = dice.choice(operations)
            request = cases.request(method, path, operation)
            try:
                await client.send(request)
                head, body = await answered(client, path)
            except (FramingError, ConnectionError, TimeoutError) as error:
                raise AssertionError(f"{error}: {request[:600]!r}") from error
            judge(operation, request, head, body)
            if body is None or head.header("connection") == "close":
                client.abort()
                client = RawClient(plane.port, timeout=60)
                await client.connect()
    finally:
        client.abort()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.heavy)])
@story
async def test_no_request_makes_stoker_fail_and_answers_are_as_described(plane: Plane, count: int) -> None:
    """`STOKER_TEST_SEED` repeats other cases than those of each run."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in paths(plane).items()
        for method, operation in methods.items()
        if path not in LEFT_OUT
    ]
    seed = int(os.environ.get("STOKER_TEST_SEED", "1"))
    await try_cases(plane, operations, count, seed)

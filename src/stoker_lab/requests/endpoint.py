"""The server that is measured: which models it has, and how many tokens a prompt comes to there."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.host_port import host_port
from stoker.domain.lease import Target
from stoker.request.relay.pool import ConnectionPool
from stoker.request.relay.tokens import count, count_by_asking, fetch


class MeasuredEndpoint(NamedTuple):
    route: str
    """`front-door`, `direct`, `public` or `routed`."""
    target: Target
    """`served_name` is the id that is asked for."""
    counting: Target | None = None
    """Target of the engine's own paths (its tokenizer), if not `target`: behind the front door, /upstream/SERVE."""

    @property
    def base_url(self) -> str:
        """Without credentials."""
        target = self.target
        return f"http{'s' if target.tls else ''}://{host_port(target.host, target.port)}{target.base_path}/v1"


class ListedModel(NamedTuple):
    id: str
    context: int | None


def target_at(url: str, model: str, key: str | None = None) -> Target:
    """The server at a base URL, with or without /v1 at its end. Raises ValueError."""
    if "://" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url} is not an address: write it as http://HOST:PORT/v1")
    if parts.username or parts.password:
        raise ValueError("an address must not contain a key: name the key's variable with --key-env")
    tls = parts.scheme == "https"
    path = parts.path.rstrip("/").removesuffix("/v1")
    return Target(parts.hostname, parts.port or (443 if tls else 80), path, model, key, tls)


async def list_models(target: Target) -> list[ListedModel]:
    """What it lists. Raises UpstreamError: it is not there, or does not answer so."""
    pool = ConnectionPool()
    try:
        status, body = await fetch(pool, target, b"GET", "/v1/models")
    finally:
        pool.close()
    if status in (401, 403):
        raise UpstreamError("it requires a key: name its variable with --key-env", code="unauthorized")
    try:
        return [ListedModel(str(one["id"]), _context(one)) for one in msgspec.json.decode(body)["data"]]
    except (msgspec.DecodeError, LookupError, TypeError):
        raise UpstreamError(f"/v1/models answered {status} without a list of models", code="no_models") from None


class PromptCounter:
    """Prompt tokens of a request with one user turn, by the server.

    1. the engine's own count of a chat request, or its tokenizer  2. /v1/messages/count_tokens  3. the usage of an
    answer of one token. The first that works is kept.
    """

    def __init__(self, server: MeasuredEndpoint) -> None:
        self._server = server
        self._pool = ConnectionPool()
        self._method = 1
        self.counted_by = "not counted"

    def close(self) -> None:
        self._pool.close()

    async def __call__(self, text: str) -> int:
        """Raises UpstreamError: no method works."""
        engine = self._server.counting or self._server.target
        body = _body(text, engine.served_name)
        if self._method == 1:
            found = await count(self._pool, engine, Dialect.CHAT, body)
            if found is not None:
                self.counted_by = "the engine's own count"
                return found
            self._method = 2
        target = self._server.target
        body = _body(text, target.served_name)
        if self._method == 2:
            found = await count(self._pool, target, Dialect.MESSAGES, body)
            if found is not None:
                self.counted_by = "count_tokens"
                return found
            self._method = 3
        found = await count_by_asking(self._pool, target, Dialect.CHAT.spec.path, body)
        if found is None:
            raise UpstreamError(f"'{target.served_name}' does not report how many tokens a prompt has", code="no_usage")
        self.counted_by = "usage of an answer"
        return found


def user_turns(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _body(text: str, model: str) -> bytes:
    return msgspec.json.encode({"model": model, "messages": user_turns(text), "max_tokens": 1})


def _context(model: dict[str, Any]) -> int | None:
    meta = model.get("meta")
    candidates = (model.get("context_length"), model.get("max_model_len"), meta and meta.get("n_ctx"))
    return next((one for one in candidates if isinstance(one, int)), None)

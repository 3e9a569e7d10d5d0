"""The endpoints of Ollama's API that ask no model: answered or refused, as the key or the front door says, and
counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from stoker.access.caller import Caller
from stoker.domain.dialect import MEDIA, Dialect
from stoker.domain.errors import ClientError
from stoker.domain.key import Key
from stoker.domain.serve import Serve
from stoker.domain.server_tools import ServerToolKind, WebPage
from stoker.exchange.planner import ToolPlanner
from stoker.request.translate.neutral.json_text import encode, loose
from stoker.request.translate.ollama import listing

REPLACEMENTS = {
    "/api/chat": "POST /v1/chat/completions", "/api/generate": "POST /v1/completions", "/api/tags": "GET /v1/models",
    "/api/embed": "POST /v1/embeddings", "/api/embeddings": "POST /v1/embeddings", "/api/pull": "stoker stage",
    "/api/show": "GET /v1/models/NAME", "/api/ps": "GET /status", "/api/version": "GET /status",
    **dict.fromkeys(("/api/web_search", "/api/experimental/web_search"), "`web_search` in POST /v1/responses"),
    **dict.fromkeys(("/api/web_fetch", "/api/experimental/web_fetch"), "`web_fetch` in POST /v1/messages"),
}  # fmt: skip
"""The endpoint that replaces each of Ollama's."""


class OllamaEndpoints:
    """`count(key, path, answer)` is called for each request; `answer` is `answered` or `refused`.
    `note_cost(key, cost)` is told what calls of tools cost.
    """

    def __init__(
        self,
        count: Callable[[str, str, str], None] = lambda key, path, answer: None,
        note_cost: Callable[[Key, float], None] = lambda key, cost: None,
    ) -> None:
        self._count = count
        self._note_cost = note_cost

    def admit(self, caller: Caller, path: str, default: str) -> None:
        """Raises ClientError 410 `legacy_refused` if the key says so, or the `default` of the front
        door if the key says nothing."""
        setting = caller.key.ollama_api or default
        self._count(caller.key.name, path, "answered" if setting == "answer" else "refused")
        if setting != "answer":
            text = f"{path} belongs to Ollama's API, which is refused here; instead: {REPLACEMENTS[path]}"
            raise ClientError(text, code="legacy_refused", status=410)

    def handle(
        self,
        path: str,
        body: bytes,
        serves: Iterable[tuple[str, Serve]],
        tasks: Iterable[str],
        find: Callable[[str], Serve | None],
        is_up: IsUp,
    ) -> dict[str, Any]:
        """Answer a path that generates nothing. `serves`: those that the caller may use, once for each of their names;
        `tasks`: names that ask Stoker to choose; `find`: the serve, or None for a task; raises ClientError 404.
        """
        match path:
            case "/api/version":
                return listing.version()
            case "/api/tags":
                models = [*(_model(name, serve) for name, serve in serves), *(_model(name, None) for name in tasks)]
                return listing.tags(models)
            case "/api/ps":
                return listing.ps(_model(name, serve) for name, serve in serves if name == serve.name and is_up(serve))
        name = _named(loose(body))
        return listing.show(_model(name, find(name)))

    def pull(self, body: bytes, find: Callable[[str], Serve | None]) -> tuple[bytes, bytes]:
        """Content type and body of the answer to /api/pull. Succeeds only for a model that exists. Raises
        ClientError 404 for others, because clients cannot make Stoker download anything.
        """
        asked = loose(body)
        name = _named(asked)
        try:
            find(name)
        except ClientError as unknown:
            text = (
                f"{unknown.message}. Clients cannot download models: the operator fetches one with "
                "`stoker stage SOURCE` and adds a [[serve]] for it to stoker.toml"
            )
            raise ClientError(text, code=unknown.code, status=unknown.status, param="model") from None
        if asked.get("stream") is False:
            return b"application/json", encode(listing.PULLED[-1])
        return b"application/x-ndjson", b"".join(encode(line) + b"\n" for line in listing.PULLED)

    async def web(self, path: str, body: bytes, caller: Caller, tools: ToolPlanner) -> dict[str, Any]:
        """Answer a search or the fetching of a page, which counts as a request of the key. Raises StokerError."""
        asked = loose(body)
        asked = asked if isinstance(asked, dict) else {}
        kind = ServerToolKind(path.rpartition("/")[2])
        field = "query" if kind is ServerToolKind.SEARCH else "url"
        argument, results = asked.get(field), asked.get("max_results", _RESULTS)
        if not isinstance(argument, str) or not argument.strip():
            raise ClientError(f"'{field}' must be a text that is not empty", code="bad_field", param=field)
        if type(results) is not int or results < 1:
            raise ClientError("'max_results' must be a whole number from 1", code="bad_field", param="max_results")
        charge = caller.enter()
        try:
            note = partial(self._note_cost, caller.key)
            pages = await tools.run_tool(caller, charge, kind, argument, results, note)
        finally:
            caller.leave(charge)
        if kind is ServerToolKind.SEARCH:
            return {"results": [{"title": page.title, "url": page.url, "content": page.text} for page in pages]}
        page = pages[0] if pages else WebPage(argument)
        return {"title": page.title, "content": page.text, "links": list(dict.fromkeys(_LINK.findall(page.text)))}


IsUp = Callable[[Serve], bool]
_RESULTS = 5
"""Of a search that does not say how many, as at Ollama."""
_LINK = re.compile(r"\]\((https?://[^\s()]+)\)")
"""A link of Markdown, which pages become."""


def _named(asked: Any) -> str:
    name = (asked.get("model") or asked.get("name")) if isinstance(asked, dict) else None
    if not isinstance(name, str):
        raise ClientError("'model' must name a model: see GET /api/tags", code="bad_model", param="model")
    return name


def _model(name: str, serve: Serve | None) -> listing.OllamaModel:
    """What is known of a model without asking the engine. `serve` None: Stoker chooses one for each request."""
    model: listing.OllamaModel = {
        "name": name, "size": None, "modified_at": None, "digest": None, "context": None, "family": None,
        "parameters": None, "quantization": None, "capabilities": ["completion", "tools"], "expires_at": None,
    }  # fmt: skip
    if serve is None:
        return model
    can = ["completion", "tools"] if serve.dialects - {Dialect.EMBEDDINGS, Dialect.RERANK} - MEDIA else []
    can += ["vision"] * ("image" in serve.modalities) + ["thinking"] * bool(serve.tuning.thinking)
    can += ["embedding"] * (Dialect.EMBEDDINGS in serve.dialects)
    model["context"], model["quantization"], model["capabilities"] = serve.context, serve.tuning.quantization, can
    return model

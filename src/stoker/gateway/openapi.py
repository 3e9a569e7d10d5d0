"""GET /openapi.json: what each path takes and answers, made of the table of routes and of the operations that stand
beside their code. It says nothing of this Stoker: no model, no prefix, no setting.

Requests and answers of the dialects are described as far as Stoker itself reads them; engines may know more fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from stoker.domain.dialect import ApiFamily, Dialect, Endpoint, RequestForm
from stoker.domain.key import Scope
from stoker.extensions import FAILURES, load, usable_extensions
from stoker.gateway import admin, keys, responses, results
from stoker.gateway.operations import Operation
from stoker.request.accept.routes import PUBLIC, Route, RouteKind, Routes

Schema = dict[str, Any]
OPERATIONS = (*admin.OPERATIONS, *keys.OPERATIONS, *results.OPERATIONS, *responses.OPERATIONS)
_OPERATED = (RouteKind.ADMIN, RouteKind.RESPONSES, RouteKind.CONVERSATIONS)
"""Below their paths, the operations say what there is."""
_PARAMETER = re.compile(r"\{(\w+)\}")
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer"}
_ANY: Schema = {}


def _object(required: Iterable[str] = (), **properties: Schema) -> Schema:
    names = list(required)
    return {"type": "object", "properties": properties, **({"required": names} if names else {})}


def _list(items: Schema = _ANY) -> Schema:
    return {"type": "array", "items": items}


_TURNS = _list(_object(("role",), role=_TEXT, content=_ANY))
_LIMIT: Schema = {"anyOf": [_COUNT, {"type": "null"}]}
_STREAM: Schema = {"type": "boolean"}
_INPUT: Schema = {"anyOf": [_TEXT, _list()]}


def _request(required: Iterable[str] = (), **properties: Schema) -> Schema:
    return _object(("model", *required), model=_TEXT, **properties)


_REQUESTS: dict[Dialect, Schema] = {
    Dialect.CHAT: _request(
        ("messages",), messages=_TURNS, stream=_STREAM, max_tokens=_LIMIT, max_completion_tokens=_LIMIT, tools=_list()
    ),
    Dialect.COMPLETIONS: _request(("prompt",), prompt=_INPUT, stream=_STREAM, max_tokens=_LIMIT),
    Dialect.EMBEDDINGS: _request(("input",), input=_INPUT),
    Dialect.RERANK: _request(("query", "documents"), query=_TEXT, documents=_list()),
    Dialect.RESPONSES: _request(
        ("input",), input=_INPUT, stream=_STREAM, max_output_tokens=_LIMIT, instructions=_TEXT, tools=_list()
    ),
    Dialect.MESSAGES: _request(
        ("messages", "max_tokens"), messages=_TURNS, max_tokens=_COUNT, stream=_STREAM, system=_INPUT, tools=_list()
    ),
    Dialect.OLLAMA_CHAT: _request(messages=_TURNS, stream=_STREAM, options=_object(num_predict=_COUNT)),
    Dialect.OLLAMA_GENERATE: _request(prompt=_TEXT, stream=_STREAM, options=_object(num_predict=_COUNT)),
    Dialect.OLLAMA_EMBED: _request(input=_INPUT, prompt=_TEXT),
    Dialect.SPEECH: _request(("input",), input=_TEXT, voice=_ANY),
    Dialect.TRANSCRIPTION: _request(("file",), file={"type": "string", "format": "binary"}),
    Dialect.IMAGE: _request(prompt=_TEXT),
}
_MODEL_ONLY = _request()
_ANSWERS: dict[Dialect, Schema] = {
    Dialect.CHAT: _object(("choices",), choices=_list(_object(("message",), message=_object()))),
    Dialect.COMPLETIONS: _object(("choices",), choices=_list(_object(("text",), text=_TEXT))),
    Dialect.EMBEDDINGS: _object(("data",), data=_list(_object(("embedding",)))),
    Dialect.RERANK: _object(("results",), results=_list()),
    Dialect.RESPONSES: _object(("object",), object=_TEXT, output=_list()),
    Dialect.MESSAGES: _object(("type", "content"), type={"const": "message"}, content=_list()),
    Dialect.OLLAMA_CHAT: _object(("model", "message", "done"), message=_object(), done=_STREAM),
    Dialect.OLLAMA_GENERATE: _object(("model", "response", "done"), response=_TEXT, done=_STREAM),
    Dialect.OLLAMA_EMBED: _object(),
}
_COUNTED = _object(("input_tokens",), input_tokens=_COUNT)
_MODEL = _object(("id", "object", "created", "owned_by"), id=_TEXT, object={"const": "model"}, created=_COUNT)
_HEALTH = _object(("status",), status={"enum": ["ok", "draining"]})
_OLLAMA_MODELS = _object(("models",), models=_list(_object(("name", "model"), name=_TEXT, model=_TEXT)))


class _Page:
    """A path that is neither inference nor an operation."""

    def __init__(
        self, summary: str, answer: Schema | str = _ANY, scope: Scope = Scope.OBSERVE, query: tuple[str, ...] = ()
    ) -> None:
        """`answer`: its schema, or its content type if it is no JSON."""
        self.summary, self.answer, self.scope, self.query = summary, answer, scope, query


_PLAIN_TEXT, _SSE = "text/plain", "text/event-stream"
_WEB_SEARCH = _Page("Search the web, as Ollama does.", _object(("results",), results=_list()), Scope.INFERENCE)
_WEB_FETCH = _Page("Fetch a web page, as Ollama does.", _object(("title", "content", "links")), Scope.INFERENCE)
_PAGES: dict[str, _Page] = {
    "/": _Page("What this is.", _object(("name", "models", "status"), name={"const": "stoker"})),
    "/healthz": _Page("Liveness.", _HEALTH),
    "/health": _Page("Liveness; with llama-swap's paths alone, the text `OK`."),
    "/readyz": _Page("Readiness: 503 while draining.", _HEALTH),
    "/openapi.json": _Page("This document.", _object(("openapi", "info", "paths"))),
    "/status": _Page("The state of everything.", _object(("version", "slots", "serves", "aliases"), serves=_list())),
    "/events": _Page("What happens, live.", _SSE, query=("topics",)),
    "/metrics": _Page("Figures for Prometheus.", _PLAIN_TEXT),
    "/v1/usage": _Page(
        "Who used what.", _object(("by", "from", "to", "data", "total"), data=_list()), Scope.INFERENCE,
        ("by", "since", "key"),
    ),
    "/v1/models": _Page(
        "The models.", _object(("object", "data", "has_more"), object={"const": "list"}, data=_list(_MODEL)),
        Scope.INFERENCE,
    ),
    "/v1/models/{model}": _Page("One model.", _MODEL, Scope.INFERENCE),
    "/v1/responses": _Page("Responses over a WebSocket.", _ANY, Scope.INFERENCE),
    "/v1/realtime": _Page("A WebSocket to an engine that has realtime sessions.", _ANY, Scope.INFERENCE, ("model",)),
    "/ui": _Page("The web page.", "text/html"),
    "/ui/{file}": _Page("A file of the web page.", "text/html"),
    "/ui/session": _Page("Who asks; sign in; sign out.", _object(), Scope.INFERENCE),
    "/api/tags": _Page("The models, as Ollama lists them.", _OLLAMA_MODELS, Scope.INFERENCE),
    "/api/ps": _Page("The loaded models, as Ollama lists them.", _OLLAMA_MODELS, Scope.INFERENCE),
    "/api/version": _Page("A version for Ollama's clients.", _object(("version",), version=_TEXT), Scope.INFERENCE),
    "/api/show": _Page("One model, as Ollama shows it.", _object(), Scope.INFERENCE),
    "/api/pull": _Page("Ollama's download, of a model that is there.", "application/x-ndjson", Scope.INFERENCE),
    "/api/web_search": _WEB_SEARCH,
    "/api/web_fetch": _WEB_FETCH,
    "/api/experimental/web_search": _WEB_SEARCH,
    "/api/experimental/web_fetch": _WEB_FETCH,
    "/upstream/{serve}/{path}": _Page("A path of a serve's engine; it may have slashes.", "*/*"),
    "/running": _Page("llama-swap: the loaded models.", _object(("running",), running=_list())),
    "/unload": _Page("llama-swap: unload all models.", "*/*", Scope.ADMIN),
    "/api/models/unload": _Page("llama-swap: unload all models.", _ANY, Scope.ADMIN),
    "/api/models/unload/{model}": _Page("llama-swap: unload a model.", _PLAIN_TEXT, Scope.ADMIN),
    "/logs": _Page("llama-swap: the end of all logs.", _PLAIN_TEXT, Scope.ADMIN),
    "/logs/stream": _Page("llama-swap: all logs, live.", _PLAIN_TEXT, Scope.ADMIN),
    "/logs/stream/{log}": _Page("llama-swap: one log, live.", _PLAIN_TEXT, Scope.ADMIN),
    "/models": _Page("llama.cpp: the models.", _object(("data",), data=_list()), Scope.INFERENCE),
    "/models/sse": _Page("llama.cpp: changes of models, live.", _SSE),
    "/models/load": _Page("llama.cpp: load a model.", _object(("success",)), Scope.ADMIN),
    "/models/unload": _Page("llama.cpp: unload a model.", _object(("success",)), Scope.ADMIN),
    "/props": _Page("llama.cpp: properties of the router, or of a model.", _object(), Scope.INFERENCE, ("model",)),
    "/infill": _Page("llama.cpp: fill in code.", "*/*", Scope.INFERENCE),
    "/completion": _Page("llama.cpp: its own completions.", "*/*", Scope.INFERENCE),
}  # fmt: skip
_BELOW = {
    "/v1/models/": "/v1/models/{model}",
    "/ui/": "/ui/{file}",
    "/upstream/": "/upstream/{serve}/{path}",
    "/logs/stream/": "/logs/stream/{log}",
    "/api/models/unload/": "/api/models/unload/{model}",
}
"""The trees of the table that no operation describes."""
_ERRORS: dict[str, Schema] = {
    # An engine's own refusals have no `source`.
    "Error": _object(("error",), error=_object(("message",), message=_TEXT, source=_TEXT)),
    "MessagesError": _object(
        ("type", "error"), type={"const": "error"}, error=_object(("type", "message"), type=_TEXT, message=_TEXT)
    ),
    "OllamaError": _object(("error",), error=_TEXT),
}
_ERROR_OF = {ApiFamily.OPENAI: "Error", ApiFamily.ANTHROPIC: "MessagesError", ApiFamily.OLLAMA: "OllamaError"}


@cache
def openapi_json() -> bytes:
    return msgspec.json.encode(openapi_document())


def openapi_document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for path, methods in Routes().methods().items():
        shown = _BELOW.get(path, path)
        for method, route in methods.items():
            if route.kind not in _OPERATED:
                paths.setdefault(shown, {})[method.lower()] = _described(shown, method, route)
    for operation in (*OPERATIONS, *_of_extensions()):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operated(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stoker", "version": "1", "summary": "One endpoint for language models"},
        "paths": dict(sorted(paths.items())),
        "security": [{"bearer": []}, {"header": []}],
        "components": {
            "schemas": _ERRORS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _of_extensions() -> list[Operation]:
    """Those that can be imported, and have no verb of Stoker's own."""
    operations: list[Operation] = []
    for extension in usable_extensions():
        if extension.pages:
            try:
                operations += [one for one in load(extension.pages) if one.verb not in admin.OWN_VERBS]
            except FAILURES:
                continue
    return operations


def _described(path: str, method: str, route: Route) -> dict[str, Any]:
    if route.endpoint is not None:
        return _inference(path, route.endpoint)
    if route.kind is RouteKind.IMAGE_OPTIONS:
        return _operation(path, "Name the only image model.", Scope.INFERENCE, _object(), body=_object())
    page = _PAGES[path]
    body = _object() if method == "POST" else None
    errors = "OllamaError" if route.kind is RouteKind.OLLAMA else "Error"
    found = _operation(path, page.summary, page.scope, page.answer, page.query, body, errors)
    if path in PUBLIC or route.kind is RouteKind.PAGE:
        found |= {"security": [], "description": "Needs no key."}
    if route.kind is RouteKind.READY:
        found["responses"]["503"] = _response("It drains.", _HEALTH)
    return found


def _inference(path: str, endpoint: Endpoint) -> dict[str, Any]:
    """What a request in a dialect takes and answers."""
    dialect = endpoint.dialect
    answer: Schema | str = _ANSWERS.get(dialect, _ANY)
    if endpoint.is_media:
        answer = "*/*"
    elif not endpoint.generates:
        answer = _COUNTED
    query = ("model",) if endpoint.form is RequestForm.QUERY else ()
    request = _REQUESTS.get(dialect, _MODEL_ONLY)
    if endpoint.may_lack_model:
        request = {**request, "required": [name for name in request.get("required", ()) if name != "model"]}
    if path.endswith(("/count_tokens", "/input_tokens", "/compact")):
        request = {**request, "required": ["model"]}
    body = None if endpoint.form is RequestForm.QUERY else request
    kind = "multipart/form-data" if endpoint.form is RequestForm.MULTIPART else "application/json"
    found = _operation(
        path, f"Inference: {dialect.value}.", Scope.INFERENCE, answer, query, body, _ERROR_OF[dialect.spec.api], kind
    )
    if endpoint.streams:
        stream = "application/x-ndjson" if dialect.spec.nothing else _SSE
        found["responses"]["200"]["content"][stream] = {}
    return found


def _operated(operation: Operation) -> dict[str, Any]:
    body: Schema | None = None
    if operation.method == "POST":
        body = _object() if operation.body is None else _body(operation)
    return _operation(operation.path, operation.summary, operation.scope, _object(), operation.query, body)


def _body(operation: Operation) -> Schema:
    """Of the struct that reads it, the fields that count."""
    assert operation.body is not None
    _, known = msgspec.json.schema_components((operation.body,), ref_template="{name}")
    properties = known[operation.body.__name__]["properties"]
    return _object(operation.required, **{name: properties[name] for name in operation.fields})


def _operation(
    path: str,
    summary: str,
    scope: Scope,
    answer: Schema | str,
    query: tuple[str, ...] = (),
    body: Schema | None = None,
    errors: str = "Error",
    kind: str = "application/json",
) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in _PARAMETER.findall(path)
    ] + [{"name": name, "in": "query", "schema": _TEXT} for name in query]
    return {
        "summary": summary,
        "description": f"Needs a key of scope {scope.name.lower()}, where keys are needed.",
        **({"parameters": parameters} if parameters else {}),
        **({} if body is None else {"requestBody": {"content": {kind: {"schema": body}}}}),
        "responses": {
            "200": _response("The answer.", answer),
            "default": _response("An error.", {"$ref": f"#/components/schemas/{errors}"}),
        },
    }


def _response(words: str, answer: Schema | str) -> dict[str, Any]:
    content = {answer: {}} if isinstance(answer, str) else {"application/json": {"schema": answer}}
    return {"description": words, "content": content}

"""How each path is answered."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict

import orjson
from msgspec import to_builtins

from stoker.domain.dialect import ENDPOINTS
from stoker_lab.testing import reply_plan
from stoker_lab.testing.ballast import Ballast
from stoker_lab.testing.connection import ConnectionOwner, ServerConnection
from stoker_lab.testing.dialects.endpoint_writers import STREAMING_WRITERS, WRITERS
from stoker_lab.testing.dialects.rich import RICH
from stoker_lab.testing.dialects.rich_reply import make_rich_reply
from stoker_lab.testing.script import assistant
from stoker_lab.testing.script.ask import read_request, text_of
from stoker_lab.testing.script.record import RecordedRequest
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.strict import strictness
from stoker_lab.testing.surface import EngineSurface, SurfaceAnswer, metrics

_COUNTS = ("/v1/chat/completions/input_tokens", "/v1/responses/input_tokens")
_HEALTH = ("/health", "/v1/health")
_MAX_SHOWN = 1024 * 1024
_GREETING = b"scripted model server\n"


class ScriptedRoutes:
    """Answers every request of one server."""

    def __init__(self, owner: ConnectionOwner, now: Callable[[], float], ballast: Ballast) -> None:
        self._owner = owner
        self._surface = EngineSurface(ballast, self._abort)
        self._now = now
        self._number = 0
        self._refused = 0
        """How many requests got `error_status` since the script was last changed."""
        self._started = now()

    def answer(self, line: ServerConnection, request: RecordedRequest) -> None:
        """0. absent  1. control  2. health  3. still loading  4. no key  5. inference  6. the engine's own
        7. the rest or 404
        """
        path = request.path.partition("?")[0]
        if self._owner.script.absent and path in self._owner.script.absent.split(","):  # 0
            return _error(line, 404, f"{path} is absent", path)
        if path.startswith("/control"):  # 1
            return self._control(line, request, path)
        if path in _HEALTH:  # 2
            return self._health(line)
        script = self._owner.script
        self._owner.books.keep(request, script.record)
        if not self.is_ready():  # 3
            return _error(line, 503, "Loading model", path)
        if script.api_key is not None and not self._is_let_in(request, path):  # 4
            return _error(line, 401, "this server wants its API key, as Bearer token or x-api-key", path)
        if path in WRITERS and request.method == "POST":  # 5
            return self._infer(line, request, path)
        found = self._surface.answer(script, request, self._owner.books.counters)
        if found is not None:  # 6
            return _reply(line, found)
        return self._rest(line, request, path)  # 7

    def is_ready(self) -> bool:
        script = self._owner.script
        return not script.never_ready and self._now() - self._started >= script.ready_after

    def _is_let_in(self, request: RecordedRequest, path: str) -> bool:
        script = self._owner.script
        return self._surface.is_open(script, path) or _has_key(request, script.api_key or "")

    def _abort(self) -> None:
        """Aborts all requests, as the engines do: their streams end without a last event."""
        for line in list(self._owner.lines):
            line.give_up()

    def _health(self, line: ServerConnection) -> None:
        self._owner.books.counters.probes += 1
        if self.is_ready():
            line.reply(200, b'{"status":"ok"}')
        else:
            _error(line, 503, "Loading model", "/health")

    def _infer(self, line: ServerConnection, request: RecordedRequest, path: str) -> None:
        if (refusal := self._surface.refusal()) is not None:
            return _reply(line, refusal)
        writer, streaming = WRITERS[path], STREAMING_WRITERS.get(path)
        try:
            ask = read_request(ENDPOINTS[path].dialect, request.body)
            script = self._surface.spoken(self._owner.script.amended(ask.overrides()))
        except ValueError as error:
            return _error(line, 400, str(error), path)
        why = strictness.refusal(script, path, request, ask)
        if why is None and script.assistant:
            why = assistant.refusal(ask.document, script.context)
        if why is not None:
            return _error(line, 400, why, path)
        self._number += 1
        facts = reply_plan.reply_facts(script, ask, self._number, int(time.time()))
        headers = [("x-body-sha256", hashlib.sha256(request.body).hexdigest())] if script.hash_body else []
        if script.error_status is not None and (script.error_times is None or self._refused < script.error_times):
            self._refused += 1
            return line.play(reply_plan.error_reply(script, writer, headers), script)
        if (
            (script.answers or script.quirks or script.assistant)
            and path in RICH
            and (rich := make_rich_reply(script, ask, facts)) is not None
        ):
            writer = streaming = RICH[path](rich)
            facts = rich.facts
        counters = self._owner.books.counters
        counters.prompt_tokens += facts.prompt
        counters.generated_tokens += facts.completion
        if ask.stream and streaming is not None:
            return line.play(reply_plan.streamed_reply(script, streaming, ask, facts, headers), script)
        body = orjson.dumps(writer.whole(ask, facts))
        return line.play(reply_plan.whole_reply(script, 200, body, "application/json", headers), script)

    def _rest(self, line: ServerConnection, request: RecordedRequest, path: str) -> None:
        script = self._owner.script
        match (request.method, path):
            case ("GET", "/v1/models" | "/models"):
                line.reply(200, orjson.dumps(_models(script)))
            case ("GET", "/props") if script.engine == "llama.cpp" or not script.assistant:
                line.reply(200, orjson.dumps(_props(script)))
            case ("GET", "/metrics"):
                text = metrics(script, self._owner.books.counters)
                line.reply(200, text, "text/plain; version=0.0.4")
            case ("GET" | "HEAD", "/"):
                line.reply(200, _GREETING, "text/plain")
            case ("POST", "/tokenize"):
                self._count(line, request, path)
            case ("POST", _) if path in _COUNTS and script.engine == "llama.cpp":
                self._count(line, request, path)
            case _:
                _error(line, 404, f"{request.method} {path} is nothing that the scripted server knows", path)

    def _count(self, line: ServerConnection, request: RecordedRequest, path: str) -> None:
        try:
            ask = read_request(ENDPOINTS["/v1/chat/completions"].dialect, request.body)
        except ValueError as error:
            return _error(line, 400, str(error), path)
        if path == "/tokenize":
            tokens = list(range(len(text_of(ask.document.get("content")).split())))
            return line.reply(200, orjson.dumps({"tokens": tokens}))
        fixed = self._owner.script.prompt_tokens
        count = ask.words() if fixed is None else fixed
        return line.reply(200, orjson.dumps({"object": "response.input_tokens", "input_tokens": count}))

    def _control(self, line: ServerConnection, request: RecordedRequest, path: str) -> None:
        if path == "/control/requests":
            return line.reply(200, orjson.dumps([_shown(one) for one in self._owner.books.requests]))
        if request.method == "POST":
            try:
                changes = orjson.loads(request.body)
                if not isinstance(changes, dict):
                    raise ValueError('POST /control takes an object: {"field": value}')
                self._owner.amend(changes)
                self._refused = 0
            except ValueError as error:
                return _error(line, 400, str(error), path)
        script = asdict(self._owner.script)
        del script["api_key"]
        script["answers"] = to_builtins(script["answers"])
        return line.reply(200, orjson.dumps(self._owner.books.report() | {"script": script}))


def _error(line: ServerConnection, status: int, message: str, path: str) -> None:
    writer = WRITERS.get(path, WRITERS["/v1/chat/completions"])
    line.reply(status, orjson.dumps(writer.refuse(status, message)))


def _reply(line: ServerConnection, answer: SurfaceAnswer) -> None:
    status, document = answer
    line.reply(status, b"" if document is None else orjson.dumps(document))


def _has_key(request: RecordedRequest, key: str) -> bool:
    return request.header("authorization") == f"Bearer {key}" or request.header("x-api-key") == key


def _models(script: Script) -> dict[str, object]:
    model: dict[str, object] = {"id": script.shown_id or script.id, "object": "model", "created": 0}
    if script.engine == "llama.cpp":
        size = script.memory_mb * 2**20
        meta = {"n_ctx": script.context, "n_ctx_train": script.context, "n_params": 0, "size": size}
        model |= {"owned_by": "scripted", "meta": meta}
    else:
        model |= {"owned_by": script.engine, "max_model_len": script.context}
    return {"object": "list", "data": [model]}


def _props(script: Script) -> dict[str, object]:
    return {
        "default_generation_settings": {"n_ctx": script.context},
        "total_slots": script.slots,
        "model_path": script.shown_id or script.id,
        "chat_template": "",
        "build_info": "scripted",
        "is_sleeping": False,
    }


def _shown(request: RecordedRequest) -> dict[str, object]:
    """The recorded request as JSON, with its body if that is text of moderate size."""
    try:
        body = request.body.decode() if len(request.body) <= _MAX_SHOWN else None
    except UnicodeDecodeError:
        body = None
    return {
        "method": request.method,
        "path": request.path,
        "headers": request.headers,
        "length": len(request.body),
        "sha256": hashlib.sha256(request.body).hexdigest(),
        "body": body,
    }

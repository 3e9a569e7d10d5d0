"""What vLLM and SGLang answer besides inference: sleep and wake, metrics, and facts about themselves.

The imitation has the pitfalls of the originals: a vLLM that is woken from level 2 without a reload of its weights
generates gibberish; an SGLang that releases its memory while requests run fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import orjson

from stoker_lab.testing.ballast import Ballast
from stoker_lab.testing.script.ask import text_of
from stoker_lab.testing.script.record import RecordedRequest, RequestCounters
from stoker_lab.testing.script.script import Script

SurfaceAnswer = tuple[int, dict[str, Any] | None]
"""Status, and a JSON body or none."""
_TAGS = frozenset(("weights", "kv_cache"))
_BUSY = {"error": {"message": "the server is asleep", "code": 503}}


class EngineSurface:
    """One engine's state. `answer` returns None for paths that it lacks; `aborts` ends all requests in flight."""

    def __init__(self, ballast: Ballast, aborts: Callable[[], None]) -> None:
        self._ballast = ballast
        self._aborts = aborts
        self._asleep: frozenset[str] = frozenset()
        self._weights_are_right = True

    def is_open(self, script: Script, path: str) -> bool:
        """Whether a path needs no key: vLLM guards only /v1, SGLang everything except health and metrics."""
        if script.engine == "vllm":
            return not path.startswith("/v1")
        return script.engine == "sglang" and path in ("/health_generate", "/metrics")

    def refusal(self) -> SurfaceAnswer | None:
        """What inference gets instead of a reply, if anything."""
        return (503, _BUSY) if self._asleep else None

    def spoken(self, script: Script) -> Script:
        """The script, as far as the weights are what they should be."""
        return (
            script
            if self._weights_are_right
            else script.amended({"text": "\N{REPLACEMENT CHARACTER}", "answers": None})
        )

    def answer(self, script: Script, request: RecordedRequest, counters: RequestCounters) -> SurfaceAnswer | None:
        path, _, query = request.path.partition("?")
        if script.engine == "vllm":
            return self._vllm(script, f"{request.method} {path}", parse_qs(query), _document(request))
        if script.engine == "sglang":
            return self._sglang(script, f"{request.method} {path}", _document(request), counters)
        return None

    # -- vLLM ----------------------------------------------------------------------------------------------------

    def _vllm(
        self, script: Script, what: str, query: dict[str, list[str]], body: dict[str, Any]
    ) -> SurfaceAnswer | None:
        if (
            what in ("POST /sleep", "POST /wake_up", "POST /collective_rpc", "GET /is_sleeping")
            and not script.can_sleep
        ):
            return 404, {"detail": "Not Found"}
        match what:
            case "POST /sleep":
                self._aborts()  # the default mode
                self._fall_asleep(script, _TAGS, keeps_weights=query.get("level", ["1"])[-1] == "1")
                return 200, None
            case "POST /wake_up":
                self._wake(script, frozenset(query.get("tags", _TAGS)))
                return 200, None
            case "POST /collective_rpc":
                return self._call(script, body.get("method"))
            case "GET /is_sleeping":
                return 200, {"is_sleeping": bool(self._asleep)}
            case "POST /abort_requests":
                self._aborts()
                return 200, {"status": "ok"}
            case "POST /tokenize":
                return 200, _tokens(script, body)
            case "GET /version":
                return 200, {"version": "0.32.0"}
            case "GET /props":
                return 404, {"detail": "Not Found"}
        return None

    def _call(self, script: Script, method: object) -> SurfaceAnswer:
        if method != "reload_weights":
            return 400, {"error": f"no method {method!r}"}
        if "weights" in self._asleep:
            return 500, {"error": "the memory of the weights is not there: wake it first"}
        self._weights_are_right = script.wake_restores
        return 200, {"results": [None]}

    # -- SGLang --------------------------------------------------------------------------------------------------

    def _sglang(
        self, script: Script, what: str, body: dict[str, Any], counters: RequestCounters
    ) -> SurfaceAnswer | None:
        tags = frozenset(body.get("tags") or _TAGS)
        match what:
            case "POST /release_memory_occupation" | "POST /resume_memory_occupation" if not script.can_sleep:
                return 404, {"detail": "Not Found"}
            case "POST /release_memory_occupation":
                if counters.in_flight:
                    return 500, {"error": "release_memory_occupation should be called only when the server is idle"}
                self._fall_asleep(script, tags, keeps_weights=True)
                return 200, None
            case "POST /resume_memory_occupation":
                self._wake(script, tags)
                return 200, None
            case "POST /abort_request":
                self._aborts()
                return 200, None
            case "POST /flush_cache":
                return (400, {"error": "busy"}) if counters.in_flight else (200, None)
            case "POST /tokenize":
                return 200, _tokens(script, body)
            case "GET /health_generate":
                return 200, None
            case "GET /server_info" | "GET /get_server_info":
                return 200, {"served_model_name": script.id, "context_length": script.context, "version": "0.5.19"}
            case "GET /model_info" | "GET /get_model_info":
                return 200, {"model_path": script.id, "is_generation": True, "preferred_sampling_params": None}
            case "GET /props":
                return 404, {"detail": "Not Found"}
        return None

    # -- memory --------------------------------------------------------------------------------------------------

    def _fall_asleep(self, script: Script, tags: frozenset[str], *, keeps_weights: bool) -> None:
        self._asleep |= tags & _TAGS
        if "weights" in tags:
            self._weights_are_right = self._weights_are_right and keeps_weights
            if script.sleep_frees:
                self._ballast.drop()

    def _wake(self, script: Script, tags: frozenset[str]) -> None:
        if "weights" in tags & self._asleep:
            self._weights_are_right = self._weights_are_right and script.wake_restores
            if script.sleep_frees:
                self._ballast.hold(script.memory_mb)
        self._asleep -= tags


def metrics(script: Script, counters: RequestCounters) -> bytes:
    """The text of /metrics in the engine's own names."""
    hidden = set(filter(None, script.hide_metrics.split(",")))
    renamed = dict(pair.split("=", 1) for pair in script.rename_metrics.split(",") if "=" in pair)
    lines = []
    for sample, kind, value in _figures(script, counters):
        name = re.split(r"[{ ]", sample, maxsplit=1)[0]
        if name not in hidden:
            shown = renamed.get(name, name)
            lines.append(f"# TYPE {shown} {kind}\n{shown}{sample.removeprefix(name)} {value}\n")
    return "".join(lines).encode()


def _figures(script: Script, counters: RequestCounters) -> list[tuple[str, str, float]]:
    prompt, generated, running = counters.prompt_tokens, counters.generated_tokens, counters.in_flight
    if script.engine == "vllm":
        labels = f'engine="0",model_name="{script.id}"'
        waiting = "vllm:num_requests_waiting"
        return [
            (f"vllm:num_requests_running{{{labels}}}", "gauge", running),
            (f"{waiting}{{{labels}}}", "gauge", 0),
            (f'{waiting}_by_reason{{{labels},reason="capacity"}}', "gauge", 0),
            (f'{waiting}_by_reason{{{labels},reason="deferred"}}', "gauge", 0),
            (f"vllm:kv_cache_usage_perc{{{labels}}}", "gauge", min(1.0, running / max(1, script.slots))),
            (f"vllm:prompt_tokens_total{{{labels}}}", "counter", prompt),
            (f"vllm:generation_tokens_total{{{labels}}}", "counter", generated),
            (f"vllm:num_preemptions_total{{{labels}}}", "counter", 0),
            (f"vllm:prefix_cache_queries_total{{{labels}}}", "counter", prompt),
            (f"vllm:prefix_cache_hits_total{{{labels}}}", "counter", 0),
        ]
    if script.engine == "sglang":
        labels = f'engine_type="unified",model_name="{script.id}",tp_rank="0"'
        return [
            (f"sglang:num_running_reqs{{{labels}}}", "gauge", running),
            (f"sglang:num_queue_reqs{{{labels}}}", "gauge", 0),
            (f"sglang:token_usage{{{labels}}}", "gauge", min(1.0, running / max(1, script.slots))),
            (f"sglang:cache_hit_rate{{{labels}}}", "gauge", 0),
            (f'sglang:prompt_tokens_total{{model_name="{script.id}"}}', "counter", prompt),
            (f'sglang:generation_tokens_total{{model_name="{script.id}"}}', "counter", generated),
        ]
    return [
        ("llamacpp:requests_processing", "gauge", running),
        ("llamacpp:requests_deferred", "gauge", 0),
        ("llamacpp:prompt_tokens_total", "counter", prompt),
        ("llamacpp:tokens_predicted_total", "counter", generated),
    ]


def _document(request: RecordedRequest) -> dict[str, Any]:
    try:
        found = orjson.loads(request.body or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _tokens(script: Script, body: dict[str, Any]) -> dict[str, Any]:
    count = sum(len(text_of(body.get(name)).split()) for name in ("prompt", "messages", "tools"))
    return {"count": count, "max_model_len": script.context, "tokens": list(range(count))}

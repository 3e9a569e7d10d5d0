"""What a serve says about itself, asked once before the gates: nothing here is a verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from stoker.measure.gates.look import Look
from stoker.measure.talk import Talk

_RUNNING = re.compile(
    r"^(?:llamacpp:requests_processing|vllm:num_requests_running|sglang:num_running_reqs)(?:\{[^}]*\})? +([0-9.e+]+)",
    re.MULTILINE,
)

_HELLO = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 200}
_OFF = {"enable_thinking": False}


class Facts(msgspec.Struct):
    """None and empty: it does not say."""

    model: str
    """The id that is asked for."""
    health: int = 0
    """Status of GET /health."""
    listed: list[str] = []
    """Ids in /v1/models."""
    context: int | None = None
    """Tokens of one request, as it says."""
    expected: int | None = None
    """As the configuration says."""
    modalities: frozenset[str] = frozenset(("text",))
    thinks: bool = False
    """It was seen to, or its template has a switch for it."""
    switches: bool = False
    """Its template has a switch for thinking."""
    always_thinks: bool = False
    """Also when it was asked not to."""
    speaks_messages: bool = False
    engine: str = ""
    """Path before the engine's own pages: empty, or Stoker's `/upstream/NAME`."""
    props: Mapping[str, Any] = {}
    running: str = ""
    """Page that counts running requests: `/slots`, `/metrics`, `/status`; empty: there is none."""


async def find(look: Look, talk: Talk, expected: int | None = None) -> Facts:
    """Ask it. Nothing is raised for what is not there."""
    model = talk.target.served_name
    facts = Facts(model, expected=expected)
    facts.health = (await look.get("/health")).status or (await look.get("/healthz")).status
    entry = _listed(facts, (await look.get("/v1/models")).document)
    for prefix in ("", f"/upstream/{quote(model, safe='')}"):
        props = (await look.get(f"{prefix}/props")).document
        if isinstance(props, dict):
            facts.engine, facts.props = prefix, props
            break
    _read_context(facts, entry)
    if "stoker" in entry and facts.expected is None:  # there it is what the configuration says
        facts.expected = entry.get("context_length")
    _read_modalities(facts, entry)
    probe = await talk.ask(_HELLO)
    template = facts.props.get("chat_template")
    facts.switches = isinstance(template, str) and "enable_thinking" in template
    facts.thinks = bool(probe.thinking) or facts.switches
    if probe.thinking:
        facts.always_thinks = bool((await talk.ask({**_HELLO, "chat_template_kwargs": _OFF})).thinking)
    told = (await look.post("/v1/messages", {"model": model, "max_tokens": 1, "messages": [
        {"role": "user", "content": "hello"}]})).document  # fmt: skip
    facts.speaks_messages = isinstance(told, dict) and told.get("type") == "message"
    for page in (f"{facts.engine}/slots", f"{facts.engine}/metrics", "/metrics", "/status"):
        if await running(look, page) is not None:
            facts.running = page
            break
    return facts


async def running(look: Look, page: str) -> int | None:
    """Requests under way, as this page says; None: it does not."""
    found = await look.get(page)
    if page.endswith("/metrics"):
        counts = _RUNNING.findall(found.text)
        return sum(round(float(count)) for count in counts) if counts else None
    told = found.document
    if page.endswith("/slots") and isinstance(told, list):
        return sum(bool(slot.get("is_processing")) for slot in told if isinstance(slot, dict))
    if page == "/status" and isinstance(told, dict) and isinstance(told.get("serves"), list):
        return sum(int(serve.get("in_flight", 0)) for serve in told["serves"])
    return None


def _listed(facts: Facts, told: Any) -> Mapping[str, Any]:
    """Our entry in the list."""
    data = told.get("data") if isinstance(told, dict) else None
    entries = [entry for entry in data or [] if isinstance(entry, dict)]
    facts.listed = [str(entry.get("id")) for entry in entries]
    return next((entry for entry in entries if entry.get("id") == facts.model), {})


def _read_context(facts: Facts, entry: Mapping[str, Any]) -> None:
    meta = entry.get("meta") if isinstance(entry.get("meta"), dict) else {}
    settings = facts.props.get("default_generation_settings")
    places = (settings if isinstance(settings, dict) else {}, meta, entry)
    for place, key in zip((*places, entry), ("n_ctx", "n_ctx", "max_model_len", "context_length"), strict=True):
        value = place.get(key) if isinstance(place, Mapping) else None
        if isinstance(value, int) and value > 0:
            facts.context = value
            return


def _read_modalities(facts: Facts, entry: Mapping[str, Any]) -> None:
    own = facts.props.get("modalities")
    ours = entry.get("stoker")
    found = {"text"}
    if isinstance(own, dict) and own.get("vision"):
        found.add("image")
    if isinstance(ours, dict):
        found.update(str(one) for one in ours.get("modalities", ()))
    if "vision" in found:
        found.add("image")
    facts.modalities = frozenset(found)

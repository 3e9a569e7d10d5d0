"""What a serve says about itself, asked once before the checks: nothing here is judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from stoker_lab.preflight import wire_flaws
from stoker_lab.preflight.pages import PageClient
from stoker_lab.requests.client import ModelClient

_RUNNING = re.compile(
    r"^(?:llamacpp:requests_processing|vllm:num_requests_running|sglang:num_running_reqs)(?:\{[^}]*\})? +([0-9.e+]+)",
    re.MULTILINE,
)

_OWNERS = {"llamacpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang"}
"""`owned_by` in the list of models, and which engine says so."""
_HELLO = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 200}
_OFF = {"enable_thinking": False}
REFUSALS = (400, 404, 405, 415, 422, 501)
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_FEATURES: Mapping[str, Mapping[str, Any]] = {
    "tools": {
        "tools": [{"type": "function", "function": {"name": "say", "description": "Say it.", "parameters": _TEXT}}]
    },
    "json_schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "said", "schema": _TEXT}}},
}


class ServeFacts(msgspec.Struct):
    """None and empty: it does not say."""

    model: str
    """The id that is asked for."""
    health: int = 0
    """Status of GET /health."""
    listed: list[str] = []
    """Ids in /v1/models."""
    lists_models: bool = True
    """Whether the engine has a list of models, as far as the front door or the configuration says."""
    context: int | None = None
    """The context in tokens that the server reports."""
    configured_context: int | None = None
    """The context in tokens that the configuration promises."""
    modalities: frozenset[str] = frozenset(("text",))
    thinks: bool = False
    """Whether the model thinks: it did, or its template has a switch for thinking."""
    has_thinking_switch: bool = False
    always_thinks: bool = False
    """Whether the model thinks even when asked not to."""
    speaks_messages: bool = False
    engine: str = ""
    """Path before the engine's own pages: empty, or Stoker's `/upstream/NAME`."""
    engine_name: str = ""
    """`llama.cpp`, `vllm` or `sglang`; empty: it does not say."""
    makes_embeddings: bool = False
    refuses_chat: str = ""
    """Why it answers no chat, where it makes embeddings; empty: it does."""
    props: Mapping[str, Any] = {}
    refused_features: Mapping[str, str] = {}
    """Refused features (`tools`, `json_schema`) with the text of each refusal."""
    reports_modalities: bool = False
    """Whether the server reports if the model accepts pictures."""
    reported_models: list[str] = []
    """The model names in its answers."""
    aliases: frozenset[str] = frozenset()
    """Other names of the model, from the server's list and properties."""
    running_page: str = ""
    """Page that counts running requests: `/slots`, `/metrics`, `/status`; empty: there is none."""


async def find_facts(
    pages: PageClient, client: ModelClient, expected: int | None = None, lists_models: bool = True
) -> ServeFacts:
    """Ask it. Nothing is raised for what is not there."""
    model = client.target.served_name
    facts = ServeFacts(model, configured_context=expected)
    facts.health = (await pages.get("/health")).status or (await pages.get("/healthz")).status
    entry = _listed(facts, (await pages.get("/v1/models")).document)
    for prefix in ("", _upstream(model)):
        props = (await pages.get(f"{prefix}/props")).document
        if isinstance(props, dict) and props.get("role") != "router":  # a router's own say nothing of the model
            facts.engine, facts.props = prefix, props
            break
    ours = entry.get("stoker")
    facts.lists_models = lists_models and (not isinstance(ours, dict) or ours.get("identity") != "none")
    _read_context(facts, entry)
    if "stoker" in entry and facts.configured_context is None:  # there it is what the configuration says
        facts.configured_context = entry.get("context_length")
    _read_modalities(facts, entry)
    facts.engine_name = _engine_name(facts, entry)
    probe = await client.ask(_HELLO)
    facts.makes_embeddings = await _embeds(pages, model)
    if facts.makes_embeddings and probe.timing.status in REFUSALS:
        facts.refuses_chat = f"it makes embeddings only: {probe.timing.status} {probe.error_message[:120]}".strip()
    facts.reported_models = wire_flaws.named_models(probe)
    facts.aliases = _aliases(facts, entry)
    if "stoker" in entry:  # behind the front door a model has the name of its serve, and answers bear the engine's
        document = (await pages.get(f"{facts.engine or _upstream(model)}/v1/models")).document
        there = _ids(document)
        facts.engine_name = facts.engine_name or _engine_name(facts, _first(document))
        facts.aliases |= frozenset(there)
        facts.reported_models = facts.reported_models if there else []
    template = facts.props.get("chat_template")
    facts.has_thinking_switch = isinstance(template, str) and "enable_thinking" in template
    facts.thinks = bool(probe.thinking) or facts.has_thinking_switch
    if probe.thinking:
        facts.always_thinks = bool((await client.ask({**_HELLO, "chat_template_kwargs": _OFF})).thinking)
    facts.refused_features = await _refused(client) if probe.timing.is_ok else {}
    document = (await pages.post("/v1/messages", {"model": model, "max_tokens": 1, "messages": [
        {"role": "user", "content": "hello"}]})).document  # fmt: skip
    facts.speaks_messages = isinstance(document, dict) and document.get("type") == "message"
    for page in (f"{facts.engine}/slots", f"{facts.engine}/metrics", "/metrics", "/status"):
        if await running_requests(pages, page) is not None:
            facts.running_page = page
            break
    return facts


async def running_requests(pages: PageClient, page: str) -> int | None:
    """Requests under way, as this page says; None: it does not."""
    found = await pages.get(page)
    if page.endswith("/metrics"):
        counts = _RUNNING.findall(found.text)
        return sum(round(float(count)) for count in counts) if counts else None
    document = found.document
    if page.endswith("/slots") and isinstance(document, list):
        return sum(bool(slot.get("is_processing")) for slot in document if isinstance(slot, dict))
    if page == "/status" and isinstance(document, dict) and isinstance(document.get("serves"), list):
        return sum(int(serve.get("in_flight", 0)) for serve in document["serves"])
    return None


async def _refused(client: ModelClient) -> dict[str, str]:
    """What a plain request may not carry. An error of the server's own is no refusal: the checks will see it."""
    found = {}
    for name, fields in _FEATURES.items():
        reply = await client.ask({**_HELLO, "max_tokens": 1, **fields})
        if reply.timing.status in REFUSALS:
            found[name] = f"{reply.timing.status} {reply.error_message[:160]}".strip()
    return found


async def _embeds(pages: PageClient, model: str) -> bool:
    document = (await pages.post("/v1/embeddings", {"model": model, "input": "hello"})).document
    return isinstance(document, dict) and bool(_first(document).get("embedding"))


def _engine_name(facts: ServeFacts, entry: Mapping[str, Any]) -> str:
    if facts.props:
        return "llama.cpp"
    owner = entry.get("owned_by")
    return _OWNERS.get(owner, "") if isinstance(owner, str) else ""


def _first(document: Any) -> Mapping[str, Any]:
    data = document.get("data") if isinstance(document, dict) else None
    return next((entry for entry in data or [] if isinstance(entry, dict)), {})


def _upstream(model: str) -> str:
    return f"/upstream/{quote(model, safe='')}"


def _ids(document: Any) -> list[str]:
    data = document.get("data") if isinstance(document, dict) else None
    return [str(entry.get("id")) for entry in data or [] if isinstance(entry, dict)]


def _listed(facts: ServeFacts, document: Any) -> Mapping[str, Any]:
    data = document.get("data") if isinstance(document, dict) else None
    entries = [entry for entry in data or [] if isinstance(entry, dict)]
    facts.listed = _ids(document)
    return next((entry for entry in entries if entry.get("id") == facts.model), {})


def _aliases(facts: ServeFacts, entry: Mapping[str, Any]) -> frozenset[str]:
    names = [entry.get(name) for name in ("id", "root", "parent", "name", "model", "canonical_slug")]
    names += [facts.props.get(name) for name in ("model_path", "model_alias", "model")]
    more = entry.get("aliases")
    return frozenset(one for one in [facts.model, *names, *(more if isinstance(more, list) else [])]
                     if isinstance(one, str) and one)  # fmt: skip


def _read_context(facts: ServeFacts, entry: Mapping[str, Any]) -> None:
    meta = entry.get("meta") if isinstance(entry.get("meta"), dict) else {}
    settings = facts.props.get("default_generation_settings")
    places = (settings if isinstance(settings, dict) else {}, meta, entry)
    for place, key in zip((*places, entry), ("n_ctx", "n_ctx", "max_model_len", "context_length"), strict=True):
        value = place.get(key) if isinstance(place, Mapping) else None
        if isinstance(value, int) and value > 0:
            facts.context = value
            return


def _read_modalities(facts: ServeFacts, entry: Mapping[str, Any]) -> None:
    own = facts.props.get("modalities")
    ours = entry.get("stoker")
    found = {"text"}
    facts.reports_modalities = isinstance(own, dict) or (isinstance(ours, dict) and "modalities" in ours)
    if isinstance(own, dict) and own.get("vision"):
        found.add("image")
    if isinstance(ours, dict):
        found.update(str(one) for one in ours.get("modalities", ()))
    if "vision" in found:
        found.add("image")
    facts.modalities = frozenset(found)

"""One entry of LiteLLM's `model_list` as an external serve, and a row for each of its keys. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker_import.imported import KeyOutcome, KeyReport
from stoker_import.kinds import dialects_of_name
from stoker_import.litellm.providers import PROVIDERS, base_url, split_model
from stoker_import.owned_models import shown
from stoker_import.secret_words import SecretStore

_ENVIRONMENT = "os.environ/"
_NO_KEYS = ("", "none", "null", "empty", "dummy", "fake-key", "fake", "anything", "not-needed", "no-key", "sk-1234")
"""Placeholders for a key, written because LiteLLM wants one even if the server does not."""
_REQUEST = (
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty",
    "frequency_penalty", "reasoning_effort", "response_format", "n", "logit_bias",
)  # fmt: skip
_MODES = {
    "chat": (), "completion": ("completions",), "embedding": ("embeddings",), "rerank": ("rerank",),
    "responses": ("responses",), "image_generation": ("image",), "audio_transcription": ("transcription",),
    "audio_speech": ("speech",),
}  # fmt: skip
_DROPPED = {
    "rpm": "limits belong to keys: `requests_per_minute`",
    "tpm": "limits belong to keys: `tokens_per_minute`",
    "weight": "Stoker does not divide requests among servers of one model",
    "order": "the order of the file counts",
    "timeout": "`front_door.stall_timeout` ends a stream without data",
    "stream_timeout": "`front_door.stall_timeout` ends a stream without data",
    "max_retries": "a request is not repeated; `fallback` answers instead",
    "num_retries": "a request is not repeated; `fallback` answers instead",
    "drop_params": "`[serve.request] drop` removes fields that the server does not take",
    "additional_drop_params": "`[serve.request] drop` removes fields that the server does not take",
    "api_version": "an address that ends in /v1 has none",
    "organization": "Stoker sends no header for it",
    "extra_headers": "Stoker sends no further headers",
    "tags": "use keys with `models`",
}
_READ = ("model", "api_base", "base_url", "api_key", "custom_llm_provider", "input_cost_per_token",
         "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost")  # fmt: skip
MILLION = 1_000_000
CLOUD_REQUESTS = 64
"""Requests in flight at a cloud."""


@dataclass(slots=True)
class Deployment:
    """The result for one entry. `problem`: why it was not imported."""

    title: str
    keys: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, float] | None = None
    report: list[KeyReport] = field(default_factory=list)
    problem: str = ""


def is_variable(text: str) -> bool:
    """Whether LiteLLM reads this text from a variable of its environment."""
    return text.startswith(_ENVIRONMENT)


def from_variable(text: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """The text, or the value of the variable that it names; and why there is none."""
    if not is_variable(text):
        return text, ""
    name = text.removeprefix(_ENVIRONMENT)
    if name in variables:
        return variables[name], ""
    return text, f"the variable {name} is not set; set it as LiteLLM sees it: {name}=... stoker import litellm ..."


def read_deployment(
    title: str, entry: Mapping[str, Any], secrets: SecretStore, variables: Mapping[str, str]
) -> Deployment:
    """`title`: its `model_name`. `variables`: LiteLLM's environment. Secrets of the file go into `secrets`."""
    found = Deployment(title)
    params, info = _table(entry.get("litellm_params")), _table(entry.get("model_info"))
    for key in ("model", "api_base", "base_url"):
        if isinstance(params.get(key), str):
            params[key], problem = from_variable(params[key], variables)
            found.problem = found.problem or problem
    if found.problem:
        return found
    model = params.get("model")
    if not isinstance(model, str) or not model:
        found.problem = "it has no litellm_params.model"
        return found
    if "*" in title or "*" in model:
        found.problem = "a wildcard stands for models that Stoker cannot list: write an entry for each model in use"
        return found
    _address(found, model, params)
    if not found.problem:
        _key(found, split_model(model, params.get("custom_llm_provider"))[0], params.get("api_key"), secrets)
        _params(found, params)
        _info(found, info)
        _cost(found, {**info, **params})
    return found


def _table(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _row(found: Deployment, key: str, outcome: KeyOutcome, became: str = "", note: str = "") -> None:
    found.report.append(KeyReport(found.title, key, outcome, became, note))


def _address(found: Deployment, model: str, params: Mapping[str, Any]) -> None:
    given = params.get("api_base") or params.get("base_url")
    provider, name = split_model(model, params.get("custom_llm_provider"))
    if provider not in PROVIDERS:
        named = f"Stoker does not speak the API of {provider}" if provider else f"'{model}' names no provider"
        found.problem = f"{named}: keep LiteLLM for it, and add LiteLLM as a serve with its `base_url`"
        return
    url = base_url(provider, given if isinstance(given, str) else None)
    if url is None:
        ends = PROVIDERS[provider].ends
        found.problem = f"its address {given} does not end in {ends}, as that of an OpenAI-like API" if given else (
            f"{provider} needs an api_base{f' that ends in {ends}' if ends != '/v1' else ''}"
        )  # fmt: skip
        return
    known = PROVIDERS[provider]
    found.keys |= {"engine": "openai", "base_url": url, "served_name": name}
    is_own_address = bool(given) and url != known.base_url
    if dialects := dialects_of_name(name) or (() if is_own_address else known.dialects):
        found.keys["dialects"] = list(dialects)
    if url.startswith("https://"):
        # A cloud has no /health, and says itself when it has enough requests.
        found.keys |= {"health": "/v1/models", "parallel": CLOUD_REQUESTS, "max_active": CLOUD_REQUESTS}
    _row(found, "litellm_params.model", KeyOutcome.CARRIED, shown("served_name", name))
    _row(
        found, "litellm_params.api_base", KeyOutcome.CARRIED, shown("base_url", url), "" if given else f"of {provider}"
    )


def _key(found: Deployment, provider: str, given: Any, secrets: SecretStore) -> None:
    """1. a variable 2. no key 3. a literal, which goes to a file 4. the provider's own variable"""
    known = PROVIDERS[provider]
    if isinstance(given, str) and given.startswith(_ENVIRONMENT):
        source, note = secrets_reference(given, found.title, secrets), ""  # 1
    elif isinstance(given, str) and given.lower() in _NO_KEYS:
        _row(found, "litellm_params.api_key", KeyOutcome.CARRIED, note="no key is sent")  # 2
        return
    elif isinstance(given, str):
        source, note = secrets.reference(given, found.title), "the key moved to a file of its own"  # 3
    elif known.key_variable:
        source, note = f"env:{known.key_variable}", f"where LiteLLM looks for the key of {provider}"  # 4
    else:
        return
    found.keys["key"] = source
    _row(found, "litellm_params.api_key", KeyOutcome.CARRIED, shown("key", source), note)


def secrets_reference(given: str, name: str, secrets: SecretStore) -> str:
    """`env:X` for `os.environ/X`; a file if the configuration itself sets that variable."""
    variable = given.removeprefix(_ENVIRONMENT)
    if variable in secrets.variables:
        return f"file:{secrets.path_of(secrets.variables[variable], variable)}"
    return f"env:{variable}"


def _params(found: Deployment, params: Mapping[str, Any]) -> None:
    for key, value in params.items():
        name = f"litellm_params.{key}"
        if key in _READ:
            continue
        if key == "max_parallel_requests" and isinstance(value, int) and value > 0:
            found.keys |= {"parallel": value, "max_active": value}
            _row(found, name, KeyOutcome.CARRIED, shown("max_active", value))
        elif key in _REQUEST and value is not None:
            found.keys.setdefault("request", {}).setdefault("default", {})[key] = value
            _row(found, name, KeyOutcome.CARRIED, shown(f"request.default.{key}", value))
        elif key == "extra_body" and isinstance(value, dict) and value:
            found.keys.setdefault("request", {}).setdefault("default", {}).update(value)
            _row(found, name, KeyOutcome.CARRIED, shown("request.default", value))
        else:
            _row(found, name, KeyOutcome.DROPPED, note=_DROPPED.get(key, "Stoker has no such setting"))


def _info(found: Deployment, info: Mapping[str, Any]) -> None:
    for key, value in info.items():
        name = f"model_info.{key}"
        if key in _PRICES.values():
            continue
        if key == "mode" and value in _MODES:
            dialects = _MODES[value]
            if dialects:
                found.keys["dialects"] = list(dialects)
            elif found.keys.get("dialects") == list(dialects_of_name(found.keys["served_name"])):
                found.keys.pop("dialects")  # its name means another kind, and `mode` knows better
            _row(found, name, KeyOutcome.CARRIED, shown("dialects", list(dialects)) if dialects else "")
        elif key == "max_input_tokens" and isinstance(value, int) and value > 0:
            found.keys["context"] = value
            _row(found, name, KeyOutcome.CARRIED, shown("context", value))
        elif key == "supports_vision" and value is True:
            found.keys["modalities"] = ["text", "image"]
            _row(found, name, KeyOutcome.CARRIED, shown("modalities", ["text", "image"]))
        elif key == "description" and isinstance(value, str):
            found.keys["description"] = value
            _row(found, name, KeyOutcome.CARRIED, shown("description", value))
        else:
            _row(found, name, KeyOutcome.DROPPED, note="Stoker has no such setting")


_PRICES = {
    "input": "input_cost_per_token", "output": "output_cost_per_token",
    "cached_input": "cache_read_input_token_cost", "cache_write": "cache_creation_input_token_cost",
}  # fmt: skip
"""LiteLLM's names of the prices of a tier."""


def _cost(found: Deployment, given: Mapping[str, Any]) -> None:
    """LiteLLM counts per token, Stoker per million."""
    prices = {}
    for side, name in _PRICES.items():
        value = given.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            prices[side] = round(value * MILLION, 6)
    if prices:
        found.cost = {"input": 0.0, "output": 0.0} | prices
        became = f"cost = {{ {', '.join(f'{side} = {price:g}' for side, price in found.cost.items())} }}"
        _row(found, "cost_per_token", KeyOutcome.CARRIED, became, "per million tokens, as a [[tier]]")

"""What Ollama's clients ask about models: /api/tags, /api/show, /api/ps, /api/version. Pure.

Every field that Ollama itself writes is there, and none is null: the types of its clients in Go and JavaScript have
nothing optional. What is not known has a value that its comment gives the reason for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from stoker.request.codec.own_replies import rfc3339

SPEAKS = "0.13.5"
"""The version of Ollama whose API this is. Clients refuse servers below one that they know, so ours would not do."""
_UNKNOWN_TIME = "0001-01-01T00:00:00Z"  # the zero of Go's time, which Ollama writes itself where it does not know
_NEVER = "9999-12-31T23:59:59Z"  # `ollama ps` calls what is far off "Forever", and what is past "Stopping..."
_UNKNOWN_DIGEST = "0" * 64  # `ollama list` cuts 12 characters off, and crashes where there are fewer
_ARCHITECTURE = "unknown"  # clients look for the context under `ARCHITECTURE.context_length`: some name has to stand


PULLED = ({"status": "pulling manifest"}, {"status": "success"})
"""What /api/pull says of a model that is there already."""


class OllamaModel(TypedDict):
    """What is known of a model; None: not known."""

    name: str
    size: int | None
    """Bytes."""
    modified_at: float | None
    """Unix seconds."""
    digest: str | None
    """SHA-256 in hex, with or without `sha256:`."""
    context: int | None
    """Tokens."""
    family: str | None
    parameters: int | str | None
    """How many, or what to call it: `8.0B`."""
    quantization: str | None
    capabilities: list[str]
    """Ollama's words: completion, tools, insert, vision, embedding, thinking."""
    expires_at: float | None
    """Unix seconds; None: stays."""


def tags(models: Iterable[OllamaModel]) -> dict[str, Any]:
    """What could be asked."""
    return {"models": [_head(model) | {"modified_at": _modified(model)} for model in models]}


def ps(models: Iterable[OllamaModel]) -> dict[str, Any]:
    return {"models": [_head(model) | _loaded(model) for model in models]}


def show(model: OllamaModel) -> dict[str, Any]:
    """One model. `license`, `modelfile` and `template` are Ollama's own files, and empty."""
    context = model["context"]
    return {
        "license": "",
        "modelfile": "",
        "parameters": "" if context is None else f"num_ctx {context}",
        "template": "",
        "details": _details(model),
        "model_info": _info(model),
        "capabilities": model["capabilities"],
        "modified_at": _modified(model),
    }


def version() -> dict[str, Any]:
    return {"version": SPEAKS}


def _head(model: OllamaModel) -> dict[str, Any]:
    digest = (model["digest"] or _UNKNOWN_DIGEST).removeprefix("sha256:")
    size = model["size"] or 0  # a number to every client; Ollama writes 0 for models that it does not hold itself
    return {"name": model["name"], "model": model["name"], "size": size, "digest": digest, "details": _details(model)}


def _loaded(model: OllamaModel) -> dict[str, Any]:
    expires = model["expires_at"]
    return {
        "expires_at": _NEVER if expires is None else rfc3339(expires),
        "size_vram": model["size"] or 0,  # less than `size` would say that the rest is left to the CPU
        "context_length": model["context"] or 0,  # `ollama ps` prints it as a number
    }


def _details(model: OllamaModel) -> dict[str, Any]:
    """Texts, empty where nothing is known, as Ollama's own are."""
    family, parameters = model["family"] or "", model["parameters"]
    return {
        "parent_model": "",
        "format": "",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": _label(parameters) if isinstance(parameters, int) else parameters or "",
        "quantization_level": model["quantization"] or "",
    }


def _info(model: OllamaModel) -> dict[str, Any]:
    """The Python client takes no answer without it, if only an empty one."""
    architecture = model["family"] or _ARCHITECTURE
    info: dict[str, Any] = {"general.architecture": architecture}
    if isinstance(model["parameters"], int):
        info["general.parameter_count"] = model["parameters"]
    if model["context"] is not None:
        info[f"{architecture}.context_length"] = model["context"]
    return info


def _label(count: int) -> str:
    """A number of parameters as Ollama's `format.HumanNumber` writes it, without its smaller units."""
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.2f}M"


def _modified(model: OllamaModel) -> str:
    modified = model["modified_at"]
    return _UNKNOWN_TIME if modified is None else rfc3339(modified)

"""Checks the weights on disk, before a running model stops for them."""

from __future__ import annotations

import os

from stoker.domain.serve import Serve
from stoker.store.files.split_gguf import model_files

_MAGIC = b"GGUF"
_POINTER = b"version https://git-lfs"
_DESCRIPTIONS = ("config.json", "params.json")


def problems(serve: Serve) -> list[str]:
    """What is wrong with a GGUF model, its parts included: one sentence each. Reads 24 bytes of each file.

    A missing model with a `source` is not a problem here: it is fetched.
    """
    paths = [path for path in model_files(serve.model) if serve.source is None or os.path.exists(path)]  # else: fetched
    return [problem for path in paths if (problem := _problem(serve, path))]


def directory_problems(serve: Serve) -> list[str]:
    """What is wrong with a model for vLLM or SGLang: a directory in the hub's layout, a GGUF file, or a hub id."""
    path = serve.model
    if not os.path.isabs(path):  # a hub id: the engine fetches it
        return []
    if not os.path.exists(path):
        return [missing(serve, path)]
    if os.path.isfile(path):
        problem = _problem(serve, path)
        return [problem] if problem else []
    if not any(os.path.exists(os.path.join(path, name)) for name in _DESCRIPTIONS):
        return [
            f"the weights of serve '{serve.name}' in {path} have no config.json: take the directory that has one, or "
            "download it again"
        ]
    return []


def missing(serve: Serve, path: str) -> str:
    if os.path.islink(path):
        return (
            f"the weights of serve '{serve.name}' are a link, {path}, to {os.path.realpath(path)}, which does not "
            "exist: download them again, or correct `model`"
        )
    return f"the weights of serve '{serve.name}' were not found: {path}; put them there, or correct `model`"


def _problem(serve: Serve, path: str) -> str | None:
    whose = f"the weights of serve '{serve.name}'"
    if os.path.isdir(path):
        return f"{whose} are a directory: {path}; llama.cpp needs one GGUF file: name it in `model`"
    try:
        with open(path, "rb") as file:
            head = file.read(24)
    except FileNotFoundError:
        return missing(serve, path)
    except OSError as error:
        return f"{whose} cannot be read: {path} ({error.strerror}); run Stoker as a user who may"
    if head.startswith(_POINTER[: len(head)]) and head:
        return f"{path} is a git-lfs pointer, not the weights of serve '{serve.name}': fetch it with `git lfs pull`"
    if head[:4] != _MAGIC:
        return f"{path} is not a GGUF file (it begins with {head[:4]!r}): download it again, or correct `model`"
    return None

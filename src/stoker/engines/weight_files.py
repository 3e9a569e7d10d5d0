"""Checks the weights on disk, before a running model stops for them."""

from __future__ import annotations

import os

from stoker.domain.serve import SPECULATIVE_WORDS, Serve
from stoker.store.files.model_file import absence, problem_of
from stoker.store.files.split_gguf import model_files

_DESCRIPTIONS = ("config.json", "params.json")


def problems(serve: Serve) -> list[str]:
    """What is wrong with a GGUF model, its parts included: see `problem_of`. At most one sentence.

    A missing model with a `source` is not a problem here: it is fetched.
    """
    if serve.source is not None and not all(os.path.exists(path) for path in model_files(serve.model)):
        return []
    return _of_serve(serve, problem_of(serve.model))


def directory_problems(serve: Serve) -> list[str]:
    """What is wrong with a model for vLLM or SGLang: a directory in the hub's layout, a GGUF file, or a hub id."""
    path = serve.model
    if not os.path.isabs(path):  # a hub id: the engine fetches it
        return []
    if not os.path.isdir(path):
        return problems(serve)
    if not any(os.path.exists(os.path.join(path, name)) for name in _DESCRIPTIONS):
        return [
            f"the weights of serve '{serve.name}' in {path} have no config.json: take the directory that has one, or "
            "download it again"
        ]
    return []


def problems_beside(serve: Serve) -> list[str]:
    """What is wrong with what is loaded beside the model: draft model, projector, adapters. One sentence each."""
    tuning = serve.tuning
    draft = tuning.speculative if tuning.speculative not in SPECULATIVE_WORDS else None
    files = [("draft model", draft, True), ("projector", tuning.mmproj, False)]
    files += [("adapter", path, False) for path in tuning.adapters]
    found = []
    for what, path, is_model in files:
        if path is None or not os.path.isabs(path) or os.path.isdir(path):
            continue  # the hub's: the engine fetches it
        is_gguf = path.endswith(".gguf")
        if problem := problem_of(path, is_model) if is_gguf else absence(path):
            found.append(f"the {what} of serve '{serve.name}': {problem}")
    return found


def missing(serve: Serve) -> list[str]:
    """Whether there is anything at the path of the model, a file or a directory. One with a `source` is fetched."""
    return [] if serve.source is not None or os.path.isdir(serve.model) else _of_serve(serve, absence(serve.model))


def _of_serve(serve: Serve, problem: str) -> list[str]:
    return [f"the weights of serve '{serve.name}': {problem}"] if problem else []

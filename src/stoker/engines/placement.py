"""Where weights and caches may be: only under the vault root, if that rule is on."""

from __future__ import annotations

import os
from dataclasses import replace

from stoker.domain.serve import Driver, Serve
from stoker.engines.registry import ENGINES, engine_of

_FOLDER = ".cache"
_ELSEWHERE = (Driver.EXTERNAL, Driver.COMPOSE, Driver.RAY, Driver.BOX)
"""Drivers with a file system of their own, whose environment Stoker does not set."""


def caches(engine: str, vault: str, serve_name: str) -> dict[str, str]:
    """The variables that tell an engine and its kernels where to keep caches. Creates nothing."""
    root = os.path.join(vault, _FOLDER, serve_name)
    return {name: os.path.join(root, folder) if folder else root for name, folder in engine_of(engine).caches.items()}


def placed(serve: Serve, vault: str) -> Serve:
    """The serve with its caches under the vault. Its own `env` is kept; `placement_problems` checks that."""
    if serve.driver in _ELSEWHERE:
        return serve
    return replace(serve, env={**caches(serve.engine, vault, serve.name), **serve.env})


def placement_problems(serve: Serve, vault: str) -> list[str]:
    """One sentence for each path of the serve that lies outside the vault. Follows symlinks; a hub id is not a path.

    Reads the file system, for milliseconds. The paths need not exist.
    """
    if serve.driver in _ELSEWHERE:
        return []
    known = {name for engine in ENGINES.values() for name in engine.caches}
    paths = {"model": serve.model} | {f"env.{name}": path for name, path in serve.env.items() if name in known}
    root = os.path.realpath(vault)
    return [
        f"serve '{serve.name}': `{key}` is {path}{_really(path)}, outside the vault {vault}: move it there, "
        "or set `placement = false` in [paths]"
        for key, path in paths.items()
        if os.path.isabs(path) and not _is_under(os.path.realpath(path), root)
    ]


def _is_under(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _really(path: str) -> str:
    real = os.path.realpath(path)
    return "" if real == os.path.normpath(path) else f" (really {real})"

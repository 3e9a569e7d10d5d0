"""Attention backends: what each needs on this machine, and the first of a preference that has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from stoker.domain.serve import Serve
from stoker.engines.launch import find_command

# FlashInfer, and what is built on it, compiles kernels on first use; nvcc calls a C++ compiler.
_NEEDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("flashinfer", ("nvcc", "ninja", "c++")),
    ("trtllm", ("nvcc", "ninja", "c++")),
)
"""Beginning of a backend's name in lower case, and the commands that it needs."""
_CUDA = "/usr/local/cuda"
_ALSO_COMPILERS = ("g++", "clang++")
"""Other names of `c++`; the variable CXX may have another one."""


def needs(backend: str) -> tuple[str, ...]:
    """The commands that a backend needs; none for backends that are not in the table."""
    return next((commands for start, commands in _NEEDS if backend.lower().startswith(start)), ())


def choose(preference: Sequence[str], has: Callable[[str], bool]) -> str | None:
    """The first backend whose commands exist; None if there is none, or no preference. Pure except for `has`."""
    return next((backend for backend in preference if all(has(command) for command in needs(backend))), None)


def chosen(serve: Serve) -> str | None:
    """As `choose`, for a serve on this machine."""
    return choose(serve.tuning.attention_backend, lambda command: _has(serve, command))


def problems(serve: Serve) -> list[str]:
    """One sentence if no preferred backend can run here."""
    preference = serve.tuning.attention_backend
    if not preference or chosen(serve) is not None:
        return []
    missing = dict.fromkeys(command for backend in preference for command in needs(backend) if not _has(serve, command))
    return [
        f"serve '{serve.name}': no attention backend of {', '.join(preference)} can run here; missing: "
        f"{' and '.join(f'`{command}`' for command in missing)}: install the CUDA toolkit, ninja and a C++ compiler "
        "(`sudo apt install ninja-build g++`), or add another to `attention_backend`"
    ]


def _has(serve: Serve, command: str) -> bool:
    """On PATH, or, for CUDA's compiler, where CUDA is usually installed: FlashInfer also searches there."""
    if find_command(serve, command) is not None:
        return True
    if command == "c++":
        named = serve.env.get("CXX") or os.environ.get("CXX", "")
        return any(find_command(serve, name) is not None for name in (*named.split()[:1], *_ALSO_COMPILERS))
    home = serve.env.get("CUDA_HOME") or os.environ.get("CUDA_HOME") or _CUDA
    return command == "nvcc" and find_command(serve, os.path.join(home, "bin", command)) is not None

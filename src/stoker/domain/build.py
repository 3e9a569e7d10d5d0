"""Which build of Stoker runs: plain Python, or with the hot path compiled (`scripts/compiling`)."""

from __future__ import annotations

from stoker import __version__


def describe_version() -> str:
    """`0.1.0`, or `0.1.0 (compiled)`."""
    return f"{__version__} (compiled)" if IS_COMPILED else __version__


IS_COMPILED = not hasattr(describe_version, "__code__")
"""This module is one of those that are compiled, and what a compiler made has no byte code."""

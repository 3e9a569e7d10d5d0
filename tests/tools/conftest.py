"""Configurations are read as the core's tests read them."""

from __future__ import annotations

from tests.config.conftest import loaded, problems

__all__ = ["loaded", "problems"]

"""What a serve of an engine can do, for tests of translation."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.dialect import Dialect
from stoker.engines.registry import engine_of
from stoker.request.translate.neutral import capabilities
from stoker.request.translate.neutral.capabilities import Capabilities


def capabilities_of(
    engine: str, dialect: Dialect, cloud: bool, given: Mapping[str, object] | None = None, model: str = ""
) -> Capabilities:
    return capabilities.capabilities_of(engine_of(engine).traits, dialect, cloud, given, model)

"""A table that an extension reads is a warning where the extension is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.program import settings_in

from stoker.config import warnings
from stoker.domain.orchestrator import Orchestrator
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import Tier
from stoker.extensions import Extension, InstalledExtension


def test_the_extension_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router, pair = RouterSettings((Tier("cheap", "fast"),)), Orchestrator(name="pair", worker="fast")
    settings = settings_in(tmp_path, router=router, orchestrators=(pair,))
    torn = InstalledExtension("orchestrator", "stoker 1.0", None, "ImportError: jedi")
    auto = InstalledExtension("auto", "stoker 1.0", Extension("Routes."), "")

    def missing(*installed: InstalledExtension) -> list[str]:
        monkeypatch.setattr(warnings, "installed_extensions", lambda: installed)
        return [text.split(",")[0] for text in warnings.warnings(settings) if "is not installed" in text]

    both = ["[[tier]]: needs the extension auto", "[orchestrator.NAME]: needs the extension orchestrator"]
    assert missing() == both
    assert missing(auto, torn) == both[1:]
    assert missing(auto, torn._replace(extension=Extension("Writes."))) == []

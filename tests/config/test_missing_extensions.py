"""A table that an extension reads is a warning where the extension is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.program import settings_in

from stoker import extensions
from stoker.cli.console.unmeasured import unmeasured_warnings
from stoker.config import warnings
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import Tier
from stoker.extensions import Extension, InstalledExtension


def test_the_extension_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router = RouterSettings((Tier("cheap", "fast"),))
    settings = settings_in(tmp_path, router=router, unread={"orchestrator": {"pair": {"worker": "fast"}}})
    torn = InstalledExtension("orchestrator", "stoker 1.0", None, "ImportError: jedi")
    auto = InstalledExtension("auto", "stoker 1.0", Extension("Routes."), "")

    def missing(*installed: InstalledExtension) -> list[str]:
        monkeypatch.setattr(extensions, "installed_extensions", lambda: installed)
        return [text.partition(": it ")[2] for text in warnings.warnings(settings) if "needs the extension" in text]

    lists = "`stoker --version -v` lists those that are"
    both = [f"needs the extension {name}, which is not installed: {lists}" for name in ("auto", "orchestrator")]
    assert missing() == both
    reason = "which cannot be used (ImportError: jedi): see `stoker --version -v`"
    assert missing(auto, torn) == [f"needs the extension orchestrator, {reason}"]


def test_nobody_is_told_to_measure_tiers_that_have_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_in(tmp_path, router=RouterSettings((Tier("cheap", "fast"),)))
    for installed, warned in ((InstalledExtension("auto", "stoker 1.0", Extension("Routes."), ""),), 1), ((), 0):
        monkeypatch.setattr(extensions, "installed_extensions", lambda installed=installed: installed)
        assert len(unmeasured_warnings(settings)) == warned

"""What follows from the configuration alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.app.program import SERVES, settings_in

from stoker.app.configuration import (
    ActiveConfiguration,
    first_configuration,
    names_of,
    next_configuration,
    placed_serves,
)
from stoker.domain.access import WarmPool
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Serve, Slot
from stoker.domain.tier import Tier


def test_serves_get_the_devices_of_their_slot(tmp_path: Path) -> None:
    settings = replace(settings_in(tmp_path), slots=(Slot("gpu", devices=("1",)),), serves=(*SERVES, Serve("free")))
    assert ["1" in one.env.values() for one in placed_serves(settings)] == [True, True, False]


def test_a_cloud_that_is_not_allowed_has_no_name(tmp_path: Path) -> None:
    tiers = (Tier("cheap", "fast"), Tier("cloud", "clever", cloud=True))
    for allow_cloud, expected in ((True, {"fast", "cheap", "clever", "cloud"}), (False, {"fast", "cheap"})):
        settings = replace(settings_in(tmp_path), router=RouterSettings(tiers, allow_cloud=allow_cloud))
        names = names_of(settings, settings.serves)
        assert {name for name, _ in names.listed(lambda serve: True)} == expected


def test_the_budget_of_the_warm_pool_is_read_again_only_if_it_was_changed(tmp_path: Path) -> None:
    first = replace(first_configuration(settings_in(tmp_path, warm=WarmPool(memory=None))), warm_budget=7)
    assert next_configuration(first, first.settings).warm_budget == 7
    assert next_configuration(first, replace(first.settings, warm=WarmPool(memory=9))).warm_budget == 9


def test_slots_are_those_in_effect(tmp_path: Path) -> None:
    active = ActiveConfiguration(first_configuration(settings_in(tmp_path)))
    assert (active.slot("gpu"), active.slot(None), active.slot("new")) == (Slot("gpu"), None, None)
    active.replace(replace(active.current, settings=replace(active.settings, slots=(Slot("new"),))))
    assert (active.slot("gpu"), active.slot("new")) == (None, Slot("new"))

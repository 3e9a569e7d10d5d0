"""The classes that the core calls measurable."""

from __future__ import annotations

from stoker.domain.task import WITH_FIXTURES
from stoker_lab.suites.fixture import shipped_fixtures


def test_the_classes_that_can_be_measured_are_those_whose_fixtures_ship() -> None:
    assert {one.task_class for one in shipped_fixtures()} == WITH_FIXTURES

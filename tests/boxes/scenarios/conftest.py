"""What every file of scenarios shares."""

from __future__ import annotations

from tests.scenarios.conftest import plane as plane

"""The fixtures of the fleet's tests, which those of engines use too."""

from __future__ import annotations

from tests.fleet.conftest import tell as tell

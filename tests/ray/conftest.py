"""The fixtures of the fleet's tests, which those of Ray's driver use too."""

from __future__ import annotations

from tests.fleet.conftest import tell as tell

"""The home directory of the command line's tests, which these use too."""

from __future__ import annotations

from tests.cli.conftest import home as home

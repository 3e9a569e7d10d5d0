"""The home directory, configuration and Stoker of the command line's tests, which these use too."""

from __future__ import annotations

from tests.cli.conftest import config as config
from tests.cli.conftest import home as home
from tests.cli.conftest import port as port
from tests.cli.conftest import stoker as stoker
from tests.fleet.weights.conftest import vault as vault

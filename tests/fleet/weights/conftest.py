from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.weights.vault import Vault


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path)

"""Real coding agents, each against a scripted serve of another dialect: `python -m bench.agents` runs them all.

STOKER_AGENTS=DIR names where they are installed besides PATH; what is not there is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.agents import clients, session
from bench.agents.serves import KINDS
from bench.agents.table import CLIENTS

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(180)]
WHERE = Path(os.environ["STOKER_AGENTS"]) if os.environ.get("STOKER_AGENTS") else None
ROWS = [
    pytest.param(client, serve, id=f"{client.name}-{serve}", marks=[pytest.mark.llama] * (serve == "llama.cpp"))
    for client in CLIENTS
    for serve in client.serves
]


@pytest.mark.parametrize(("client", "serve"), ROWS)
def test_an_agent_edits_a_file_and_runs_a_tool(client: clients.Client, serve: str, tmp_path: Path) -> None:
    path = clients.search_path(WHERE)
    command = clients.find(client, path)
    if command is None:
        pytest.skip(f"{client.program} is not installed ({client.install}); STOKER_AGENTS=DIR says where clients are")
    outcome = session.run(client, command, path, KINDS[serve], tmp_path / "session")
    assert outcome.problems == [], outcome.said

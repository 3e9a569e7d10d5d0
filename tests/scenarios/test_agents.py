"""Real coding agents, each against scripted serves of every dialect: `python -m bench.agents` runs the sessions.

STOKER_AGENTS=DIR names where they are installed besides PATH; without it they are installed into `build/agents`. What
cannot be installed is skipped with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from bench.agents import clients, compaction, install, overflow, searching, session
from bench.agents.clients import Setup
from bench.agents.search_site import BLOCKED, BROKEN, HANGING, excerpt
from bench.agents.serves import KINDS
from bench.agents.session_paths import SessionPaths
from bench.agents.table import CLIENTS
from bench.agents.task import ASKED, FILE
from bench.up import program

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]
WHERE = Path(os.environ.get("STOKER_AGENTS") or Path(__file__).resolve().parents[2] / "build" / "agents")
ROWS = [
    pytest.param(client, serve, id=f"{client.name}-{serve}", marks=[pytest.mark.llama] * (serve == "llama.cpp"))
    for client in CLIENTS
    for serve in client.serves
]
RECOGNISED = {
    "claude": "Prompt is too long",
    "codex": "ran out of room in the model's context window",
    "copilot": "The provider rejected the prompt as too long",
    "cline": "Reduce attached content or switch to a model with a larger context window",
    "pi": "",
}
"""What a client prints if it knows that the context is full, by program; others print what the front door says. Empty:
it prints nothing of use.
"""
FRONT_DOOR = ("exceeds the context window", "prompt is too long", "token limit")
OVERFLOWS = [
    pytest.param(client, serve, id=f"{client.name}-{serve}")
    for client in CLIENTS
    for serve in overflow.REFUSALS
    if serve in client.serves
]

LAUNCHED = {
    "claude-code": ("-p", ASKED, "--allowedTools", "Read,Edit,Bash"),
    "codex": ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", ASKED),
    "opencode": ("run", ASKED),
    "aider": (
        *("--edit-format", "diff", "--auto-test", "--test-cmd", "python3 -B check.py", "--message", ASKED),
        *("--yes-always", "--no-git", "--no-pretty", "--no-check-update", "--analytics-disable", "--map-tokens", "0"),
        *("--no-show-model-warnings", "--no-suggest-shell-commands", "--no-detect-urls", "--no-auto-lint", FILE),
    ),
    "qwen-code": ("--yolo", ASKED),
    "pi": ("--offline", "-p", ASKED),
    "copilot": ("-p", ASKED, "--allow-all-tools", "--allow-all-paths", "--no-auto-update"),
    "gptme": ("--non-interactive", "--no-stream", "--tools", "read,patch,shell", ASKED),
}
"""What a person writes behind `stoker launch AGENT --`."""
OWN = {
    "codex": (".codex/config.toml", 'model = "gpt-9"\n'),
    "qwen-code": (".qwen/settings.json", '{\n  "model": {\n    "name": "other"\n  },\n  "$version": 4\n}'),
    "pi": (".pi/agent/models.json", '{"providers": {}}'),
}
"""A file of the person's own that the agent reads too."""

COMPACTING = next(client for client in CLIENTS if client.name == "codex")

Installed = Callable[[clients.Client], Path]


@pytest.fixture(scope="session")
def installed() -> Installed:
    """The command of a client, which is installed at its first use."""
    problem_of = cache(lambda client: install.install(client, WHERE))

    def command(client: clients.Client) -> Path:
        problem = problem_of(client)
        if problem is not None:
            pytest.skip(problem)
        found = clients.find(client, clients.search_path(WHERE))
        assert found is not None
        return found

    return command


@pytest.mark.parametrize(("client", "serve"), ROWS)
def test_an_agent_edits_a_file_and_runs_a_tool(
    client: clients.Client, serve: str, installed: Installed, tmp_path: Path
) -> None:
    command = installed(client)
    outcome = session.run(client, command, clients.search_path(WHERE), KINDS[serve], tmp_path / "session")
    assert outcome.problems == [], outcome.said


@pytest.mark.parametrize("serve", ["local", "messages"])
def test_claude_code_goes_on_after_an_engine_that_failed_twice(
    serve: str, installed: Installed, tmp_path: Path
) -> None:
    (client,) = clients.named(CLIENTS, ["claude-code"])
    command = installed(client)
    where = clients.search_path(WHERE)
    outcome = session.run(client, command, where, KINDS[serve], tmp_path / "session", failures=2)
    assert outcome.problems == [], outcome.said


@pytest.mark.parametrize("name", LAUNCHED)
def test_an_agent_is_launched_with_nothing_of_its_own_changed(name: str, installed: Installed, tmp_path: Path) -> None:
    (client,) = clients.named(CLIENTS, [name])
    installed(client)
    stoker = program()
    assert stoker is not None
    own: dict[Path, str] = {}

    def setup(paths: SessionPaths) -> Setup:
        config = str(paths.folder / "plane" / "stoker.toml")
        variables = {"STOKER_BENCH_KEY": paths.key, "OPENCODE_PERMISSION": '{"*": "allow"}'}
        own.update({paths.home / file: text for file, text in [OWN[name]]} if name in OWN else {})
        words = ("launch", name, "--config", config, "--anyway", "--", *LAUNCHED[name])
        return Setup(words, variables, own)

    launched = client._replace(setup=setup)
    outcome = session.run(launched, Path(stoker), clients.search_path(WHERE), KINDS["chat"], tmp_path / "session")
    assert outcome.problems == [], outcome.said
    assert {file: file.read_text() for file in own} == own


@pytest.mark.parametrize(("client", "serve"), OVERFLOWS)
def test_an_agent_says_that_the_prompt_is_too_long(
    client: clients.Client, serve: str, installed: Installed, tmp_path: Path
) -> None:
    command = installed(client)
    outcome = overflow.run(client, command, clients.search_path(WHERE), KINDS[serve], tmp_path / "session")
    assert outcome.exit_code is not None, "it gave up by itself"
    assert outcome.requests > 0
    words = (RECOGNISED[client.program],) if client.program in RECOGNISED else FRONT_DOOR
    said = " ".join(outcome.said.split())  # some wrap their lines
    assert any(word in said for word in words), said[-2000:]


@pytest.mark.parametrize("serve", ["chat", "messages", "responses", "local"])
def test_codex_needs_nothing_but_the_address_through_two_compactions(
    serve: str, installed: Installed, tmp_path: Path
) -> None:
    found = compaction.run(installed(COMPACTING), clients.search_path(WHERE), KINDS[serve], tmp_path / "session")
    assert found.exit_code == 0, found.said
    assert compaction.FINAL in found.said
    assert not any(words in found.said for words in compaction.TRANSPORT_TROUBLE), found.said
    assert all((step.outcome, step.status) == ("served", 200) for step in found.steps), found.steps
    assert found.summaries == [False, False, True, True, True], "a call, a summary, a call, a summary, the end"


@pytest.mark.parametrize("serve", ["chat", "messages"])
def test_claude_codes_web_search_is_run_by_stoker(serve: str, installed: Installed, tmp_path: Path) -> None:
    command = installed(clients.named(CLIENTS, ["claude-code"])[0])
    kind = KINDS[serve]
    found = searching.run_claude_code(command, clients.search_path(WHERE), kind, tmp_path / "session")
    assert (found.exit_code, searching.FINAL in found.said) == (0, True), found.said
    assert found.queries == [searching.FIRST, f"{searching.SECOND} -site:{BLOCKED}", BROKEN]
    assert {step.status for step in found.steps} == {200}
    assert sum("tools:web" in step.translation for step in found.steps) == 3
    *_, plain, blocked, failed = searching.results_shown(found.documents[-1], kind.dialect)
    assert "Links: [" in plain
    assert BLOCKED in plain
    assert "330 m" in plain
    assert BLOCKED not in blocked
    assert "634 m" in blocked
    assert "Web search error: unavailable" in failed


@pytest.mark.parametrize("serve", ["chat", "responses"])
def test_codex_shows_a_live_search_and_the_model_still_knows_its_results_in_the_next_turn(
    serve: str, installed: Installed, tmp_path: Path
) -> None:
    command = installed(clients.named(CLIENTS, ["codex"])[0])
    kind = KINDS[serve]
    found = searching.run_codex(command, clients.search_path(WHERE), kind, tmp_path / "session")
    assert found.exit_code == 0, found.said
    assert searching.FINAL in found.said
    assert searching.FINAL_AGAIN in found.said
    assert found.queries == [searching.FIRST, BROKEN]
    assert found.said.count('"type":"web_search"') == 4, "each is shown when it begins and when it ends"
    assert "unsupported call" not in found.said
    assert [(step.outcome, step.status) for step in found.steps] == [("served", 200)] * 2
    worked, failed = searching.results_shown(found.documents[-1], kind.dialect)
    assert excerpt(searching.FIRST) in worked
    assert failed.startswith("Error unavailable")


@pytest.mark.parametrize(("name", "serve"), [("claude-code", "chat"), ("codex", "responses")])
def test_an_agent_that_is_interrupted_ends_the_search(
    name: str, serve: str, installed: Installed, tmp_path: Path
) -> None:
    command = installed(clients.named(CLIENTS, [name])[0])
    found = searching.run_cancelled(name, command, clients.search_path(WHERE), KINDS[serve], tmp_path / "session")
    assert found.queries == [HANGING]
    assert found.was_left
    assert found.steps[-1].outcome == "client_left"

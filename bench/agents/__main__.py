"""`python -m bench.agents [--client NAME] [--serve KIND] [--where DIR [--install]] [--failures N] [--keep] [--json]`"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.agents import clients, report, session
from bench.agents.clients import Client
from bench.agents.install import install_all
from bench.agents.serves import KINDS
from bench.agents.session import Outcome
from bench.agents.table import CLIENTS
from bench.processes import end_on_sigterm


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.agents",
        description="Real coding agents through the front door: a file edited, a tool run, checked at both ends.",
        epilog="1 if a session failed, or if nothing is installed.",
    )
    names = ", ".join(client.name for client in CLIENTS)
    parser.add_argument("--client", action="append", default=[], metavar="NAME", help=f"one of {names}; default: all")
    parser.add_argument("--serve", action="append", default=[], choices=list(KINDS), help="default: all of a client's")
    parser.add_argument(
        "--quirks", default="", metavar="NAMES", help="habits of the scripted serves: docs/reference/testing-kit.md"
    )
    parser.add_argument(
        "--failures", type=int, default=0, metavar="N", help="the scripted serve answers N requests with 500 first"
    )
    where = os.environ.get("STOKER_AGENTS")
    parser.add_argument(
        "--where", type=Path, metavar="DIR", default=Path(where) if where else None,
        help="where clients are installed, besides PATH: DIR/*/bin, DIR/*/node_modules/.bin; default: $STOKER_AGENTS",
    )  # fmt: skip
    parser.add_argument("--install", action="store_true", help="first install into --where what is not there yet")
    parser.add_argument("--keep", action="store_true", help="keep the sessions' folders, and say where they are")
    parser.add_argument("--transcripts", type=Path, metavar="DIR", help="write CLIENT-SERVE.md and .json there")
    parser.add_argument("--json", action="store_true", help="the outcomes as JSON")
    return parser.parse_args(argv)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _write_transcript(outcome: Outcome, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{outcome.client}-{outcome.serve}"
    (folder / f"{name}.md").write_text(report.transcript(outcome))
    (folder / f"{name}.json").write_text(json.dumps(outcome.documents, indent=1, ensure_ascii=False))


def run_all(
    chosen: Sequence[Client],
    kinds: Sequence[str],
    where: Path | None,
    folder: Path,
    quirks: str = "",
    failures: int = 0,
) -> tuple[list[Outcome], list[Client]]:
    """Every session, and the clients that are not installed. Each has a folder `CLIENT-SERVE` in `folder`."""
    path = clients.search_path(where)
    outcomes: list[Outcome] = []
    missing: list[Client] = []
    for client in chosen:
        command = clients.find(client, path)
        if command is None:
            missing.append(client)
            continue
        for name in [one for one in client.serves if not kinds or one in kinds]:
            outcome = session.run(
                client, command, path, KINDS[name], folder / f"{client.name}-{name}", quirks, failures
            )
            outcomes.append(outcome)
            _say(f"{client.name} -> {name}: {'; '.join(outcome.problems) or 'complete'}")
    return outcomes, missing


def main(argv: Sequence[str] | None = None) -> int:
    found = _arguments(argv)
    end_on_sigterm()
    try:
        chosen = clients.named(CLIENTS, found.client)
    except ValueError as error:
        _say(str(error))
        return 2
    if found.install:
        if found.where is None:
            _say("--install needs --where DIR, or STOKER_AGENTS=DIR in the environment")
            return 2
        install_all(chosen, found.where, _say)
    folder = Path(tempfile.mkdtemp(prefix="agents-"))
    try:
        outcomes, missing = run_all(chosen, found.serve, found.where, folder, found.quirks, found.failures)
    finally:
        if found.keep:
            _say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)  # a client's last breath may still write into its home
    if found.transcripts is not None:
        for outcome in outcomes:
            _write_transcript(outcome, found.transcripts)
    if found.json:
        print(json.dumps({"outcomes": [report.document(one) for one in outcomes],
                          "missing": [one.name for one in missing]}, indent=1))  # fmt: skip
    else:
        print(f"{report.headline()}\n\n{report.table(outcomes, missing)}")
    return 0 if outcomes and not any(one.problems for one in outcomes) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""`python -m bench.conformance [--suites DIR] [--json FILE]`: public suites against this Stoker, in one table.

DIR (or $STOKER_SUITES) holds clones of the suites; `bench/conformance.md` names them. What is not there, or
cannot run here, is skipped, and the table says why. Exits 1 if a test failed that `EXPECTED` does not name.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.conformance.suites import MODEL, SUITES, Skipped, Suite, Verdict, find, version
from bench.figures import table

EXPECTED: dict[str, str] = {}
"""Why a test may fail, by a word of its name."""
_CONFIG = """
[front_door]
port = {port}
[paths]
state = "state"
[responses]
store = true
max_bytes = "64MiB"
[tools.gitmcp]
kind = "mcp"
command = ["{python}", "-m", "bench.conformance.mcp_server"]
allow = ["*"]
[tools.gitmcp.env]
PYTHONPATH = "{root}"
[[serve]]
name = "{name}"
aliases = ["*"]
engine = "openai"
cmd = ["{python}", "-m", "bench.conformance.model", "--port", "{{port}}"]
health = "/health"
dialects = ["chat"]
context = 32768
modalities = ["text", "image"]
[serve.env]
PYTHONPATH = "{root}"
[serve.translation]
image_urls = true
thinking_switch = "template"
"""
_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suites", type=Path, default=os.environ.get("STOKER_SUITES"), metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts")
    given = parser.parse_args(argv)
    rows, verdicts, unexpected = [], {}, 0
    for suite in SUITES:
        try:
            if given.suites is None:
                raise Skipped("no folder of suites: --suites or $STOKER_SUITES")
            clone = find(Path(given.suites), suite)
            verdict = _judge(suite, clone.resolve())
        except Skipped as why:
            rows.append((suite.name, "-", "skipped", str(why)))
            continue
        rows.append((suite.name, version(clone), f"{verdict.passed} of {verdict.total}", ""))
        verdicts[suite.name] = {"version": version(clone), **verdict._asdict()}
        for miss in verdict.misses:
            reason = next((text for word, text in EXPECTED.items() if word in miss), None)
            unexpected += reason is None
            rows.append(("", "", "", f"{miss.partition(':')[0]}: {reason}" if reason else f"FAILED {miss}"))
    print(table(("suite", "version", "passed", "what did not pass"), rows))
    if given.json is not None:
        given.json.write_text(json.dumps(verdicts, indent=2) + "\n")
    return 1 if unexpected else 0


def _judge(suite: Suite, clone: Path) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="conf-") as name:
        work = Path(name)
        with _stoker(work, suite.port or _free_port()) as url:
            return suite.run(clone, url, work)


@contextmanager
def _stoker(work: Path, port: int) -> Iterator[str]:
    """A Stoker on this port, in front of the model that does what it is told. Raises Skipped if the port is taken."""
    if _listens(port):
        raise Skipped(f"port {port}, which the suite wants, is in use")
    (work / "stoker.toml").write_text(_CONFIG.format(port=port, name=MODEL, python=sys.executable, root=_ROOT))
    with (work / "out.txt").open("w") as out:
        process = subprocess.Popen(
            (str(Path(sys.executable).with_name("stoker")), "up", "--config", str(work / "stoker.toml")),
            stdout=out,
            stderr=out,
            cwd=work,
        )
    try:
        until = time.monotonic() + _PATIENCE
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > until:
                raise Skipped(f"Stoker did not start: {(work / 'out.txt').read_text()[-300:]}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench.gpu prepare|run|page`: see bench/gpu.md.

Imports only the standard library until the carried wheels are installed: the machine may have nothing else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from bench.gpu import prepare

ROOT = prepare.ROOT
PAGE = ROOT / "bench" / "gpu.md"
MEASURED = Path(__file__).with_name("measured.json")
"""What the page was written of; not there until a machine with a GPU was at hand."""
MINUTES = 9.0
"""From the first process until all of it is over: where a command may take ten, the rest ends what still runs."""
_BEGAN = "STOKER_BENCH_GPU_BEGAN"
_INSTALLED = "STOKER_BENCH_GPU_INSTALLED"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description="Proves and measures Stoker on a GPU.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare", help="with a network: llama.cpp's source and wheels into build/gpu/parts")
    run = verbs.add_parser("run", help="on the machine with the GPU: all steps, each with its bound")
    run.add_argument("--rehearse", action="store_true", help="with small models: a check of the bench, not figures")
    run.add_argument("--only", action="append", default=[], metavar="STEP", help="one step; may be repeated")
    run.add_argument("--minutes", type=float, default=MINUTES, help=f"for all of it: default {MINUTES:g}")
    run.add_argument("--folder", type=Path, help="where it works; room for the models: default build/gpu/PLAN")
    run.add_argument(
        "--out", type=Path, help="where gpu.json, gpu.md and logs.txt are written after each step: default FOLDER"
    )
    page = verbs.add_parser("page", help="writes bench/gpu.md of what a run measured")
    page.add_argument("--from", dest="source", type=Path, metavar="FILE", help="gpu.json of a run; it is kept")
    step = verbs.add_parser("step", help="one step in this process; `run` calls it")
    step.add_argument("name")
    step.add_argument("--plan", required=True)
    step.add_argument("--folder", type=Path, required=True)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    given = _arguments(argv)
    if given.verb == "prepare":
        try:
            prepare.prepare(prepare.PARTS, print)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            print(f"failed: {error}", file=sys.stderr)
            return 1
        return 0
    if given.verb == "run":
        at = began()
        install(sys.argv[1:] if argv is None else argv, at)
        return _run(given, at)
    if given.verb == "page":
        return _page(given.source)
    return _step(given)


def wanted(wheels: Path, installed: Sequence[str]) -> list[Path]:
    """The wheels of distributions that are not installed."""
    names = {name.lower().replace("-", "_") for name in installed}
    return [path for path in sorted(wheels.glob("*.whl")) if path.name.partition("-")[0].lower() not in names]


def began() -> float:
    """When this run began, on `time.monotonic`; before `install`, if that has begun the program again."""
    return float(os.environ.pop(_BEGAN, time.monotonic()))


def install(argv: Sequence[str], at: float) -> None:
    """Makes Stoker importable and callable, in folders of `build/gpu`; then this program begins again, with the time at
    which it began. Nothing happens where a `stoker` command is.
    """
    parts = prepare.PARTS
    has_command = Path(sys.executable).with_name("stoker").exists() or shutil.which("stoker") is not None
    if has_command or _INSTALLED in os.environ:
        return
    site, tools = prepare.WORK / "site", prepare.WORK / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    missing = wanted(parts / prepare.WHEELS, [one.name for one in metadata.distributions()])
    if missing and not site.exists():
        words = ("install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--target", str(site))
        subprocess.run([sys.executable, "-m", "pip", *words, *map(str, missing)], check=True, timeout=120)
    command = tools / "stoker"
    entry = "from stoker.cli.entry import main; main()"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{entry}' \"$@\"\n")
    command.chmod(0o755)
    path = ":".join([str(site), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"PYTHONPATH": path, "PATH": f"{tools}:{os.environ['PATH']}", _INSTALLED: "1", _BEGAN: repr(at)}
    environment = {**os.environ, **own}
    os.execve(sys.executable, [sys.executable, "-m", "bench.gpu", *argv], environment)


def _run(given: argparse.Namespace, at: float) -> int:
    """0: every step ended in its time; what was skipped or failed is in the table."""
    import msgspec

    from bench.gpu import plan, table
    from bench.gpu.rows import Outcome, RowFile
    from bench.gpu.runner import Runner, logs
    from bench.processes import end_on_sigterm

    chosen = plan.REHEARSAL if given.rehearse else plan.FULL
    names = [step.name for step in (*plan.STEPS, plan.BUILD)]
    if unknown := [name for name in given.only if name not in names]:
        print(f"no such step: {', '.join(unknown)}; they are {', '.join(names)}", file=sys.stderr)
        return 2
    folder = (given.folder or prepare.WORK / chosen.name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    rows = RowFile(folder / "rows.jsonl")
    if not given.only:
        rows.path.unlink(missing_ok=True)
    end_on_sigterm()
    out = (given.out or folder).absolute()
    out.mkdir(parents=True, exist_ok=True)

    def keep() -> None:
        machine = msgspec.json.decode((folder / "machine.json").read_bytes())
        document = {"plan": chosen.name, "machine": machine, "rows": rows.read()}
        (out / "gpu.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))
        (out / "gpu.md").write_text(table.page(chosen, rows.read(), machine))
        (out / "logs.txt").write_text(logs(folder))

    try:
        Runner(chosen, folder, at + 60 * given.minutes, keep).run(given.only)
    finally:
        keep()
        print((out / "gpu.md").read_text())
    return 1 if any(row.outcome is Outcome.FAILED for row in rows.read()) else 0


def _page(source: Path | None) -> int:
    if source is not None:
        shutil.copyfile(source, MEASURED)
    PAGE.write_text(page())
    return 0


def page() -> str:
    """What bench/gpu.md has to say."""
    import msgspec

    from bench.gpu import plan, table
    from bench.gpu.rows import Row

    if not MEASURED.exists():
        return table.page(plan.FULL, [], None)
    document = msgspec.json.decode(MEASURED.read_bytes())
    rows = msgspec.convert(document["rows"], list[Row])
    return table.page(plan.PLANS[document["plan"]], rows, document["machine"])


def _step(given: argparse.Namespace) -> int:
    from importlib.util import find_spec

    from bench.gpu import plan
    from bench.gpu.runner import do
    from bench.gpu.stage import Stage
    from bench.processes import end_on_sigterm

    end_on_sigterm()
    do(Stage(plan.PLANS[given.plan], given.folder, given.name, find_spec("torch") is not None))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

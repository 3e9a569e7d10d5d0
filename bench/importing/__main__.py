"""llama-swap and Stoker on the same files: `python -m bench.importing --llama-swap PATH [FILE...] [--json FILE]`.

Each file is run by llama-swap and, once imported, by Stoker, both with a stand-in engine that writes down how it was
started. Every model, alias and variant is asked for once. The table says per file what differs: program, arguments,
environment, bodies, and which models stay loaded together; a difference that the import's report names does not count.
Nothing depends on it: llama-swap has to be built first, outside this repository.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import stoker
from bench.figures import table
from bench.importing.compare import differences, loaded_differences, unnamed
from bench.importing.sides import (
    Side,
    import_file,
    imported_kinds,
    imported_names,
    imported_serves,
    run_llama_swap,
    run_stoker,
    variables_of,
)

FILES = Path("tests/importing/llama_swap_files")
MODELS = Path(stoker.__file__).with_name("models")
KEY = "a-key-for-both-sides"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.importing", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help=f"default: {FILES}/*.yaml")
    parser.add_argument("--llama-swap", type=Path, required=True, metavar="PATH", help="the built program")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    files = [file.resolve() for file in options.files or sorted(FILES.glob("*.yaml"))]
    rows, found = [], {}
    for file in files:
        with tempfile.TemporaryDirectory() as directory:
            wrong, added, asked = compare_file(options.llama_swap.resolve(), file, Path(directory))
        found[file.name] = {"differences": wrong, "added": added, "asked": asked}
        rows.append((file.name, str(asked), str(len(wrong)), ", ".join(added)))
        for one in wrong:
            print(f"{file.name}: {one}")
    print(table(("file", "names asked", "differences", "arguments that Stoker adds"), rows))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    return 1 if any(one["differences"] for one in found.values()) else 0


def compare_file(binary: Path, file: Path, folder: Path) -> tuple[list[str], list[str], int]:
    """What differs, what Stoker adds, and how many names were asked for."""
    cwd = folder / "cwd"
    (cwd / "models").mkdir(parents=True)
    shutil.copy(next(MODELS.glob("*.gguf")), cwd / "models" / "exact.gguf")
    problem, report = import_file(file, folder / "stoker", cwd)
    names = [] if problem else imported_names(folder / "stoker")
    kinds = {} if problem else imported_kinds(folder / "stoker")
    theirs = run_llama_swap(binary, file, folder / "llama-swap", names, kinds, KEY, cwd)
    asked = list(dict.fromkeys([*names, *theirs.starts, *theirs.refusals]))
    ours = Side(problem) if problem else run_stoker(file, folder / "stoker", asked, kinds, KEY)
    wrong, added = differences(theirs, ours, variables_of(file.read_text()))
    if not problem:
        wrong += loaded_differences(theirs, ours, imported_serves(folder / "stoker"))
    return unnamed(wrong, report.get("report", ())), added, len(asked)


if __name__ == "__main__":
    raise SystemExit(main())

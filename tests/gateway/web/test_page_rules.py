"""Rules of the web page that need no browser: its pure modules, run by the Node.js that Playwright brings along."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from playwright._impl._driver import compute_driver_executable

import stoker.gateway.web.files
from stoker.domain import figures

STATIC = Path(stoker.gateway.web.files.__file__).with_name("static")


def told(module: str, expression: str, *given: Any) -> Any:
    """What `expression` makes of `given`, with the exports of a module of the page as `it`."""
    program = f"""
import * as it from {json.dumps((STATIC / module).as_uri())};
const given = {json.dumps(given)};
console.log(JSON.stringify(await ({expression})(...given)));
"""
    command = [compute_driver_executable()[0], "--no-warnings", "--input-type=module"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SIZES = [0, 1, 1023, 1024, 1536, 2**20 - 1, 2**20, 99.94 * 2**20, 99.96 * 2**20, 100 * 2**20, 1000 * 2**20, 2**30,
         79.65 * 2**30, 2**40, 250 * 2**40]  # fmt: skip


def test_a_size_reads_the_same_on_the_page_and_on_the_command_line() -> None:
    sizes = [int(size) for size in SIZES]
    assert told("format.js", "(all) => all.map(it.bytes)", sizes) == [figures.size(size) for size in sizes]

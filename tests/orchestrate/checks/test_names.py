"""The names layer: what does not exist is found with its line and its correction; what is not sure passes."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stoker.orchestrate.checks.names import Asked, NameChecker
from stoker.orchestrate.loop.blocks import LayerResult, WorkerBlock


def block(text: str, path: str = "", language: str = "python") -> WorkerBlock:
    return WorkerBlock(text, True, language, path)


def names_of(
    text: str, committed: Sequence[WorkerBlock] = (), *, project: str = "", task: str = "", language: str = "python"
) -> LayerResult:
    return asyncio.run(
        NameChecker(sys.executable, project, Asked(task)).check(block(text, language=language), committed)
    )


PLANTED = [
    ("import os\n\n\ndef f(a):\n    return os.path.joinn(a, 'b')\n", 5, "use `os.path.join`"),
    ("import typer\n\n\ndef f():\n    return typer.prompts('x')\n", 5, "use `typer.prompt`"),
    ("from packaging.version import Versions\n", 1, "use `packaging.version.Version`"),
    ("from math import squareroot\n", 1, "use `math.sqrt`"),
    ("import json\nx = json.parse('')\n", 2, "`json` has "),
    ("from datetime import datetime\nx = datetime.nowutc()\n", 2, "`datetime.datetime.nowutc` does not exist"),
    ("import os.paths\n", 1, "`os.paths` does not exist"),
    ("from collections import OrderDict\n", 1, "use `collections.OrderedDict`"),
    ("import concurrent.futures\nx = concurrent.futures.ThreadPool()\n", 2, "ThreadPoolExecutor"),
    ("import jsonn\n", 1, "use `json`"),
    ("import asyncio\nasyncio.runn()\n", 2, "use `asyncio.run`"),
    (
        "from pathlib import Path\n\n\ndef f():\n    p = Path('x')\n    return p.exist()\n",
        6,
        "use `pathlib.Path.exists`",
    ),
    ("x = [1]\nx.push(2)\n", 2, "`list.push` does not exist"),
    ("'abc'.contains('b')\n", 1, "`str.contains` does not exist"),
    ("import queue\nq = queue.Queue()\nq.push(1)\n", 3, "`queue.Queue.push` does not exist"),
    ("class A:\n    def go(self):\n        pass\n\n\na = A()\na.went()\n", 7, "`A` has `go`"),
    ("class A:\n    def validate(self):\n        return self.validat()\n", 3, "use `A.validate`"),
]


@pytest.mark.parametrize(("text", "line", "correction"), PLANTED)
def test_a_name_that_does_not_exist_fails_with_line_and_correction(text: str, line: int, correction: str) -> None:
    result = names_of(text)
    assert not result.passed
    assert result.reason.startswith(f"line {line}: ")
    assert correction in result.correction


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import tomlib\nexcept ImportError:\n    tomlib = None\n",
        "import sys\nif sys.platform == 'win32':\n    import nothing_like_this\n",
        "import os\nx = getattr(os, 'joinn', None)\n",
        "import os\nif hasattr(os, 'startfiles'):\n    os.startfiles('x')\n",
        "from os.path import *\nimport os\nos.joinn()\n",
        "import signal\nsignal.CTRL_C_EVENT\n",
        "import os\nos = object()\nos.joinn()\n",
        "import os\n\n\ndef f(os):\n    return os.joinn()\n",
        "import os\nos.joinn = 1\nos.joinn\n",
        "from .later import anything\n",
        "def f(x):\n    return x.anything()\n",
        "class A(Unknown):\n    def f(self):\n        return self.anything()\n",
        "class A:\n    def __getattr__(self, name):\n        return 1\n\n\nA().anything\n",
        "class M:\n    def f(self):\n        return self.given_by_the_subclass\n",
        "import winreg\nwinreg.OpenKey\n",
        "import _multiprocessing\n_multiprocessing.closesockets(1)\n",
        "import xml.dom.minidom\nxml.dom.minidom.parseString('')\n",
        "x = [1]\nif x:\n    x = object()\nx.push(1)\n",
        "not python (",
        "import curses\ncurses.ACS_VLINE\ncurses.COLORS\n",
        "import codecs\ncodecs.mbcs_encode('')\n",
    ],
)
def test_what_is_not_proved_wrong_passes(text: str) -> None:
    assert names_of(text).passed, names_of(text).reason


def test_committed_blocks_of_the_answer_and_files_of_the_project_exist(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "cart.py").write_text("raise SystemExit('project code must not run')\ndef total(): ...\n")
    committed = [block("def helper():\n    return 1\n", "tools.py")]
    text = "from shop.cart import total\nfrom tools import helper\n"
    assert names_of(text, committed, project=str(tmp_path)).passed
    assert not names_of(text, committed).passed
    wrong = names_of("from shop.cart import totals\n", project=str(tmp_path))
    assert "use `shop.cart.total`" in wrong.correction
    wrong = names_of("import tools\ntools.helpr()\n", committed)
    assert "line 2: " in wrong.reason
    assert "use `tools.helper`" in wrong.correction


@pytest.mark.parametrize(
    "source",
    [
        "def __getattr__(name):\n    return 1\n",
        "__getattr__ = make()\n",
        "from maker import __getattr__\n",
        "from _curses import *\n",
        "from an_extension_that_is_not_here import *\n",
        "for name in 'ab':\n    globals()[name] = 1\n",
        "import sys\n\n\ndef fill():\n    setattr(sys.modules[__name__], 'a', 1)\n",
        "import sys\nvars(sys.modules[__name__]).update(a=1)\n",
        "exec('made = 1')\n",
        "def fill():\n    global made\n    made = 1\n",
    ],
)
def test_a_module_that_makes_its_names_at_run_time_has_any_name(tmp_path: Path, source: str) -> None:
    (tmp_path / "maker.py").write_text("")
    (tmp_path / "making.py").write_text(source)
    assert names_of("import making\nmaking.made\n", project=str(tmp_path)).passed
    (tmp_path / "making.py").write_text("plain = 1\n")
    assert not names_of("import making\nmaking.made\n", project=str(tmp_path)).passed


@pytest.mark.parametrize("path", ["json.py", "ast.py", "stoker/__init__.py"])
@pytest.mark.parametrize("text", ["import os\nos.getpidd()\n", "'a'.uper()\n"])
def test_a_file_of_the_answer_that_is_named_like_a_module_is_not_run(tmp_path: Path, path: str, text: str) -> None:
    ran = tmp_path / "ran"
    assert not names_of(text, [block(f"open({str(ran)!r}, 'w')\n", path)]).passed
    assert not ran.exists()


def test_the_lines_count_from_the_block_and_its_imports_may_be_committed() -> None:
    committed = [block("import os\n\n\nclass A:\n    def total(self):\n        return 1\n")]
    assert names_of("def f():\n    return os.path.joinn('a')\n", committed).reason.startswith("line 2: ")
    assert names_of("a = A()\na.totals()\n", committed).reason.startswith("line 2: ")


def test_without_an_interpreter_a_package_that_is_not_here_is_taken_to_exist() -> None:
    checker = NameChecker("", "", Asked())
    assert asyncio.run(checker.check(block("import our_billing\nour_billing.anything()\n"), ())).passed
    assert not asyncio.run(checker.check(block("import os.pathh\n"), ())).passed


def test_a_module_that_the_task_names_is_taken_to_exist() -> None:
    text = "import our_billing\nour_billing.anything()\n"
    assert not names_of(text).passed
    assert names_of(text, task="Use our_billing to charge the customer.").passed


def test_another_interpreter_decides(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {os.path.realpath("/usr/bin/env")} python3 -S "$@"\n')
    python.chmod(0o700)
    other = NameChecker(str(python), "", Asked())
    assert not asyncio.run(other.check(block("import msgspec\n"), ())).passed
    assert names_of("import msgspec\n").passed


def test_packages_of_javascript_are_looked_up_in_node_modules(tmp_path: Path) -> None:
    text = "import fs from 'fs';\nimport { a } from './a.js';\nimport express from 'expres';\n"
    assert names_of(text, project=str(tmp_path), language="javascript").passed
    (tmp_path / "node_modules" / "express").mkdir(parents=True)
    result = names_of(text, project=str(tmp_path), language="javascript")
    assert result.reason == "line 3: there is no module `expres` here"
    assert "use `express`" in result.correction
    assert names_of(text.replace("expres'", "express/lib'"), project=str(tmp_path), language="ts").passed
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": {"paths": {"*": ["x/*"]}}}))
    assert names_of(text, project=str(tmp_path), language="ts").passed


def test_a_cancelled_check_ends_its_process(tmp_path: Path) -> None:
    async def story() -> None:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
        python.chmod(0o700)
        check = asyncio.get_running_loop().create_task(
            NameChecker(str(python), "", Asked()).check(block("import os\n"), ())
        )
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            await asyncio.sleep(0.01)
        check.cancel()
        with pytest.raises(asyncio.CancelledError):
            await check
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)

    asyncio.run(story())


def blocks_of(path: Path) -> Iterator[WorkerBlock]:
    """A source, cut as a worker writes it: one function or class at a time."""
    text = path.read_text()
    lines, start, current = text.splitlines(keepends=True), 0, ""
    for node in ast.parse(text).body:
        assert node.end_lineno is not None
        current += "".join(lines[start : node.end_lineno])
        start = node.end_lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield block(current, "its.py")
            current = ""
    if current:
        yield block(current, "its.py")


ROOT = Path(__file__).parents[3]
STANDARD = Path(os.__file__).parent
OWN = [ROOT / "src/stoker" / name for name in ("domain/nearest.py", "store/files/atomic.py", "orchestrate/runner.py")]
OF_PYTHON = [STANDARD / name for name in ("textwrap.py", "json/decoder.py", "queue.py")]


@pytest.mark.parametrize("path", [*OWN, *OF_PYTHON], ids=lambda path: path.name)
def test_no_false_alarm_on_sources_cut_into_blocks(path: Path) -> None:
    checker = NameChecker("", str(ROOT), Asked())

    async def story() -> None:
        committed: list[WorkerBlock] = []
        for one in blocks_of(path):
            result = await checker.check(one, committed)
            assert result.passed, f"{path}: {result.reason}"
            committed.append(one)

    asyncio.run(story())


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_no_false_alarm_on_all_sources() -> None:
    """`java` and `pynvml` are not installed here; two modules of Python for Windows only run there."""
    checker = NameChecker("", str(ROOT), Asked("java pynvml", is_new=True))
    paths = [*(ROOT / "src").rglob("*.py"), *STANDARD.glob("*.py"), *STANDARD.glob("[a-hj-su-z]*/*.py")]
    skipped = ("site-packages", "idlelib", "lib2to3", "/test", "windows_", "distutils", "/lib-")

    async def story() -> list[str]:
        at_once = asyncio.Semaphore(2)

        async def reason(path: Path) -> str:
            async with at_once:
                result = await checker.check(block(path.read_text("utf-8", "replace")), ())
                return "" if result.passed else f"{path}: {result.reason}"

        reasons = await asyncio.gather(*(reason(one) for one in paths if not any(word in str(one) for word in skipped)))
        return [one for one in reasons if one]

    assert asyncio.run(story()) == []

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

from stoker_orchestrator.checks.call_keywords import unknown_keywords
from stoker_orchestrator.checks.methods_program import MethodFinder
from stoker_orchestrator.checks.name_uses import name_uses
from stoker_orchestrator.checks.names import Asked, MissingName, NameChecker, missing_attribute, worded
from stoker_orchestrator.checks.names_probe import Interpreter, judge
from stoker_orchestrator.checks.undefined import undefined_names
from stoker_orchestrator.loop.blocks import END_OF_ANSWER, LayerResult, WorkerBlock


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


def proved_wrong(text: str) -> MissingName | None:
    """What the layer finds, without its processes: they take longer than all else."""
    tree = ast.parse(text)
    for call in unknown_keywords(tree):
        return MissingName(call.line, call.function, call.function, call.keyword, tuple(call.known), True)
    probe = Interpreter([])
    for use in name_uses(tree):
        answer = judge(probe, {"module": use.module, "names": use.names, "keywords": use.keywords})
        if answer is not None and answer["module"]:
            known, is_keyword = tuple(answer["known"]), bool(answer.get("is_keyword"))
            return MissingName(use.line, use.shown, answer["module"], answer["missing"], known, is_keyword)
    order = {"source": text, "first": 0, "python": sys.executable, "roots": ["/nowhere"]}
    found = MethodFinder(order).find()
    return None if found is None else missing_attribute(found, 0)


LIST, DICT = "def f(items: list[str]):\n", "def f(prices: dict[str, int]):\n"
CART = "class Cart:\n    def total(self, tax=0.0):\n        return tax\n\n\n"
ITEM = "from dataclasses import dataclass\n\n\n@dataclass\nclass Item:\n    name: str\n    price: int\n\n\n"
SPLIT = "def f(text: str):\n    parts = text.split(',')\n"


@pytest.mark.parametrize(
    ("text", "line", "correction"),
    [
        (LIST + "    items.push('a')\n", 2, "`list` has "),
        (DICT + "    return prices.has_key('a')\n", 2, "`dict` has `keys`"),
        ("def f(text: str | None):\n    return text.contains('a')\n", 2, "`str.contains` does not exist"),
        ("from pathlib import Path\n\n\ndef f(path: Path):\n    return path.exist()\n", 5, "use `pathlib.Path.exists`"),
        (CART + "def f(cart: Cart):\n    return cart.totl()\n", 7, "use `Cart.total`"),
        ("def f():\n    found: list[str] = []\n    found.add('a')\n", 3, "`list` has `append`"),
        (
            "class A:\n    def __init__(self):\n        self.a = []\n\n    def f(self):\n        self.a.push(1)\n",
            6,
            "list",
        ),
        (SPLIT + "    parts.push('end')\n", 3, "`list` has "),
        ("def g() -> list[int]:\n    return [1]\n\n\ndef f():\n    g().push(2)\n", 6, "`list` has "),
        ("FOUND = []\n\n\ndef f():\n    FOUND.push(1)\n", 5, "`list` has "),
        ("x = sorted([1], reversed=True)\n", 1, "use `reverse`"),
        ("import textwrap\ntextwrap.indent('a', '  ', predicat=None)\n", 2, "use `predicate`"),
        ("from shutil import copytree\ncopytree('a', 'b', exists_ok=True)\n", 2, "it takes `dirs_exist_ok`"),
        ("'a b'.split(seperator=' ')\n", 1, "use `sep`"),
        (LIST + "    items.sort(revers=True)\n", 2, "use `reverse`"),
        ("def total(items, tax=0.0):\n    return tax\n\n\ntotal([1], taxes=2)\n", 5, "use `tax`"),
        (CART + "Cart().total(taxes=2)\n", 6, "use `tax`"),
        (ITEM + "Item(name='a', prise=2)\n", 10, "use `price`"),
        ("def f(row: tuple):\n    return row.indx(1)\n", 2, "use `tuple.index`"),
        ("def f(x: float):\n    return x.is_intger()\n", 2, "use `float.is_integer`"),
        ("try:\n    'a'.uper()\nexcept OSError:\n    pass\n", 2, "use `str.upper`"),
    ],
)
def test_annotated_values_and_keywords_are_looked_up(text: str, line: int, correction: str) -> None:
    found = proved_wrong(text)
    assert found is not None
    reason, corrected = worded(found)
    assert reason.startswith(f"line {line}: ")
    assert correction in corrected


@pytest.mark.parametrize(
    "text",
    [
        "def f(items: Sequence[str]):\n    items.push('a')\n",
        LIST + "    items = wrap(items)\n    items.push('a')\n",
        LIST + "    if isinstance(items, Stack):\n        items.push('a')\n",
        LIST + "    if hasattr(items, 'push'):\n        items.push('a')\n",
        "list = make()\n" + LIST + "    items.push('a')\n",
        DICT + "    prices.most_common()\n",
        "def f(*items: str):\n    items.index('a')\n",
        "def f(value: str | Stack):\n    value.push('a')\n",
        CART + "class Big(Cart):\n    def totl(self): ...\n\n\ndef f(cart: Cart):\n    return cart.totl()\n",
        CART + "def f(cart: Cart):\n    return cart.given_by_a_subclass\n",
        "class P(Protocol):\n    def go(self): ...\n\n\ndef f(p: P):\n    p.goo()\n",
        "class A:\n    a = []\n\n    def f(self):\n        self.a.push(1)\n\n\nA.a = Stack()\n",
        "class A:\n    kind = Column('x')\n\n    def f(self):\n        self.kind.anything()\n",
        "from subprocess import run\nrun(['a'], anything=1)\n",
        "def f(**more):\n    return more\n\n\nf(anything=1)\n",
        "@wraps\ndef f(a):\n    return a\n\n\nf(anything=1)\n",
        "def f(a):\n    return a\n\n\nf = wrap(f)\nf(anything=1)\n",
        "def f(a):\n    return a\n\n\ntry:\n    f(anything=1)\nexcept TypeError:\n    f(1)\n",
        "def f(a):\n    return a\n\n\nwith pytest.raises(TypeError):\n    f(anything=1)\n",
        "def f(a):\n    return a\n\n\ndef g(f):\n    return f(anything=1)\n",
        "class A(Model):\n    a: int\n\n\nA(anything=1)\n",
        "class A(metaclass=Meta):\n    pass\n\n\nA(anything=1)\n",
        "sorted = make()\nsorted([1], reversed=True)\n",
        "from helpers import *\nsorted([1], reversed=True)\n",
        "def f(s: str):\n    try:\n        return s.decode('utf-8')\n    except AttributeError:\n        return s\n",
        "p = (1, 2)\nwith pytest.raises(AttributeError):\n    p.append(3)\n",
        CART + "with pytest.raises(TypeError):\n    Cart().total(b=1)\n",
        "def f(s: str):\n    return s.decode('utf-8') if sys.version_info < (3,) else s\n",
        "def f(row: tuple):\n    return row.price\n",
        "def f(c: str, d: int):\n    return c.value, c.name, d.name\n",
        "def f(x: float, y: bool):\n    return x.round(2), x.item(), y.all()\n",
    ],
)
def test_a_value_or_function_that_may_be_another_one_passes(text: str) -> None:
    assert proved_wrong(text) is None


def test_a_wrong_method_and_a_wrong_keyword_are_found_by_the_layer() -> None:
    assert names_of(LIST + "    items.push('a')\n").reason == "line 2: `list.push` does not exist"
    assert names_of("x = sorted([1], reversed=True)\n").reason == "line 1: `sorted` takes no argument `reversed`"
    assert names_of(LIST + "    items.sort(revers=True)\n").reason == "line 2: `list.sort` takes no argument `revers`"


def test_keywords_of_functions_of_the_project_are_read_from_its_source(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise SystemExit('must not run')\ndef total(items, tax=0): ...\n" + CART)
    use = "import shop\nfrom shop import total\n"
    assert names_of(use + "total([], tax=1)\nshop.Cart().total(tax=1)\n", project=str(tmp_path)).passed
    wrong = names_of(use + "total([], taxes=1)\n", project=str(tmp_path))
    assert wrong.reason == "line 3: `total` takes no argument `taxes`"
    assert not names_of(use + "shop.total([], taxes=1)\n", project=str(tmp_path)).passed
    assert not names_of("import tools\ntools.Cart(tax=1)\n", [block(CART, "tools.py")]).passed


NEW = Asked("Write it.", ("Write it for our_billing.",), is_new=True)
REPORT = "def report(items):\n    return format_report(items)\n"


def at_the_end(*texts: str, asked: Asked = NEW, path: str = "", project: str = "") -> LayerResult:
    checker = NameChecker("", project, asked)
    return asyncio.run(checker.check(END_OF_ANSWER, [block(text, path) for text in texts]))


def test_a_function_that_nothing_defines_is_found_at_the_end_of_the_answer() -> None:
    assert asyncio.run(NameChecker("", "", NEW).check(block(REPORT), ())).passed, "it may follow"
    assert at_the_end(REPORT, "def format_report(items):\n    return str(items)\n").passed
    result = at_the_end("x = 1\n", REPORT)
    assert result.reason == "line 4 of the answer's code: nothing defines or imports `format_report`"
    assert "one more block" in result.correction


@pytest.mark.parametrize(
    ("text", "line", "correction"),
    [
        ("def f(x):\n    return json.dumps(x)\n", 2, "begin the block with `import json`"),
        ("def f():\n    result = 0\n    return resullt\n", 3, "use `result`"),
        ("@cached\ndef f():\n    return 1\n", 1, "import it, or define it above"),
        ("def f():\n    return 1\n\n\nprint(g())\n", 5, "import it, or define it above"),
    ],
)
def test_what_no_later_block_can_define_is_found_at_once(text: str, line: int, correction: str) -> None:
    result = asyncio.run(NameChecker("", "", NEW).check(block(text), ()))
    assert result.reason.startswith(f"line {line}: nothing defines or imports `")
    assert correction in result.correction


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return our_billing.charge()\n",
        "from helpers import *\n\n\ndef f():\n    return g()\n",
        "globals().update(g=1)\n\n\ndef f():\n    return g()\n",
        "def f():\n    try:\n        return g()\n    except NameError:\n        return 1\n",
        "import sys\n\n\ndef f():\n    return unicode() if sys.version_info < (3,) else 1\n",
        "def f():\n    global made\n    made = 1\n\n\ndef g():\n    return made\n",
        "class A:\n    __b = 1\n\n    def f(self):\n        return __class__, self.__b\n",
        "result = client.send('a usage, no program')\n",
    ],
)
def test_a_name_that_may_be_given_passes(text: str) -> None:
    assert at_the_end(text).passed, at_the_end(text).reason
    assert asyncio.run(NameChecker("", "", NEW).check(block(text), ())).passed


def test_code_that_is_put_into_other_code_may_use_its_names(tmp_path: Path) -> None:
    edit = NEW._replace(is_new=False)
    assert at_the_end(REPORT, asked=edit).passed
    assert at_the_end(REPORT, asked=edit, path="app.py").passed
    whole = at_the_end(REPORT, asked=edit, path="app.py", project=str(tmp_path))
    assert whole.reason == "app.py, line 2: nothing defines or imports `format_report`"


def test_what_a_hostile_block_costs_grows_with_its_length() -> None:
    """Each would take minutes if names were compared with all others, or the source walked for each function."""
    several = [
        "".join(f"def f{i}(a): return f{i}(b{i}=c{i})\n" for i in range(400)),
        "".join(f"class A{i}(A{i - 1}): pass\n" if i else "class A0: pass\n" for i in range(600)) + "A599(x=1)\n",
        "def f():\n" + "".join(f"    name{i} = namee{i}\n" for i in range(600)),
    ]
    for text in several:
        assert list(unknown_keywords(ast.parse(text))) is not None
        at_the_end(text)


def test_a_source_of_thousands_of_functions_is_not_searched_for_what_nothing_defines() -> None:
    """The compiler's table of names compares each with all functions: that would hold up all other requests."""
    for count, found in ((100, ["missing"]), (3000, [])):
        source = "".join(f"def f{i}(): pass\n" for i in range(count)) + "missing\n"
        assert [use.name for use in undefined_names(source, ast.parse(source))] == found


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


def test_without_an_interpreter_a_name_of_a_later_python_is_taken_to_exist() -> None:
    for text in ("import itertools\nitertools.batched_('ab', 2)\n", "from pathlib import Path\nPath('a').wallk()\n"):
        right = text.replace("batched_", "batched").replace("wallk", "walk")
        assert asyncio.run(NameChecker("", "", Asked()).check(block(right), ())).passed
        assert not asyncio.run(NameChecker("", "", Asked()).check(block(text), ())).passed


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
OWN, OF_PYTHON = ROOT / "src" / "stoker" / "domain" / "nearest.py", STANDARD / "json" / "decoder.py"


@pytest.mark.parametrize("path", [OWN, OF_PYTHON], ids=lambda path: path.name)
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

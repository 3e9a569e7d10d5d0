"""Each engine is one record, and no other file of the core names one."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import stoker
from stoker.domain import kinds
from stoker.domain.serve import Serve
from stoker.engines import options, plan, registry
from stoker.engines.launch import Launch, LaunchPlace
from stoker.engines.record import Engine
from stoker.engines.registry import DEFAULT, ENGINES, GENERIC, engine_of
from stoker.engines.signals import Signals
from stoker.extensions import Extension, Offer
from stoker.request.translate.neutral.capabilities import Capabilities

SOURCE = Path(stoker.__file__).parent
OWN = ("llama_cpp", "embedded", "embedded_architectures", "mlx_lm", "vllm", "sglang", "registry")
PROTOCOLS = {
    "gateway/openapi.py": "the paths of llama.cpp's router, for its clients",
    "cli/machine/discover.py": "the folder in which llama.cpp keeps what it downloads",
    "domain/serve.py": "the engine of a serve that names none",
    "store/files/model_file.py": "how the parts of a GGUF model are found",
    "domain/errors.py": "how a model gets its projector",
}
"""Files whose words are no branch on an engine."""
HELP = ("setting", "Option", "Argument")
"""What describes a key or an option to people."""
NAMED = re.compile(r"(?i:\b(vllm|sglang|mlx[-_]lm|x?llama[.-]?(cpp|server))\b)|(VLLM|SGLANG)_[A-Z]")


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """The strings of a module, without docstrings and help."""
    for node in ast.iter_child_nodes(tree):
        is_said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_help = isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in HELP
        if not is_said and not is_help:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node
            yield from texts(node)


def namings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that name an engine, ask which one it is by its name, or import the file of one."""
    for text in texts(tree):
        if NAMED.search(str(text.value)):
            yield text.lineno, str(text.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            names = [getattr(side, "attr", getattr(side, "id", "")) for side in sides]
            if "engine" in names and any(isinstance(side, ast.Constant) and side.value for side in sides):
                yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.ImportFrom):
            imported = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
            if imported & {f"stoker.engines.{name}" for name in OWN if name != "registry"}:
                yield node.lineno, ast.unparse(node)


def test_no_other_file_of_the_core_names_an_engine() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if path.parent.name == "engines" and path.stem in OWN:
            continue
        lines = [f"{name}:{line}: {text}" for line, text in namings(ast.parse(path.read_text()))]
        if name in PROTOCOLS:
            assert lines, f"{name} names none any more: take it off the list"
        else:
            found += lines
    assert not found, "ask engines.registry.engine_of for it:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        'if serve.engine == "openai": pass', 'if engine in ("a", "b") or engine == "x": pass', 'x = {"vllm": 1}',
        'from stoker.engines.llama_cpp import SERVER', 'from stoker.engines import vllm', 'print(f"no SGLang for {x}")',
    ],
)  # fmt: skip
def test_the_test_sees_what_names_one(code: str) -> None:
    assert list(namings(ast.parse(code)))


@pytest.mark.parametrize("code", ['"""For vLLM."""', 'x = setting(None, "With vllm.")', "serve.engine == other.engine"])
def test_what_is_said_to_people_is_no_branch(code: str) -> None:
    assert not list(namings(ast.parse(code)))


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
def test_a_record_is_whole(engine: Engine) -> None:
    if engine.launch is not None:
        assert NAMED.search(engine.name), "add its name to NAMED"
        assert engine.launch.__module__.rpartition(".")[2] in OWN, "add its file to OWN"
        assert set(engine.options) | set(engine.instead) == set(options.KEYS), "each key is written, or refused"
        assert not set(engine.options) & set(engine.instead)
    assert set(engine.choices) <= set(engine.options)
    assert set(engine.signals) <= set(Signals.__dataclass_fields__)
    assert set(engine.traits) <= set(Capabilities.__struct_fields__)
    if engine.sleep is not None:
        assert engine.sleep.sleep.keys() == engine.sleep.wake.keys()
    for row in (*engine.failures,):
        re.compile(row.pattern)


def test_a_serve_that_names_no_engine_has_the_default_one() -> None:
    assert engine_of(Serve("a").engine) is DEFAULT
    assert engine_of("one that only another Stoker has") is GENERIC
    assert list(ENGINES) == kinds.ENGINES, "the configuration takes those of the registry"


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    return Launch(("mine", serve.model, str(place.port)))


def test_the_engine_of_an_extension_is_as_good_as_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "ENGINES", dict(ENGINES))
    monkeypatch.setattr(kinds, "ENGINES", list(kinds.ENGINES))
    own = replace(GENERIC, name="mine", title="Mine", launch=launch)
    module = types.ModuleType("stoker_mine")
    module.ENGINE, module.OTHER = own, 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stoker_mine", module)
    offers = (
        Offer("mine", "stoker_mine:ENGINE"), Offer("x", "stoker_mine:OTHER"), Offer("y", "stoker_mine:NONE"),
    )  # fmt: skip
    registry.register_offered([Extension("Mine.", engines=offers)])
    assert [(record.message.split(":")[0], record.levelname) for record in caplog.records] == [
        ("engine x of an extension is not used", "WARNING"), ("engine y of an extension is not used", "WARNING"),
    ]  # fmt: skip
    assert engine_of("mine") is own
    assert plan.plan(Serve("a", engine="mine"), LaunchPlace(7, "k")) == launch(Serve("a"), LaunchPlace(7, "k"))
    with pytest.raises(ValueError, match="there is an engine 'mine' already"):
        registry.register(own)

"""Rules of the house that hold in every file of the program."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

STATE = {
    "domain/errors.py:StokerError": "an error is completed on its way to the client",
    "domain/lease.py:Lease": "the request that holds a lease says how it is cut",
    "exchange/attempts.py:AttemptHooks": "what routing remembers of the attempts of one request",
    "exchange/attempts.py:Progress": "where one request stands in its plan; the loop of its attempts writes to it",
    "exchange/call.py:Call": "the state of one request; every step of the request path writes to it",
    "exchange/formatter.py:UpstreamRequest": "the state of one request, as its serve gets it",
    "stoker_lab/load/generator.py:StepRequests": "what one step of a load has come to so far",
    "request/accept/wire.py:Wire": "the state of one request on its connection, which tells it of loss and resumption",
    "request/codec/body_fields.py:BodyFields": "what the body of one request says; whoever edits the body writes to it",
    "request/codec/frames.py:StreamReader": "the state of one answer that is read",
    "request/codec/usage.py:Usage": "the tokens of one answer, as they are counted",
    "request/relay/pool.py:UpstreamConnection": "the state of one connection; the pool owns it",
    "request/relay/reply.py:Reply": "the state of one reply",
    "request/relay/reply.py:ReplyWire": "a wire, as the reply sees it",
    "request/stored_responses/client_wire.py:ClientWire": "a wire, as the capture of a reply sees it",
    "store/metrics.py:MetricsCell": "counts of one kind of request; the metrics own them",
    "store/metrics.py:ServeSeries": "counts of one serve; the metrics own them",
}
"""Classes that are records of something under way, though they have methods: their owners write to them."""

FOREIGN = {
    "fleet/drivers/process.py": "a process of psutil",
    "engines/embedded.py": "parameters of the embedded engine",
    "fleet/warm/pages.py": "signatures of C functions",
    "gateway/log_file.py": "loggers and log records",
    "gateway/server.py": "a thread",
    "request/accept/tls.py": "contexts of the ssl module",
    "stoker_orchestrator/checks/methods_program.py": "settings of jedi, in a process of its own",
    "stoker_orchestrator/checks/names_probe.py": "the output of a process of its own",
}
"""Files that assign attributes of objects that other libraries made."""


Records = dict[str, set[str]]
"""By field, the files with a mutable record that has it."""


@cache
def trees() -> dict[str, ast.Module]:
    gc.disable()  # looking for garbage among the trees takes longer than making them
    try:
        paths = sorted(SOURCE.rglob("*.py"))
        return {
            path.relative_to(SOURCE).as_posix().removeprefix("stoker/"): ast.parse(path.read_text()) for path in paths
        }
    finally:
        gc.freeze()
        gc.enable()


def foreign_assignments(path: str, tree: ast.Module, records: Records) -> list[str]:
    """`line: target` of each assignment to an attribute of another object than `self`.

    Left out: fields of mutable records that this module defines or imports, and attributes of its private classes.
    """
    near = {path, *imported(tree)}
    private = {name for one in classes(tree) if one.name.startswith("_") for name in assigned_in_init(one)}
    found = [
        (target.lineno, ast.unparse(target))
        for node in ast.walk(tree)
        for target in assigned(node)
        if not (isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"))
        and not target.attr.startswith("__")
        and target.attr not in private
        and not near & records.get(target.attr, set())
    ]
    return [f"{line}: {text}" for line, text in sorted(found)]


def imported(tree: ast.Module) -> Iterator[str]:
    """The files of the program that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("stoker.", "stoker_")):
            path = (node.module or "").removeprefix("stoker.").replace(".", "/")
            yield f"{path}.py"
            yield from (f"{path}/{name.name}.py" for name in node.names)


def assigned(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement assigns."""
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        targets = [node.target]
    else:
        return
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Tuple | ast.List):
            targets += target.elts
        elif isinstance(target, ast.Attribute):
            yield target


def classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def assigned_in_init(one: ast.ClassDef) -> set[str]:
    methods = [node for node in one.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return {target.attr for method in methods for node in ast.walk(method) for target in assigned(node)}


def mutable_records(modules: dict[str, ast.Module]) -> Records:
    """Fields of dataclasses and structs that are not frozen, and of STATE, with the files that define them."""
    found: Records = {}
    everywhere = [(path, one) for path, tree in modules.items() for one in classes(tree)]
    structs = {"Struct"}
    for _ in range(3):  # structs of structs of structs
        structs |= {one.name for _, one in everywhere if structs & {_name(base) for base in one.bases}}
    for path, one in everywhere:
        is_frozen = any(_is_frozen(keywords) for keywords in [one.keywords, *map(_keywords, one.decorator_list)])
        is_record = "dataclass" in map(_name, one.decorator_list) or one.name in structs
        if (is_record and not is_frozen) or f"{path}:{one.name}" in STATE:
            for field in (*fields(one), *assigned_in_init(one)):
                found.setdefault(field, set()).add(path)
    return found


def fields(one: ast.ClassDef) -> Iterator[str]:
    for node in one.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _keywords(node: ast.expr) -> list[ast.keyword]:
    return node.keywords if isinstance(node, ast.Call) else []


def _is_frozen(keywords: list[ast.keyword]) -> bool:
    return any(one.arg == "frozen" and ast.unparse(one.value) == "True" for one in keywords)


def test_no_object_assigns_an_attribute_of_another_one() -> None:
    """Parts are given what they need when they are built, and publish events: see `app.build`."""
    modules = trees()
    records = mutable_records(modules)
    found = {path: foreign_assignments(path, tree, records) for path, tree in modules.items() if path not in FOREIGN}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_rule_finds_what_it_is_for() -> None:
    source = """
from stoker.domain.decision import Decision

class Service:
    def __init__(self, other):
        self.name, other.on_exit = "", None
        self.count: int = 0
        other.deep.limit += 1
        for other.names in []: pass

class _Record:
    def __init__(self):
        self.size = 0

def grow(record: _Record, decision: Decision, run: Run):
    record.size = 1
    decision.outcome = "served"
    run.outcome = "passed"
    run.settings = {}
"""
    records = {"outcome": {"domain/decision.py"}, "settings": {"domain/run.py"}}
    assert foreign_assignments("a.py", ast.parse(source), records) == [
        "6: other.on_exit", "8: other.deep.limit", "9: other.names", "19: run.settings",
    ]  # fmt: skip


def test_every_exception_to_the_rule_is_still_needed() -> None:
    modules = trees()
    records = mutable_records(modules)
    assert [path for path in FOREIGN if not foreign_assignments(path, modules[path], records)] == []
    known = {f"{path}:{one.name}" for path, tree in modules.items() for one in classes(tree)}
    assert STATE.keys() - known == set()


def test_nothing_waits_in_a_way_that_may_swallow_a_cancellation() -> None:
    """`asyncio.wait_for` of Python 3.11 does, if what is waited for comes in the same moment: use `asyncio.timeout`."""
    assert [
        f"{path}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for"
    ] == []

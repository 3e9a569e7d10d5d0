"""Rules of the house that hold in every file of the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "stoker"

STATE = {
    "domain/errors.py:StokerError": "an error is completed on its way to the client",
    "domain/lease.py:Lease": "the request that holds a lease says how it is cut",
    "exchange/call.py:Call": "the state of one request; every step of the request path writes to it",
    "measure/load/generator.py:StepRequests": "what one step of a load has come to so far",
    "request/accept/wire.py:Wire": "the state of one request on its connection, which tells it of loss and resumption",
    "request/codec/frames.py:StreamReader": "the state of one answer that is read",
    "request/relay/pool.py:Connection": "the state of one connection; the pool owns it",
    "store/metrics.py:MetricsCell": "counts of one kind of request; the metrics own them",
}
"""Classes that are records of something under way, though they have methods: their owners write to them."""

FOREIGN = {
    "fleet/drivers/process.py": "a process of psutil",
    "fleet/engines/embedded.py": "parameters of the embedded engine",
    "fleet/warm/pages.py": "signatures of C functions",
    "gateway/log_file.py": "loggers and log records",
    "gateway/server.py": "a thread",
}
"""Files that assign attributes of objects that other libraries made."""


def trees() -> dict[str, ast.Module]:
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def foreign_assignments(tree: ast.Module, records: frozenset[str]) -> list[str]:
    """`line: target` of each assignment to an attribute of another object than `self`, unless the attribute is a
    field of a mutable record, or of a private class of the same module.
    """
    owned = [assigned_in_init(one) for one in classes(tree) if one.name.startswith("_")]
    allowed = records.union(*owned)
    return [
        f"{target.lineno}: {ast.unparse(target)}"
        for node in ast.walk(tree)
        for target in assigned(node)
        if not (isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"))
        and target.attr not in allowed
        and not target.attr.startswith("__")
    ]


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


def mutable_records(modules: dict[str, ast.Module]) -> frozenset[str]:
    """Fields of dataclasses and structs that are not frozen, and of STATE."""
    structs, found = {"Struct"}, set()
    everywhere = [one for tree in modules.values() for one in classes(tree)]
    for _ in range(3):  # structs of structs of structs
        structs |= {one.name for one in everywhere if structs & {_name(base) for base in one.bases}}
    for one in everywhere:
        is_frozen = any(_is_frozen(keywords) for keywords in [one.keywords, *map(_keywords, one.decorator_list)])
        if not is_frozen and ("dataclass" in map(_name, one.decorator_list) or one.name in structs):
            found |= {
                node.target.id
                for node in one.body
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            }
    for state in STATE:
        path, _, name = state.partition(":")
        known = {one.name: one for one in classes(modules[path])}
        assert name in known, f"STATE: {path} has no class {name}"
        found |= assigned_in_init(known[name])
    return frozenset(found)


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
    found = {path: foreign_assignments(tree, records) for path, tree in modules.items() if path not in FOREIGN}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_rule_finds_what_it_is_for() -> None:
    source = """
class Service:
    def __init__(self, other):
        self.name, other.on_exit = "", None
        self.count: int = 0
        other.deep.limit += 1
        for other.names in []: pass

class _Record:
    def __init__(self):
        self.size = 0

def grow(record: _Record, seat):
    record.size = 1
    seat.phase = "ready"
"""
    assert foreign_assignments(ast.parse(source), frozenset({"phase"})) == [
        "4: other.on_exit", "6: other.deep.limit", "7: other.names",
    ]  # fmt: skip


def test_every_exception_to_the_rule_is_still_needed() -> None:
    modules = trees()
    records = mutable_records(modules)
    assert all(foreign_assignments(modules[path], records) for path in FOREIGN)

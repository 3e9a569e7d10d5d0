"""Does what a block imports and calls exist? The second layer: only what is proved wrong fails.

Python: the configured interpreter says which modules, names and keywords exist (`names_probe`), the source which of its
own (`call_keywords`, `undefined`), then `jedi` which methods (`methods`). What functions use may be defined further
down, so that is judged at the end of the answer (END_OF_ANSWER). JavaScript and TypeScript: the packages of the
project's `node_modules` (`packages`).
"""

from __future__ import annotations

import ast
import asyncio
import difflib
import json
import os
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from stoker.domain.nearest import nearest
from stoker_lab.suites.sandbox.command import bounded_command
from stoker_orchestrator.checks import packages
from stoker_orchestrator.checks.call_keywords import unknown_keywords
from stoker_orchestrator.checks.methods import missing_method
from stoker_orchestrator.checks.name_uses import NameUse, bound_by, name_uses
from stoker_orchestrator.checks.names_probe import NEWER
from stoker_orchestrator.checks.source_files import source_before, source_of, write_committed
from stoker_orchestrator.checks.structure import PYTHON
from stoker_orchestrator.checks.undefined import CALLED, UndefinedName, undefined_names
from stoker_orchestrator.loop.blocks import END_OF_ANSWER, LayerResult, WorkerBlock
from stoker_orchestrator.orchestrator import CheckLayer

_SECONDS = 10.0
"""For the interpreter. What it does not answer by then is taken to exist."""
_MAX_OFFERED = 8
"""Names that are offered where none is similar."""
_SIMILAR = 0.75
_MISSPELT = 0.85
"""How similar a name is to the variable that was meant."""
_NOWHERE = "nothing"
"""The owner of a name that nothing defines."""
_MAX_UNDEFINED = 20
"""Names that nothing defines that are looked at: to find what each may mean takes time."""
_MAX_LOCAL = 300
_MAX_MISSING = 3
"""Undefined names that the worker is told of at once."""
_PASSED = LayerResult(CheckLayer.NAMES, True)


class MissingName(NamedTuple):
    line: int
    shown: str
    """As the block writes it."""
    owner: str
    """The module or class that lacks it; empty: it is a module itself."""
    name: str
    known: tuple[str, ...]
    """What the owner has."""
    is_keyword: bool = False
    """The owner is a function that does not take it."""


class Asked(NamedTuple):
    """What a request says of names."""

    task: str = ""
    """What the person asked last. A module that it names is taken to exist."""
    texts: Sequence[str] = ()
    """All of the conversation. Where an answer's file is not known to be whole, any name in it may be defined."""
    is_new: bool = False
    """New code was asked for, so that what the answer defines nowhere is defined nowhere."""


class NameChecker:
    """The layer, for one request."""

    def __init__(self, python: str, project: str, asked: Asked) -> None:
        """`python`: the interpreter whose modules count; empty: this one, and a package that is not installed beside
        Stoker is taken to exist. `project`: where the files of the answer go, whole; empty: nowhere.
        """
        self._python = python or sys.executable
        self._knows_packages = bool(python)
        self._project = Path(project) if project else None
        self._task = frozenset(_words((asked.task,)))
        self._asked = asked

    async def check(self, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        """Raises nothing but CancelledError; no process is left then. What cannot be judged passes."""
        try:
            if block is END_OF_ANSWER:
                return await asyncio.to_thread(self._check_end, committed)
            if block.language in PYTHON:
                found = await self._check_python(block, committed)
            elif block.language in packages.LANGUAGES and self._project is not None:
                found = await asyncio.to_thread(_check_packages, block.text, self._project)
            else:
                return _PASSED
        except OSError:  # no process, or no room on the disk: `name_notes` has said so at the start
            return _PASSED
        if found is None:
            return _PASSED
        reason, correction = worded(found)
        return LayerResult(CheckLayer.NAMES, False, reason, correction)

    async def _check_python(self, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> MissingName | None:
        before, text = source_before(block, committed), textwrap.dedent(block.text)
        tree, first = _parsed(before, text)
        if tree is None:
            return None
        source = before + text if first else text
        found = await asyncio.to_thread(self._check_source, block, source, tree, first, committed)
        if found is not None:
            return found
        uses = [use._replace(line=use.line - first) for use in name_uses(tree) if use.line > first]
        with tempfile.TemporaryDirectory(prefix="stoker-check-", ignore_cleanup_errors=True) as directory:
            await asyncio.to_thread(write_committed, Path(directory), committed)
            roots = [directory, *self._roots()]
            found = await self._missing(uses, roots, directory) if uses else None
            if found is None:
                lacking = await missing_method(source, first, self._python, roots, Path(directory))
                return None if lacking is None else missing_attribute(lacking, first)
            return found

    def _check_source(
        self, block: WorkerBlock, source: str, tree: ast.Module, first: int, committed: Sequence[WorkerBlock]
    ) -> MissingName | None:
        """What the source itself shows."""
        for call in unknown_keywords(tree):
            if call.line > first:
                known = tuple(sorted(call.known))
                return MissingName(call.line - first, call.function, call.function, call.keyword, known, True)
        if not self._is_whole(block) or not _defines(textwrap.dedent(block.text)):
            return None
        undefined = (use for use in self._undefined(block, source, tree, committed) if use.line > first)
        for use in islice(undefined, _MAX_UNDEFINED):
            local = _local_names(tree, use.line)
            if use.runs_at_once or _is_module(use) or _is_misspelt(use, local):
                return MissingName(use.line - first, use.name, _NOWHERE, use.name, (*_bound_names(tree), *local))
        return None

    # -- names that nothing defines ----------------------------------------------------------------------------------

    def _is_whole(self, block: WorkerBlock) -> bool:
        """Whether the file of this block has nothing but what the answer says: it is written whole to the project, or
        the code is new.
        """
        return self._asked.is_new or (self._project is not None and bool(block.path))

    def _undefined(
        self, block: WorkerBlock, source: str, tree: ast.Module, committed: Sequence[WorkerBlock]
    ) -> list[UndefinedName]:
        found = undefined_names(source, tree)
        if not found or (self._project is not None and block.path):
            return found
        said = _words([*self._asked.texts, *(one.text for one in committed if not one.is_code)])
        return [use for use in found if use.name not in said]

    def _check_end(self, committed: Sequence[WorkerBlock]) -> LayerResult:
        """What the whole answer defines nowhere, though its functions use it."""
        files = {(one.path, one.path or one.language): one for one in committed if one.language in PYTHON}
        for block in files.values():
            source = source_of(block, committed)
            tree, _ = _parsed("", source)
            if tree is None or not self._is_whole(block) or not _defines(source):
                continue
            found = self._undefined(block, source, tree, committed)[:_MAX_MISSING]
            if found:
                reason, correction = _worded_end(found, block.path, _bound_names(tree))
                return LayerResult(CheckLayer.NAMES, False, reason, correction)
        return _PASSED

    def _roots(self) -> list[str]:
        """Where the modules of the project are."""
        if self._project is None:
            return []
        return [str(self._project), str(self._project / "src")]

    async def _missing(self, uses: list[NameUse], roots: list[str], directory: str) -> MissingName | None:
        order = {
            "roots": roots,
            "uses": [{"module": use.module, "names": use.names, "keywords": use.keywords} for use in uses],
        }
        # -I: nothing is imported from the directory or from below HOME, where files of the answer are.
        command = [self._python, "-I", "-B", "-c", _probe()]
        env = {"PATH": os.defpath, "HOME": directory, "LANG": "C.UTF-8"}
        data = json.dumps(order).encode()
        result = await bounded_command(command, Path(directory), data, env, _SECONDS, max_output=4 * 2**20)
        try:
            answers: list[Any] = json.loads(result.output)
        except ValueError:
            return None
        for use, answer in zip(uses, answers, strict=False):
            if answer is not None and not self._is_meant(answer):
                is_keyword = bool(answer.get("is_keyword"))
                owner = use.shown if is_keyword else answer["module"]
                return MissingName(use.line, use.shown, owner, answer["missing"], tuple(answer["known"]), is_keyword)
        return None

    def _is_meant(self, answer: dict[str, Any]) -> bool:
        """Whether what is not there has to be taken to exist: no interpreter was named, and another one may have it."""
        if answer["module"]:
            return not self._knows_packages and answer["missing"] in NEWER
        return not self._knows_packages or answer["missing"] in self._task


@cache
def _probe() -> str:
    return (files("stoker_orchestrator.checks") / "names_probe.py").read_text()


def _parsed(before: str, text: str) -> tuple[ast.Module | None, int]:
    """The tree of the file up to the block's end, and how many lines stand before the block."""
    for source, first in ((before + text, before.count("\n")), (text, 0)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(source), first
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
    return None, 0


def missing_attribute(lacking: dict[str, Any], first: int) -> MissingName:
    line = lacking["line"] - first
    known, is_keyword = tuple(lacking["known"]), bool(lacking.get("is_keyword"))
    return MissingName(line, lacking["shown"], lacking["owner"], lacking["name"], known, is_keyword)


def _check_packages(text: str, project: Path) -> MissingName | None:
    found = packages.missing_package(text, project)
    return None if found is None else MissingName(found.line, found.name, "", found.name, found.known)


def worded(missing: MissingName) -> tuple[str, str]:
    """Reason and correction."""
    if missing.is_keyword:
        return _worded_keyword(missing)
    if missing.owner is _NOWHERE:
        return _worded_undefined(missing.line, missing.name, missing.known)
    whole = f"{missing.owner}.{missing.name}" if missing.owner else missing.name
    what = f"`{whole}` does not exist" if missing.owner else f"there is no module `{whole}` here"
    reason = f"line {missing.line}: {what}"
    similar = _similar(missing.name, missing.known)
    if similar is not None:
        use = f"{missing.owner}.{similar}" if missing.owner else similar
        return reason, f"{reason}; use `{use}`."
    if not missing.owner:
        return reason, f"{reason}; use the standard library or a module that is installed."
    ranked = _ranked(missing.name, missing.known)
    if not ranked:
        return reason, f"{reason}; do without it."
    return reason, f"{reason}; `{missing.owner}` has {', '.join(f'`{name}`' for name in ranked)}."


def _worded_keyword(missing: MissingName) -> tuple[str, str]:
    reason = f"line {missing.line}: `{missing.owner}` takes no argument `{missing.name}`"
    similar = _similar(missing.name, missing.known)
    if similar is not None:
        return reason, f"{reason}; use `{similar}`."
    ranked = [name for name in _ranked(missing.name, missing.known) if name not in ("self", "cls")]
    takes = ", ".join(f"`{name}`" for name in ranked)
    return reason, f"{reason}; it takes {takes}." if takes else f"{reason}; do without it."


def _worded_undefined(line: int, name: str, known: Sequence[str]) -> tuple[str, str]:
    reason = f"line {line}: nothing defines or imports `{name}`"
    similar = nearest(name, known, _SIMILAR)
    if similar is not None:
        return reason, f"{reason}; use `{similar}`."
    if name in sys.stdlib_module_names:
        return reason, f"{reason}; begin the block with `import {name}`."
    return reason, f"{reason}; import it, or define it above."


def _worded_end(found: Sequence[UndefinedName], path: str, known: Sequence[str]) -> tuple[str, str]:
    names = ", ".join(f"`{use.name}`" for use in found)
    where = f"{path}, line {found[0].line}" if path else f"line {found[0].line} of the answer's code"
    reason = f"{where}: nothing defines or imports {names}"
    return reason, f"{reason}. Write one more block that does{f', for {path}' if path else ''}, and nothing else."


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+", text)}


def _defines(text: str) -> bool:
    """Whether this is more than an example of a call."""
    return re.search(r"^(?:async\s+def|def|class)\b", text, re.MULTILINE) is not None


def _is_module(use: UndefinedName) -> bool:
    """Whether it is a module of the standard library that was not imported: imports come first in a file."""
    return use.then not in ("", CALLED) and use.name in sys.stdlib_module_names


def _is_misspelt(use: UndefinedName, local: Sequence[str]) -> bool:
    """Whether a variable of the function is meant. A function of a similar name may still be defined."""
    return use.then != CALLED and nearest(use.name, local, _MISSPELT) is not None


def _local_names(tree: ast.Module, line: int) -> tuple[str, ...]:
    """What is bound within the statement at the top in which a line stands."""
    around = next((node for node in tree.body if node.lineno <= line <= (node.end_lineno or 0)), None)
    return (
        ()
        if around is None
        else tuple(sorted({name for node in ast.walk(around) for name in bound_by(node)}))[:_MAX_LOCAL]
    )


def _bound_names(tree: ast.Module) -> tuple[str, ...]:
    names = {name for node in tree.body for name in bound_by(node)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(one.asname or one.name.partition(".")[0] for one in node.names)
    return tuple(sorted(names))


def _similar(name: str, known: Sequence[str]) -> str | None:
    """The nearest name, or one that the name spells out: `sqrt` for `squareroot`."""
    found = nearest(name, known, _SIMILAR)
    if found is not None:
        return found
    longer = [one for one in known if one.startswith(name)]
    if longer:
        return min(longer, key=len)
    shortened = [one for one in known if len(one) > 2 and one[:1] == name[:1] and _is_within(one, name)]
    return max(shortened, key=len, default=None)


def _ranked(name: str, known: Sequence[str]) -> list[str]:
    """The names to offer: those of the same kind, the most similar first."""
    alike = [one for one in known if one[:1].isupper() == name[:1].isupper()] or list(known)
    scored = []
    for one in alike[:500]:
        matcher = difflib.SequenceMatcher(None, one.casefold(), name.casefold())
        scored.append((-matcher.quick_ratio(), one))
    return [one for _, one in sorted(scored)[:_MAX_OFFERED]]


def _is_within(short: str, name: str) -> bool:
    letters = iter(name)
    return all(letter in letters for letter in short)


def name_notes(python: str) -> tuple[str, ...]:
    """What an operator should know of this layer at the start. Blocks."""
    notes = []
    if python and not os.access(python, os.X_OK):
        notes.append(f"names are not checked: {python} cannot be run; set `python` to an interpreter")
    elif not python:
        notes.append("`python` is not set: a package that is not installed beside Stoker is taken to exist")
    return tuple(notes)

"""Asks the layers, and turns what they find into a result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from stoker_orchestrator.checks.commands import CommandChecker, CommandSettings, command_problems
from stoker_orchestrator.checks.grammars import EXTRA, missing_languages
from stoker_orchestrator.checks.methods import can_check_methods
from stoker_orchestrator.checks.names import Asked, NameChecker, name_notes
from stoker_orchestrator.checks.structure import check_code, prose_finding, understands
from stoker_orchestrator.checks.validator import Validator
from stoker_orchestrator.loop.blocks import LayerResult, WorkerBlock
from stoker_orchestrator.loop.languages import is_document
from stoker_orchestrator.orchestrator import CheckLayer, Orchestrator, Unchecked

LayerCheck = Callable[[WorkerBlock, Sequence[WorkerBlock]], Awaitable[LayerResult]]
"""One layer: judges a block, given the blocks that are committed. Raises nothing but CancelledError."""


class LayeredChecker:
    """A `BlockChecker` made of one function per layer."""

    def __init__(self, layers: Mapping[CheckLayer, LayerCheck]) -> None:
        self._layers = layers

    @property
    def layers(self) -> tuple[CheckLayer, ...]:
        """Those that there are, cheapest first."""
        return tuple(layer for layer in CheckLayer if layer in self._layers)

    async def check(self, layer: CheckLayer, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        return await self._layers[layer](block, committed)


class StructureChecker:
    """The first layer. Code in a language that it does not understand passes if `unchecked` lets it."""

    def __init__(self, unchecked: Unchecked) -> None:
        self._unchecked = unchecked

    async def check(self, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        """Raises nothing but CancelledError."""
        try:
            finding = await check_code(block.language, block.text) if block.is_code else prose_finding(block.text)
        except OSError as error:
            reason = f"the parser cannot be started: {error.strerror or error}"
            return LayerResult(CheckLayer.STRUCTURE, False, reason, is_decided=False)
        if finding is not None:
            what = "write the text without repeating" if not block.is_code else "write code that parses"
            return LayerResult(CheckLayer.STRUCTURE, False, str(finding), f"{finding}; {what}.")
        if not block.is_code or is_document(block.language) or understands(block.language):
            return LayerResult(CheckLayer.STRUCTURE, True)
        language = f"'{block.language[:40]}'"
        if self._unchecked is Unchecked.COMMIT:
            return LayerResult(CheckLayer.STRUCTURE, True, f"unchecked: nothing here understands {language}")
        return LayerResult(
            CheckLayer.STRUCTURE,
            False,
            f"unchecked: nothing here understands {language}; add a `validator` or `checks` that do, or set "
            '`unchecked = "commit"`',
            "Name the language of the code, and its file, after the backquotes of its fence, and write code only in "
            "the language that was asked for.",
        )


def build_checker(orchestrator: Orchestrator, asked: Asked, validator: Validator | None) -> LayeredChecker:
    """The layers of one request."""
    is_judged = bool(orchestrator.checks) or validator is not None
    structure = StructureChecker(Unchecked.COMMIT if is_judged else orchestrator.unchecked)
    layers: dict[CheckLayer, LayerCheck] = {CheckLayer.STRUCTURE: structure.check}
    if orchestrator.check_names:
        names = NameChecker(orchestrator.python, orchestrator.project, asked)
        layers[CheckLayer.NAMES] = names.check
    if orchestrator.checks:
        settings = CommandSettings(
            orchestrator.checks, orchestrator.check_timeout, orchestrator.python, orchestrator.project
        )
        layers[CheckLayer.COMMANDS] = CommandChecker(settings).check
    if validator is not None:
        layers[CheckLayer.VALIDATOR] = validator.check
    return LayeredChecker(layers)


def check_notes(orchestrator: Orchestrator) -> list[str]:
    """What an operator should know at the start: checks that cannot run, and what is not judged. Blocks."""
    notes = command_problems(orchestrator.checks, orchestrator.python)
    missing = missing_languages()
    if missing:
        notes.append(f"blocks in {', '.join(missing)} are not parsed: install stoker[{EXTRA}]")
    if orchestrator.check_names:
        notes += name_notes(orchestrator.python)
        if not can_check_methods():
            notes.append(f"methods are not checked: install stoker[{EXTRA}]")
    return notes

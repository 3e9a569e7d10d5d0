"""The loop of an orchestrated request: nothing reaches the client before it passed, and everything comes to an end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from stoker.domain.answer import StopReason
from stoker.domain.errors import CapacityError, StokerError
from stoker_orchestrator.checks.structure import is_complete
from stoker_orchestrator.loop.blocks import END_OF_ANSWER, MARKER, Correction, LayerResult, WorkerBlock
from stoker_orchestrator.loop.loop import PAUSE, Loop, LoopRules, ValidationFailed
from stoker_orchestrator.loop.messages import (
    Cancelled,
    CheckBlock,
    Checked,
    Commit,
    CommitFailed,
    Fail,
    Finish,
    Generate,
    GenerationEnded,
    GenerationFailed,
    LoopCommand,
    LoopEvent,
    StopCheck,
    StopGeneration,
    TextArrived,
    TimePassed,
)
from stoker_orchestrator.loop.states import RunState
from stoker_orchestrator.orchestrator import CheckLayer

STRUCTURE, VALIDATOR = CheckLayer.STRUCTURE, CheckLayer.VALIDATOR


def code(*blocks: str) -> str:
    return "```python\n" + "".join(f"{block}\n{MARKER}\n" for block in blocks) + "```\n"


@dataclass
class Stage:
    """A loop, and what it has ordered."""

    rules: LoopRules = field(default_factory=LoopRules)
    committed: Sequence[WorkerBlock] = ()
    now: float = 0.0
    ordered: list[LoopCommand] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = Loop(self.rules, is_complete, self.committed)
        self.ordered = self.loop.start(self.now)

    def happens(self, event: LoopEvent) -> list[LoopCommand]:
        commands = self.loop.on(event, self.now)
        self.ordered += commands
        return commands

    def last(self, kind: type[LoopCommand]) -> LoopCommand:
        return next(command for command in reversed(self.ordered) if isinstance(command, kind))

    @property
    def generation(self) -> int:
        command = self.last(Generate)
        assert isinstance(command, Generate)
        return command.generation

    def writes(self, text: str) -> list[LoopCommand]:
        return self.happens(TextArrived(self.generation, text))

    def ends(self, stop: StopReason = StopReason.END) -> list[LoopCommand]:
        return self.happens(GenerationEnded(self.generation, stop))

    def judges(self, passed: bool = True, **more: object) -> list[LoopCommand]:
        command = self.last(CheckBlock)
        assert isinstance(command, CheckBlock)
        return self.happens(Checked(command.check, LayerResult(command.layer, passed, **more)))  # type: ignore[arg-type]

    def sent(self) -> list[str]:
        return [command.block.text for command in self.ordered if isinstance(command, Commit)]

    def count(self, kind: type[LoopCommand]) -> int:
        return sum(isinstance(command, kind) for command in self.ordered)


def test_a_block_is_committed_after_its_last_layer_and_not_before() -> None:
    stage = Stage(LoopRules(layers=(STRUCTURE, VALIDATOR)))
    stage.writes(code("x = 1"))
    assert stage.sent() == []
    stage.judges()
    assert stage.sent() == []
    stage.judges()
    assert stage.sent() == ["x = 1\n"]
    assert stage.ends() == [Finish(StopReason.END)]
    assert stage.loop.state is RunState.FINISHED


def test_prose_passes_its_structure_only() -> None:
    stage = Stage(LoopRules(layers=(STRUCTURE, VALIDATOR)))
    stage.writes("Hello.\n")
    stage.ends()
    stage.judges()
    assert stage.sent() == ["Hello.\n"]


def test_a_failed_block_ends_the_generation_and_is_written_again_with_its_correction() -> None:
    stage = Stage()
    stage.writes(f"```python\nx = 1\n{MARKER}\n")
    stage.judges()
    stage.writes(f"y = (\n{MARKER}\nz = 3\n{MARKER}\n")
    commands = stage.judges(False, reason="line 1: '(' was never closed")
    assert isinstance(commands[1], StopGeneration)
    again = commands[2]
    assert isinstance(again, Generate)
    assert [block.text for block in again.blocks] == ["x = 1\n"]
    assert isinstance(again.correction, Correction)
    assert again.correction.text == "line 1: '(' was never closed"
    stage.writes(code("y = 2", "z = 3"))
    stage.judges()
    stage.judges()
    assert stage.ends() == [Finish(StopReason.END)]
    assert stage.sent() == ["x = 1\n", "y = 2\n", "z = 3\n"]
    assert [block.opens_fence for block in stage.loop.committed] == [True, False, False]


def test_what_came_from_a_generation_that_was_ended_is_ignored() -> None:
    stage = Stage()
    stage.writes(code("x = ("))
    old = stage.generation
    stage.judges(False, reason="wrong")
    assert stage.happens(TextArrived(old, code("z = 3"))) == []
    assert stage.happens(GenerationFailed(old, CapacityError("gone"))) == []
    assert stage.happens(GenerationEnded(old, StopReason.END)) == []


def test_a_block_that_never_passes_ends_the_request_with_its_number_and_reason() -> None:
    stage = Stage(LoopRules(retries=2))
    stage.writes(code("x = 1"))
    stage.judges()
    for _ in range(3):
        stage.writes(code("y = ("))
        stage.judges(False, reason="line 1: never closed")
    end = stage.ordered[-1]
    assert isinstance(end, Fail)
    assert isinstance(end.error, ValidationFailed)
    assert end.error.code == "validation_failed"
    assert "block 2 failed its structure check 3 times; the last time: line 1: never closed" in end.error.message
    assert stage.sent() == ["x = 1\n"]
    assert stage.count(Generate) == 3


def test_a_worker_that_only_talks_about_the_block_has_not_written_it() -> None:
    stage = Stage(LoopRules(retries=1))
    stage.writes(code("y = ("))
    stage.judges(False, reason="never closed")
    stage.writes("I am sorry, I cannot.\n")
    commands = stage.ends()
    assert isinstance(commands[-1], Fail)
    assert stage.sent() == []


def test_an_answer_of_the_validator_that_cannot_be_read_is_no_pass_and_is_asked_for_again() -> None:
    stage = Stage(LoopRules(layers=(VALIDATOR,), retries=1))
    stage.writes(code("x = 1"))
    assert [type(command).__name__ for command in stage.judges(False, is_decided=False)] == [
        "RecordCheck",
        "CheckBlock",
    ]
    commands = stage.judges(False, is_decided=False, reason="no verdict")
    assert isinstance(commands[-1], Fail)
    assert stage.loop.counts.failures == {"unreadable": 2}
    assert stage.sent() == []


def test_with_overlap_the_worker_is_one_block_ahead_and_then_ended() -> None:
    stage = Stage(LoopRules(layers=(VALIDATOR,)))
    stage.writes(code("x = 1", "y = 2", "z = 3"))
    assert stage.loop.deadline == PAUSE
    stage.now = PAUSE
    assert stage.happens(TimePassed()) == [StopGeneration(1)]
    commands = stage.judges()
    again = commands[-1]
    assert isinstance(again, Generate)
    assert [block.text for block in again.blocks] == ["x = 1\n", "y = 2\n"]
    assert stage.loop.counts.discarded == 1  # `z = 3` was too far ahead


def test_a_check_that_ends_within_the_pause_keeps_the_generation() -> None:
    stage = Stage(LoopRules(layers=(VALIDATOR,)))
    stage.writes(code("x = 1", "y = 2", "z = 3"))
    for _ in range(3):
        stage.judges()
    stage.ends()
    assert stage.sent() == ["x = 1\n", "y = 2\n", "z = 3\n"]
    assert stage.count(Generate) == 1
    assert stage.loop.counts.discarded == 0


def test_without_overlap_nothing_is_written_ahead() -> None:
    stage = Stage(LoopRules(layers=(VALIDATOR,), overlap=False))
    stage.writes(code("x = 1", "y = 2"))
    stage.now = PAUSE
    assert stage.happens(TimePassed()) == [StopGeneration(1)]
    again = stage.judges()[-1]
    assert isinstance(again, Generate)
    assert [block.text for block in again.blocks] == ["x = 1\n"]


def test_in_batches_the_validator_is_asked_when_the_worker_has_given_back_its_place() -> None:
    stage = Stage(LoopRules(layers=(STRUCTURE, VALIDATOR), batch=True))
    stage.writes(code("x = 1", "y = 2", "z = 3"))
    stage.judges()
    assert [type(command) for command in stage.ordered if isinstance(command, CheckBlock | StopGeneration)] == [
        CheckBlock
    ]
    assert isinstance(stage.ends()[-1], CheckBlock)
    for _ in range(5):
        stage.judges()
    assert stage.sent() == ["x = 1\n", "y = 2\n", "z = 3\n"]
    assert stage.loop.state is RunState.FINISHED


def test_a_block_that_takes_too_long_has_failed() -> None:
    stage = Stage(LoopRules(block_timeout=10.0, retries=0))
    stage.writes("```python\nx = 1\n")
    stage.now = 9.9
    stage.writes("y = 2\n")
    assert stage.happens(TimePassed()) == []
    stage.now = 10.0
    commands = stage.happens(TimePassed())
    assert isinstance(commands[0], StopGeneration)
    assert isinstance(commands[-1], Fail)
    assert "did not end the block within 10 s" in commands[-1].error.message


def test_a_worker_that_writes_nothing_is_not_asked_again() -> None:
    stage = Stage(LoopRules(block_timeout=10.0, retries=3))
    stage.now = 10.0
    commands = stage.happens(TimePassed())
    assert isinstance(commands[-1], Fail)
    assert "once; the last time: the worker wrote nothing for 10 s" in commands[-1].error.message


def test_a_worker_that_hangs_within_a_block_is_not_asked_again() -> None:
    stage = Stage(LoopRules(block_timeout=10.0, retries=3))
    stage.writes("```python\nx = 1\n")
    stage.now = 10.0
    assert isinstance(stage.happens(TimePassed())[-1], Fail)


def test_a_block_that_is_too_long_has_failed() -> None:
    stage = Stage()
    commands = stage.writes("```python\n" + "x = 1\n" * 500)
    assert any(isinstance(command, StopGeneration) for command in commands)
    again = commands[-1]
    assert isinstance(again, Generate)
    assert again.correction is not None
    assert "longer than 400 lines" in again.correction.text


def test_a_worker_that_goes_round_in_circles_is_ended() -> None:
    stage = Stage()
    for _ in range(3):
        stage.writes(code("def a():\n    return 1"))
        if stage.sent() == []:
            stage.judges()
    assert stage.sent() == ["def a():\n    return 1\n"]
    assert stage.loop.state is RunState.FINISHED


def test_an_answer_that_reaches_the_clients_limit_ends_with_its_last_whole_block() -> None:
    stage = Stage(LoopRules(is_bounded=True))
    stage.writes(code("x = 1") + "```python\ny = (")
    stage.judges()
    stage.ends(StopReason.LENGTH)
    assert stage.sent() == ["x = 1\n"]
    assert stage.ordered[-1] == Finish(StopReason.LENGTH)


def test_an_empty_answer_is_an_error() -> None:
    end = Stage().ends()[-1]
    assert isinstance(end, Fail)
    assert end.error.code == "upstream_empty"


def test_the_workers_failure_ends_the_request_and_committed_blocks_stay() -> None:
    stage = Stage()
    stage.writes(code("x = 1"))
    stage.judges()
    stage.writes("```python\ny = 2\n")
    failure = CapacityError("the engine died")
    assert stage.happens(GenerationFailed(stage.generation, failure)) == [Fail(failure)]
    assert [block.text for block in stage.loop.committed] == ["x = 1\n"]


def test_where_another_worker_takes_over_it_goes_on_after_the_last_complete_block() -> None:
    stage = Stage()
    stage.writes(code("x = 1", "y = 2").removesuffix("```\n") + "z = ")
    replaced = GenerationFailed(stage.generation, StokerError("gone"), is_replaced=True)
    stage.judges()
    assert [type(command) for command in stage.happens(replaced)] == [Generate]
    command = stage.last(Generate)
    assert isinstance(command, Generate)
    assert [block.text for block in command.blocks] == ["x = 1\n", "y = 2\n"]
    stage.judges()
    stage.writes(code("z = 3"))
    stage.ends()
    stage.judges()
    assert stage.sent() == ["x = 1\n", "y = 2\n", "z = 3\n"]
    assert stage.ordered[-1] == Finish(StopReason.END)


def test_a_block_that_has_to_be_written_again_is_asked_of_the_next_worker_too() -> None:
    stage = Stage()
    stage.writes(code("x = 1"))
    stage.judges(False, reason="wrong", correction="right it")
    [command] = stage.happens(GenerationFailed(stage.generation, StokerError("gone"), is_replaced=True))
    assert isinstance(command, Generate)
    assert command.correction is not None
    assert command.correction.text == "right it"


def test_blocks_that_were_complete_when_the_worker_failed_are_still_checked_and_committed() -> None:
    stage = Stage()
    stage.writes(code("x = 1", "y = 2"))
    failure = CapacityError("the engine died")
    assert stage.happens(GenerationFailed(stage.generation, failure)) == []
    stage.judges()
    assert stage.judges()[-1] == Fail(failure)
    assert stage.sent() == ["x = 1\n", "y = 2\n"]


def test_a_block_that_cannot_be_written_ends_everything() -> None:
    stage = Stage(LoopRules(layers=(VALIDATOR,)))
    stage.writes(code("x = 1", "y = 2"))
    stage.judges()
    names = [type(command) for command in stage.happens(CommitFailed(StokerError("no space")))]
    assert names == [StopGeneration, StopCheck, Fail]


def test_a_last_block_that_cannot_be_written_is_an_error_and_not_committed() -> None:
    stage = Stage()
    stage.writes(code("x = 1", "y = 2"))
    stage.judges()
    stage.ends()
    assert [type(command) for command in stage.judges()][-1] is Finish
    error = StokerError("no space")
    assert stage.happens(CommitFailed(error)) == [Fail(error)]
    assert stage.loop.state is RunState.FAILED
    assert [block.text for block in stage.loop.committed] == ["x = 1\n"]


def test_a_request_goes_on_after_the_blocks_of_an_earlier_one() -> None:
    earlier = WorkerBlock("x = 1\n", True, "python", "", "python", True, True)
    stage = Stage(committed=[earlier])
    first = stage.ordered[0]
    assert isinstance(first, Generate)
    assert first.blocks == (earlier,)
    stage.writes(code("y = 2"))
    stage.judges()
    assert stage.sent() == ["y = 2\n"]


def test_what_the_answer_lacks_at_its_end_is_added_before_it_finishes() -> None:
    stage = Stage(LoopRules(judges_end=True))
    stage.writes(code("x = 1"))
    stage.judges()
    stage.ends()
    assert stage.last(CheckBlock) == CheckBlock(2, CheckLayer.NAMES, 2, END_OF_ANSWER)
    assert stage.count(Finish) == 0
    stage.judges(False, reason="nothing defines `y`")
    assert stage.last(Generate) == Generate(
        2, tuple(stage.loop.committed), Correction(END_OF_ANSWER, CheckLayer.NAMES, "nothing defines `y`")
    )
    stage.writes(code("y = 2"))
    stage.judges()
    stage.ends()
    stage.judges()
    assert stage.sent() == ["x = 1\n", "y = 2\n"]
    assert stage.count(Finish) == 1


def test_an_answer_that_still_lacks_something_ends_the_request_after_its_retries() -> None:
    stage = Stage(LoopRules(judges_end=True, retries=1))
    stage.writes(code("x = 1"))
    stage.judges()
    stage.ends()
    stage.judges(False, reason="nothing defines `y`")
    stage.writes(code("z = 2"))
    stage.judges()
    stage.ends()
    stage.judges(False, reason="nothing defines `y`")
    failure = stage.last(Fail)
    assert isinstance(failure, Fail)
    assert "nothing defines `y`" in str(failure.error)


@pytest.mark.parametrize("at", range(4))
def test_a_client_that_leaves_stops_whatever_runs(at: int) -> None:
    stage = Stage(LoopRules(layers=(VALIDATOR,)))
    steps: list[Callable[[], object]] = [
        lambda: stage.writes("```python\nx = 1\n"), lambda: stage.writes(f"{MARKER}\n"), stage.judges,
    ]  # fmt: skip
    for step in steps[:at]:
        step()
    commands = stage.happens(Cancelled())
    assert isinstance(commands[0], StopGeneration)
    assert any(isinstance(command, StopCheck) for command in commands) == (at == 2)
    assert stage.loop.state is RunState.CANCELLED
    assert stage.happens(TextArrived(stage.generation, code("y = 2"))) == []


ACTIONS = st.sampled_from(
    ["good", "bad", "prose", "piece", "pass", "fail", "unreadable", "end", "length", "time", "die"]
)


@settings(max_examples=examples(150))
@given(st.lists(ACTIONS, max_size=60), st.booleans(), st.booleans(), st.integers(0, 2))
def test_whatever_happens_only_passed_blocks_are_sent_and_one_of_each_runs(
    actions: list[str], overlap: bool, batch: bool, retries: int
) -> None:
    rules = LoopRules(layers=(STRUCTURE, VALIDATOR), overlap=overlap, batch=batch, retries=retries, judges_end=overlap)
    stage = Stage(rules)
    passed: dict[tuple[int, str], list[CheckLayer]] = {}
    answered: set[int] = set()
    number = 0
    for action in actions:
        open_checks = _open_checks(stage, answered)
        assert len(open_checks) <= 1
        match action:
            case "good" | "bad" | "prose" | "piece":
                number += 1
                texts = {"good": code(f"x{number} = 1"), "bad": code(f"x{number} = ("), "prose": f"Text {number}.\n\n"}
                stage.writes(texts.get(action, "```python\nx"))
            case "pass" | "fail" | "unreadable" if open_checks:
                check = open_checks[0]
                result = LayerResult(check.layer, action == "pass", action, is_decided=action != "unreadable")
                if result.passed:
                    passed.setdefault((check.number, check.block.text), []).append(check.layer)
                answered.add(check.check)
                stage.happens(Checked(check.check, result))
            case "end":
                stage.ends()
            case "length":
                stage.ends(StopReason.LENGTH)
            case "time":
                stage.now += 1000.0
                stage.happens(TimePassed())
            case "die":
                stage.happens(GenerationFailed(stage.generation, CapacityError("gone")))
    for index, command in enumerate(one for one in stage.ordered if isinstance(one, Commit)):
        assert command.number == index + 1
        wanted = [STRUCTURE, VALIDATOR] if command.block.is_code else [STRUCTURE]
        assert passed[command.number, command.block.text][-len(wanted) :] == wanted
    assert stage.count(Finish) + stage.count(Fail) == (stage.loop.state in (RunState.FINISHED, RunState.FAILED))
    if stage.loop.state is RunState.RUNNING:
        running = stage.loop.deadline is not None
        assert running or _open_checks(stage, answered)


def _open_checks(stage: Stage, answered: set[int]) -> list[CheckBlock]:
    """Checks that were ordered and neither answered nor stopped."""
    if stage.loop.state is not RunState.RUNNING:
        return []
    over = answered | {command.check for command in stage.ordered if isinstance(command, StopCheck)}
    return [command for command in stage.ordered if isinstance(command, CheckBlock) and command.check not in over]

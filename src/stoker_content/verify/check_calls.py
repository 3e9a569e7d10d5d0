"""Calls of tools: is the tool offered, are the arguments an object after its schema, may it be called at all?"""

from __future__ import annotations

from stoker.domain.answer import Opened, StopReason
from stoker.domain.prompt import Choice
from stoker_content.verify.expectation import Expectation, Offered, arguments_of
from stoker_content.verify.finding import AnswerFinding, noted, proved
from stoker_content.verify.schema import InvalidJson

MAX_IDS = 10_000
"""Calls whose ids are remembered."""


class CallCheck:
    __slots__ = ("_expected", "_ids", "count")

    def __init__(self, expected: Expectation) -> None:
        self._expected = expected
        self._ids: set[str] = set()
        self.count = 0

    def opened(self, call: Opened) -> list[AnswerFinding]:
        """What is wrong before its arguments come."""
        found = [*self._of_choice(call), *self._of_id(call)]
        self.count += 1
        if self.count > 1 and not self._expected.allows_parallel:
            found.append(proved("parallel_calls"))
        if call.name not in self._expected.tools:
            found.append(proved("unknown_tool"))
        return found

    def closed(self, call: Opened, arguments: str) -> list[AnswerFinding]:
        """What is wrong with its arguments.

        1. the tool is not known        -> nothing: `opened` said it
        2. it takes any text            -> nothing
        3. they are no JSON object      -> proved
        4. a required key is missing    -> proved
        5. they break the schema        -> proved; what could not be checked is noted
        """
        tool = self._expected.tools.get(call.name)
        if tool is None:
            return []  # 1
        found: list[AnswerFinding] = []
        if self._expected.was_called(tool.name, arguments):
            found.append(noted("repeated_call", f"{tool.name}: the same call as in the last two turns"))
        if tool.custom or call.custom:
            return found  # 2
        return [*found, *_of_arguments(tool, arguments)]

    def finished(self, stop: StopReason) -> list[AnswerFinding]:
        """Whether a call that was demanded came. A refusal is an answer too."""
        demanded = self._expected.choice.mode in (Choice.REQUIRED, Choice.NAMED)
        if not demanded or self.count or stop in (StopReason.FILTERED, StopReason.PAUSED):
            return []
        is_callers_cut = self._expected.may_be_cut or (stop is StopReason.LENGTH and self._expected.has_small_budget)
        return [AnswerFinding("call_missing", not is_callers_cut, "no call where one was required")]

    def _of_choice(self, call: Opened) -> list[AnswerFinding]:
        choice = self._expected.choice
        is_other = choice.mode is Choice.NAMED and call.name != choice.name
        is_left_out = choice.allowed is not None and call.name not in choice.allowed
        return [proved("call_forbidden")] if choice.mode is Choice.NONE or is_other or is_left_out else []

    def _of_id(self, call: Opened) -> list[AnswerFinding]:
        is_twice = call.id in self._ids
        if call.id and len(self._ids) < MAX_IDS:
            self._ids.add(call.id)
        return [proved("duplicate_id")] if is_twice else []


def _of_arguments(tool: Offered, arguments: str) -> list[AnswerFinding]:
    value = arguments_of(arguments)
    if value is InvalidJson.DEPTH:
        return [proved("too_deep", f"{tool.name}: arguments that are nested too deeply")]
    if not isinstance(value, dict):
        return [proved("arguments", f"{tool.name}: arguments that are not a JSON object")]  # 3
    if tool.schema is None:
        return []
    if any(key not in value for key in tool.schema.required()):
        return [proved("missing_key", f"{tool.name}: arguments without a required key")]  # 4
    fit, unchecked = tool.schema.fits(value)
    if fit is False:
        return [proved("schema", f"{tool.name}: arguments that violate its schema")]  # 5
    return [noted("schema_unchecked", f"{tool.name}: not checked: {', '.join(unchecked)}")] if fit is None else []

"""Checks the visible text: empty or truncated, markers, lost characters, loops, and the code and JSON in it.

Markers of chat templates have no place in an answer. Sources: the templates of ChatML (Qwen), Llama 2 and 3, Mistral,
Gemma, Phi, DeepSeek, GLM, gpt-oss (harmony). A marker is proved to be leaked only outside of code, if the request does
not hold it, and where a template would put it: at the beginning or end of a line, or glued to the text before it.
Inside a line, a marker that never occurs in ordinary text is proof too, unless the request or the answer is about
templates.

A loop is found by its period, in characters, whatever the script: an n-gram that repeats is one with a short period.
A text that repeats with small changes is found by how well it compresses.
"""

from __future__ import annotations

import re
import zlib
from enum import Enum

from stoker.domain.answer import BlockKind, StopReason
from stoker_content.verify.check_code import check_block
from stoker_content.verify.check_edits import EditCheck
from stoker_content.verify.expectation import Expectation
from stoker_content.verify.fences import Fences
from stoker_content.verify.finding import AnswerFinding, noted, proved
from stoker_content.verify.schema import InvalidJson, read_json
from stoker_content.verify.text_buffer import TailBuffer, TextBuffer

SPECIAL = (
    r"<\|(?:im_start|im_end|im_sep|endoftext|end_of_text|begin_of_text|start_header_id|end_header_id|eot_id|eom_id"
    r"|python_tag|user|assistant|system|observation|end|start|message|channel|return|call|constrain|fim_[a-z]+)\|>"
)
"""Tokens that never occur in ordinary text."""
TAGS = r"<(?:start_of_turn|end_of_turn)>|</?(?:think|tool_call|tool_response|tool_calls)>|<｜[^｜\n]{1,40}｜>"
SQUARE = r"\[/?(?:INST|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|SYSTEM_PROMPT)\]|<</?SYS>>"
_TAG = re.compile(TAGS)
MARKER = re.compile(f"{SPECIAL}|{TAGS}|{SQUARE}")
_FIRST = re.compile(r"<[|｜/<a-z]|\[/?[A-Z]")
_INLINE_CODE = re.compile(r"`[^`]*`")
MAX_INDENT = 3
"""Blanks; more make a block of code (CommonMark)."""
TOPICS = ("template", "special token", "ChatML", "chat format", "prompt format", "Llama", "Mistral", "Qwen", "Gemma")
"""A text that mentions one of these may contain markers."""


class MarkerPlace(Enum):
    TEMPLATE = "template"
    """Where a template would put it."""
    LINE = "line"
    """Within a line, and nobody writes it by chance."""
    OTHER = "other"


def markers_in(line: str) -> list[tuple[str, MarkerPlace]]:
    """The markers in a line of prose. Linear."""
    if _FIRST.search(line) is None:
        return []
    prose = _INLINE_CODE.sub("``", line).rstrip()
    start = len(prose) - len(prose.lstrip())
    if start > MAX_INDENT:
        return [(found[0], MarkerPlace.OTHER) for found in MARKER.finditer(prose)]
    return [(found[0], _place(prose, start, found)) for found in MARKER.finditer(prose)]


def _place(prose: str, start: int, found: re.Match[str]) -> MarkerPlace:
    is_glued = prose[found.start() - 1 : found.start()] not in ("", " ", "\t", "(", '"', "'", "*", "“", "«", "/", "`")
    if found.start() == start or found.end() == len(prose) or is_glued:
        return MarkerPlace.TEMPLATE
    return MarkerPlace.OTHER if _TAG.match(found[0]) else MarkerPlace.LINE


TIMES = 4
"""Least number of repetitions of the unit."""
LEAST = 240
"""Least number of characters in all repetitions together."""
LOOKED_AT = 2048
"""Bytes at the end that are compressed."""
RATIO = 0.15
_SAMPLE = 24
_TRIES = 40


def is_loop(tail: str) -> bool:
    """Whether its end is one unit, TIMES or more; or compresses below RATIO. Bounded by the tail's size."""
    tail = tail.rstrip()
    return _period(tail) is not None or _ratio(tail) < RATIO


def _period(tail: str) -> int | None:
    """Characters of the unit that repeats at the end."""
    sample = tail[-_SAMPLE:]
    at = len(tail) - len(sample)
    for _ in range(_TRIES):
        at = tail.rfind(sample, 0, at + len(sample) - 1)
        if at < 0:
            return None
        period = len(tail) - len(sample) - at
        covered = max(period * TIMES, LEAST)
        if covered > len(tail):
            return None
        end = tail[-covered:]
        if end[period:] == end[:-period]:
            return period
    return None


def _ratio(tail: str) -> float:
    data = tail[-LOOKED_AT:].encode("utf-8", "replace")[-LOOKED_AT:]
    return len(zlib.compress(data, 6)) / len(data) if len(data) == LOOKED_AT else 1.0


def check_json(expected: Expectation, text: str) -> list[AnswerFinding]:
    """The answer's whole text against the wanted form.

    1. the caller cut the answer itself, or began it   -> noted
    2. no JSON (a fence around it is none either)      -> proved
    3. no object, and no schema is known               -> noted: dialects differ in what "a JSON object" is
    4. it breaks the schema                            -> proved; what could not be checked is noted
    """
    value = read_json(text)
    if isinstance(value, InvalidJson):
        check = "too_deep" if value is InvalidJson.DEPTH else "json"
        return [noted(check) if expected.may_be_cut else proved(check)]  # 1, 2
    if expected.schema is None:
        return [] if isinstance(value, dict) else [noted("json", "JSON, but not an object")]  # 3
    fit, unchecked = expected.schema.fits(value)
    if fit is False:
        return [proved("json_schema")]  # 4
    return [noted("schema_unchecked", f"not checked: {', '.join(unchecked)}")] if fit is None else []


MAX_LINE = 64 * 1024
"""Characters; a longer line is looked at in parts of this size."""
MAX_TAIL = 64 * 1024
MAX_JSON = 4 * 1024 * 1024
"""Characters of an answer that is to be JSON."""
LOST = "\ufffd"
LOST_NAMES = ("U+FFFD", "eplacement character", "\\ufffd", "\\uFFFD")
"""An answer that mentions the character by one of these names may contain it."""
_CUTS = (StopReason.LENGTH, StopReason.CONTEXT)
_OPEN_ENDS = ",;:([{-–—\"'"


class TextCheck:
    """All visible text of one answer. What is found does not depend on how the text was cut into pieces."""

    def __init__(self, expected: Expectation) -> None:
        self._expected = expected
        self._fences = Fences()
        self._edits = EditCheck(expected)
        self._line = TextBuffer()
        self._tail = TailBuffer(MAX_TAIL)
        self._json = TextBuffer() if expected.format is not None else None
        self._found: dict[AnswerFinding, None] = {}
        """A dict, so that a repeated finding is reported once and the order stays."""
        self._names_lost = False
        self.has_thought = False
        self.has_spoken = False
        self.is_refusal = False

    def opened(self, kind: BlockKind) -> None:
        self.has_thought = self.has_thought or kind in (BlockKind.THINKING, BlockKind.REDACTED)
        self.is_refusal = self.is_refusal or kind is BlockKind.REFUSAL

    def grew(self, text: str) -> list[AnswerFinding]:
        self.has_spoken = self.has_spoken or not text.isspace()
        self._tail.add(text)
        if self._json is not None and self._json.size <= MAX_JSON:
            self._json.add(text)
        if "\n" not in text and self._line.size + len(text) <= MAX_LINE:
            self._line.add(text)  # most pieces
            return []
        known = len(self._found)
        first, *rest = text.split("\n")
        self._add(first)
        for part in rest:
            self._end_line()
            self._add(part)
        return list(self._found)[known:]

    def break_line(self) -> list[AnswerFinding]:
        """End the line: the text that follows does not belong to it."""
        known = len(self._found)
        if self._line.size:
            self._end_line()
        return list(self._found)[known:]

    def finished(self, stop: StopReason, calls: int) -> list[AnswerFinding]:
        """Findings that need the whole answer.

        1. refused, or paused             -> nothing is expected of it
        2. an empty answer               -> proved, unless there were calls, or the caller wanted no more
        3. JSON was asked for             -> see `check_json`; calls may come instead
        4. cut by a limit                 -> proved if it is in the middle and the caller wanted a whole answer
        5. a loop                         -> proved if only the limit ended it: it may have been asked for
        6. a fence, or a search/replace block, that is left open -> proved unless the caller cut it
        """
        found = self.break_line()
        if stop in (StopReason.FILTERED, StopReason.PAUSED) or self.is_refusal:
            return found  # 1
        is_cut = stop in _CUTS
        is_callers = self._expected.may_be_cut or (stop is StopReason.LENGTH and self._expected.has_small_budget)
        if not self.has_spoken:
            return found if calls else [*found, self._nothing(stop, is_callers)]  # 2
        if self._json is not None and not calls:
            found += self._of_json(is_cut and is_callers)  # 3
        tail = self._tail.text()
        if is_cut and not calls:
            is_middle = self._is_in_the_middle(tail)
            found.append(proved("truncated") if is_middle and not is_callers else noted("length"))  # 4
        if is_loop(tail):
            found.append(AnswerFinding("loop", is_cut and not is_callers, "the end repeats itself"))  # 5
        is_excused = is_callers or stop is StopReason.SEQUENCE
        if self._fences.is_left_open:
            found.append(AnswerFinding("open_fence", not is_excused, "a block of code that is not closed"))  # 6
        if self._edits.is_open:
            found.append(AnswerFinding("edit", not is_excused, "a search/replace block that is not complete"))
        return found

    def _nothing(self, stop: StopReason, is_callers: bool) -> AnswerFinding:
        is_meant = is_callers or stop is StopReason.SEQUENCE or self._expected.is_after_results
        check = "only_thinking" if self.has_thought else "empty"
        return noted(check) if is_meant else proved(check)

    def _of_json(self, is_callers_cut: bool) -> list[AnswerFinding]:
        assert self._json is not None
        if self._json.size > MAX_JSON:
            return [noted("too_large")]
        found = check_json(self._expected, self._json.text())
        return [noted(each.check, each.text) for each in found] if is_callers_cut else found

    def _is_in_the_middle(self, tail: str) -> bool:
        return self._fences.is_open or self._edits.is_open or tail[-1].isalnum() or tail[-1] in _OPEN_ENDS

    def _add(self, text: str) -> None:
        at = 0
        while self._line.size + len(text) - at > MAX_LINE:
            end = at + MAX_LINE - self._line.size
            self._line.add(text[at:end])
            self._end_line()
            at = end
        self._line.add(text[at:])

    def _end_line(self) -> None:
        line = self._line.text()
        self._line.drop()
        if not line and self._fences.passes_blank() and not self._edits.is_open:
            return  # skip early: an answer may have a million blank lines
        line = line.removesuffix("\r")
        for finding in self._edits.line(line):
            self._record(finding)
        was_code = self._fences.is_open
        block = self._fences.line(line)
        if block is not None:
            for finding in check_block(block):
                self._record(finding)
        if not was_code and not self._fences.is_open:
            self._prose(line)

    def _prose(self, line: str) -> None:
        for marker, place in markers_in(line):
            is_leak = self._is_leak_in(place, line) and not self._expected.mentions(marker)
            self._record(proved("leaked_marker") if is_leak else noted("leaked_marker"))
        self._names_lost = self._names_lost or any(name in line for name in LOST_NAMES)
        if LOST in line:
            is_lost = not self._names_lost and not self._expected.mentions(LOST)
            self._record(proved("replacement") if is_lost else noted("replacement"))

    def _is_leak_in(self, place: MarkerPlace, line: str) -> bool:
        if place is not MarkerPlace.LINE:
            return place is MarkerPlace.TEMPLATE
        return not any(topic in line or self._expected.mentions(topic) for topic in TOPICS)

    def _record(self, finding: AnswerFinding) -> None:
        self._found[finding] = None

"""Rich answers: replies of thinking, text and calls that a script lists, and which of them a request gets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from stoker_lab.testing.script.ask import text_of
from stoker_lab.testing.script.quirks import checked


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The same in JSON, where an unknown field is an error."""


class ScriptedThinking(_Record, frozen=True, tag_field="type", tag="thinking"):
    text: str
    signature: str | None = None
    """None: in Messages the server makes one, in other dialects there is none."""


class ScriptedRedacted(_Record, frozen=True, tag_field="type", tag="redacted"):
    data: str


class ScriptedText(_Record, frozen=True, tag_field="type", tag="text"):
    text: str


class ScriptedRefusal(_Record, frozen=True, tag_field="type", tag="refusal"):
    text: str


class ScriptedCall(_Record, frozen=True, tag_field="type", tag="call"):
    name: str
    arguments: str | dict[str, Any] = "{}"
    """Text, sent as it is. An object in a script becomes JSON with its keys in order."""
    id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, str):
            msgspec.structs.force_setattr(self, "arguments", json.dumps(self.arguments, ensure_ascii=False))


ScriptedBlock = ScriptedThinking | ScriptedRedacted | ScriptedText | ScriptedRefusal | ScriptedCall
ScriptedStop = Literal["end", "length", "calls", "sequence", "filtered", "context"]


class ScriptedUsage(_Record, frozen=True):
    """Tokens to report; None: as the script says, or as sent. `input` includes those cached and written."""

    input: int | None = None
    cached: int | None = None
    written: int | None = None
    output: int | None = None
    reasoning: int | None = None


class ScriptedAnswer(_Record, frozen=True):
    """One reply. `docs/reference/testing-kit.md` says what each field means."""

    blocks: tuple[ScriptedBlock, ...]
    stop: ScriptedStop | None = None
    sequence: str | None = None
    usage: ScriptedUsage = ScriptedUsage()
    cut: Annotated[int, msgspec.Meta(ge=0)] = 8
    """Characters per delta; 0: one delta."""
    quirks: tuple[str, ...] = ()
    when: str | None = None

    def __post_init__(self) -> None:
        checked(self.quirks)


ScriptedAnswers = str | Sequence[ScriptedAnswer | Mapping[str, Any]]
"""The path of a JSON file, the JSON itself, or a list."""


def read_answers(given: ScriptedAnswers) -> tuple[ScriptedAnswer, ...]:
    """Raises ValueError, with the place, for anything but a list of answers."""
    kind = tuple[ScriptedAnswer, ...]
    try:
        if not isinstance(given, str):
            return msgspec.convert([msgspec.to_builtins(one) for one in given], kind)
        if given.lstrip().startswith("["):
            return msgspec.json.decode(given, type=kind)
        if not given:
            return ()
        with open(given, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except OSError as error:
        raise ValueError(f"answers: cannot read {given}: {error.strerror}") from None
    except (msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"answers: {error}") from None


def answers_json(answers: Sequence[ScriptedAnswer]) -> str:
    """The JSON that `read` takes."""
    return msgspec.json.encode(answers).decode()


def choose_answer(answers: Sequence[ScriptedAnswer], document: Mapping[str, Any]) -> ScriptedAnswer | None:
    """The answer to a request: 1. the first whose `when` occurs after the last assistant turn  2. of those without
    `when`, the one at the number of assistant turns so far, at most the last  3. none."""
    turns, said = _history(document)
    for one in answers:
        if one.when is not None and one.when in said:  # 1
            return one
    listed = [one for one in answers if one.when is None]
    return listed[min(turns, len(listed) - 1)] if listed else None  # 2, 3


def _history(document: Mapping[str, Any]) -> tuple[int, str]:
    """Assistant turns, and the user's text and tool results after the last one. Items in a row are one turn."""
    turns = document.get("messages", document.get("input"))
    if not isinstance(turns, list):
        return 0, text_of(turns)
    count, was_own, said = 0, False, list[str]()
    for turn in turns:
        if not isinstance(turn, dict) or turn.get("role") in ("system", "developer"):
            continue
        is_own = turn.get("role") == "assistant" or _is_own_item(str(turn.get("type")))
        if is_own:
            count += not was_own
            said = []
        else:
            said.append(text_of(turn.get("content")) or text_of(turn.get("output")))
        was_own = is_own
    return count, "\n".join(said)


def _is_own_item(kind: str) -> bool:
    return kind == "reasoning" or kind.endswith("_call")

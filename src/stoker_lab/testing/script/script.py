"""What the scripted model server does: one record, also the source of its command line and of its control body."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from stoker_lab.testing.script.answers import ScriptedAnswer, answers_json, read_answers
from stoker_lab.testing.script.quirks import named


def _says(default: object, meaning: str, *, one_of: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"meaning": meaning, "one_of": one_of})


@dataclass(frozen=True, slots=True)
class Script:
    """How the server behaves. Times are seconds. `docs/reference/testing-kit.md` holds the same list as a table.

    Counts of events mean *steps*: each token's event is one, then each closing event (finish, usage, `[DONE]`, ...);
    the opening events (role chunk, `message_start`, ...) are not counted. A reply that is not streamed has two steps,
    the halves of its body. "After -1" means before the first byte of the reply.
    """

    # What it is
    id: str = _says("scripted", "the model's id")
    shown_id: str | None = _says(None, "another id to show in /v1/models")
    context: int = _says(4096, "context in tokens, as /props and /v1/models show it")
    slots: int = _says(4, "parallel sequences, as /props shows it")
    api_key: str | None = _says(None, "key that all paths but /health and /control want (401 otherwise)")
    engine: str = _says(
        "llama.cpp", "whose paths and metrics it has besides inference", one_of=("llama.cpp", "vllm", "sglang")
    )

    # How it starts and stops; the ones marked *program* need a process of its own
    listen_after: float = _says(0.0, "program: delay before it listens at all")
    ready_after: float = _says(
        0.0, "delay, from when it listens, before /health turns 200; until then all paths answer 503 Loading model"
    )
    never_ready: bool = _says(False, "/health never turns 200")
    exit_code: int | None = _says(None, "program: exit at once with this code, or with it when `crash_after` is over")
    last_words: str = _says("", "program: last line on stderr before it exits or crashes")
    crash_after: float | None = _says(None, "program: crash that long after its start (exit code 1 if none is given)")
    ignore_sigterm: bool = _says(False, "program: SIGTERM does nothing")
    stop_after: float = _says(0.0, "program: delay from SIGTERM to the end")
    wrapper: bool = _says(False, "program: a parent, as a shell script is, starts the server and waits for it")
    memory_mb: int = _says(0, "megabytes to hold, really, from when it listens; a sleep gives them back")

    # What a reply is
    tokens: int = _says(20, "tokens of a reply; the request's own limit cuts it, with finish reason length")
    text: str = _says("tok", "each token's text, before its number: tok0 tok1 tok2 ...")
    prompt_tokens: int | None = _says(None, "prompt tokens to report; none: one per word of the prompt")
    cached_tokens: int = _says(0, "prompt tokens to report as cached")
    completion_tokens: int | None = _says(None, "completion tokens to report; none: those that were sent")
    usage: bool = _says(True, "report usage at all")
    dimensions: int = _says(8, "length of an embedding")
    hash_body: bool = _says(True, "send the request body's SHA-256 as header x-body-sha256")

    # What a rich reply is
    answers: str | Sequence[ScriptedAnswer | Mapping[str, Any]] = _says(
        (), "rich answers instead of tokens: a JSON file, or the JSON itself"
    )
    assistant: bool = _says(
        False, "play an assistant: it repeats, counts, finds, fills in forms and calls several tools at once"
    )
    thinks: bool = _says(False, "the assistant thinks first, unless `enable_thinking` is off")
    quirks: str = _says("", "what replies have of real upstreams: names, commas between")
    reasoning_field: str = _says("reasoning_content", "where chat puts what an answer thinks")

    # What a request has to be
    strict_messages: bool = _says(False, "/v1/messages and its count refuse what Anthropic's API refuses")
    strict_chat: bool = _says(False, "/v1/chat/completions refuses what OpenAI's API refuses")

    # Pace
    first_event_after: float = _says(0.0, "delay before the first event; not streamed: the time of service")
    gap: float = _says(0.0, "time between two token events")
    early_head: bool = _says(False, "send the reply's head at once, not with the first event")
    role_first: bool = _says(False, "send head and opening events at once, and wait only then")

    # Faults
    error_status: int | None = _says(None, "answer with this HTTP status")
    error_times: int | None = _says(None, "only that many requests get that answer; none: all")
    error_body: str = _says("", "body of that answer; empty: an error in the dialect asked for")
    retry_after: str | None = _says(None, "Retry-After header of that answer")
    error_event_after: int | None = _says(None, "streamed: an error event after N steps, then the end")
    die_after: int | None = _says(None, "end the reply after N steps")
    die_how: str = _says("close", "how it dies", one_of=("close", "reset", "end"))
    stall_after: int | None = _says(None, "send nothing more after N steps, and keep the connection")
    endless_mb: int = _says(0, "a reply of this many megabytes instead of tokens")

    # Faults of engines that sleep (vllm, sglang)
    can_sleep: bool = _says(True, "has the paths to sleep and to wake; without: 404")
    sleep_frees: bool = _says(True, "a sleep gives the memory back; without: 200, and it holds all")
    wake_restores: bool = _says(True, "what was read again, or kept, is right after waking; without: gibberish")
    hide_metrics: str = _says("", "metrics to leave out: names, commas between")
    rename_metrics: str = _says("", "metrics under other names: old=new, commas between")

    absent: str = _says("", "paths that answer 404, commas between: /health,/v1/models")

    # Framing
    framing: str = _says(
        "auto",
        "frame of the reply; auto: chunked if streamed, else content-length",
        one_of=("auto", "chunked", "length", "close"),
    )
    close_each: bool = _says(False, "Connection: close after each reply")
    gzip: bool = _says(False, "compress replies with gzip, flushed at each event")
    split: tuple[int, ...] = _says((), "cut what is sent into writes of these sizes, in turn (1,3,7)")
    split_gap: float = _says(0.0, "time between two such writes; 0: one per turn of the event loop")
    chunk_bytes: int = _says(0, "bytes per HTTP chunk at most; 0: one chunk per event")
    events_per_write: int = _says(1, "token events in one write")
    header_bytes: int = _says(0, "size of an extra reply header, x-filler")

    # Books
    record: int = _says(512, "requests kept for `requests`; their bodies at most 64 MiB together")

    def __post_init__(self) -> None:
        """Raises ValueError for unknown quirks and for invalid answers; makes `answers` a tuple."""
        if self.quirks:
            named(self.quirks)
        if self.answers and not isinstance(self.answers[0], ScriptedAnswer):
            object.__setattr__(self, "answers", read_answers(self.answers))

    def amended(self, changes: Mapping[str, object]) -> Script:
        """A copy with these fields changed. Text is parsed; raises ValueError for an unknown field or a wrong value."""
        return replace(self, **{name: _value(name, given) for name, given in changes.items()}) if changes else self

    def flags(self) -> list[str]:
        """The same script as a command line; only values that differ from the defaults."""
        found: list[str] = []
        for one in fields(self):
            given = getattr(self, one.name)
            if given != one.default:
                found += _flag(one, given)
        return found

    def command(self, port: int | str) -> list[str]:
        """The whole command that runs this script as a program on `port` (0: a free one, printed on stdout)."""
        return [sys.executable, "-m", "stoker_lab.testing.scripted", "--port", str(port), *self.flags()]


def flag_name(name: str) -> str:
    return "--" + name.replace("_", "-")


def meaning(one: Field[Any]) -> str:
    """The description of a field, with its choices."""
    choices = one.metadata["one_of"]
    return f"{one.metadata['meaning']}: {' | '.join(choices)}" if choices else str(one.metadata["meaning"])


def is_switch(name: str) -> bool:
    return _kind(name) is bool


def table() -> str:
    """The table of flags in docs/reference/testing-kit.md."""
    rows = ["| flag | default | meaning |", "|---|---|---|"]
    for one in fields(Script):
        default = "" if one.default in (None, "", ()) else _flag(one, one.default)[-1]
        if is_switch(one.name):
            default = "yes" if one.default else "no"
        rows.append(f"| `{flag_name(one.name)}` | {default} | {meaning(one).replace('|', '/')} |")
    return "\n".join(rows)


def _flag(one: Field[Any], given: Any) -> list[str]:
    if is_switch(one.name):
        return [flag_name(one.name) if given else "--no-" + flag_name(one.name)[2:]]
    if one.name == "answers":
        return [flag_name(one.name), answers_json(given)]
    if isinstance(given, tuple):
        return [flag_name(one.name), ",".join(map(str, given))]
    if given is None:
        return [flag_name(one.name), "none"]
    return [flag_name(one.name), f"{given:g}" if isinstance(given, float) else str(given)]


@cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(Script)


def _kind(name: str) -> Any:
    """The plain type of a field, without None."""
    hint = _kinds()[name]
    if isinstance(hint, UnionType):
        return next(kind for kind in get_args(hint) if kind is not NoneType)
    return hint


def _value(name: str, given: object) -> Any:
    known = _kinds()
    if name not in known:
        raise ValueError(f"no such field of the script: {name!r}; there are: {', '.join(known)}")
    if name == "answers":
        return () if given in (None, "none") else read_answers(given)  # type: ignore[arg-type]  # refuses all else
    kind = _kind(name)
    value: Any = _parsed(name, kind, given) if isinstance(given, str) else _typed(name, kind, given)
    choices: tuple[str, ...] = next(f for f in fields(Script) if f.name == name).metadata["one_of"]
    if choices and value not in choices:
        raise ValueError(f"{name} = {given!r}: give one of {', '.join(choices)}")
    if name == "split" and min(value, default=1) < 1:
        raise ValueError(f"split = {given!r}: give sizes of 1 or more")
    if name == "events_per_write" and value < 1:
        raise ValueError(f"events_per_write = {given!r}: give 1 or more")
    return value


def _parsed(name: str, kind: Any, given: str) -> object:
    if given == "none" and NoneType in get_args(_kinds()[name]):
        return None
    if kind is str:
        return given
    try:
        if kind is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[given.lower()]
        if kind is int or kind is float:
            return kind(given)
        return tuple(int(part) for part in given.split(",") if part)
    except (ValueError, KeyError):
        what = kind.__name__ if isinstance(kind, type) else "whole numbers with commas between"
        raise ValueError(f"{name} = {given!r}: give {what}") from None


def _typed(name: str, kind: Any, given: object) -> object:
    if given is None and NoneType in get_args(_kinds()[name]):
        return None
    if kind is float and type(given) is int:
        return float(given)
    if isinstance(kind, type) and type(given) is kind:
        return given
    if not isinstance(kind, type) and isinstance(given, (list, tuple)) and all(type(part) is int for part in given):
        return tuple(given)
    raise ValueError(
        f"{name} = {given!r}: give {kind.__name__ if isinstance(kind, type) else 'a list of whole numbers'}"
    )

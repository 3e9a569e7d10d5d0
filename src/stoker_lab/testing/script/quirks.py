"""Habits of real upstreams that are legal, or nearly so, and that break translators."""

from __future__ import annotations

from collections.abc import Iterable

QUIRKS: dict[str, tuple[str, str]] = {
    "whole_call": ("chat", "a call's id, name and all arguments in one delta"),
    "repeat_id": ("chat", "a call's id, type and name on each of its deltas"),
    "no_index": ("chat", "no `index` on the deltas of calls"),
    "same_index": ("chat", "all calls have index 0, with different ids"),
    "interleave": ("chat", "the deltas of several calls in turn"),
    "late_name": ("chat", "a call's name comes with its first arguments, not with its id"),
    "null_calls": ("chat", "`tool_calls: null` on every delta without a call"),
    "stop_for_calls": ("chat", "finish reason `stop` after calls"),
    "arguments_object": ("chat", "not streamed: arguments as an object, not as text"),
    "double_encoded": ("chat", "arguments are JSON in JSON: a string that holds the text"),
    "together": ("chat", "the tail of the reasoning and the first text in one delta"),
    "first_content_with_role": ("chat", "the first delta's content is in the role chunk"),
    "empty_deltas": ("chat", 'after each delta one with `content: ""` and one that is empty'),
    "usage_each": ("chat", "usage in every chunk, counting up"),
    "no_done": ("chat", "no `[DONE]`"),
    "only_done": ("responses", "no deltas: texts and arguments only in the done events"),
    "no_added": ("responses", "deltas without an item or part added before"),
    "two_deltas": ("messages", "two `message_delta`, both with cumulative usage"),
    "no_ping": ("messages", "no `ping`"),
}
"""Each quirk: the dialect in which it shows, and how."""


def checked(names: Iterable[str]) -> tuple[str, ...]:
    """The names. Raises ValueError if one is unknown."""
    found = tuple(names)
    for name in found:
        if name not in QUIRKS:
            raise ValueError(f"no such quirk: {name!r}; there are: {', '.join(QUIRKS)}")
    return found


def named(text: str) -> tuple[str, ...]:
    """Reads the names of a script, separated by commas. Raises ValueError if one is unknown."""
    return checked(filter(None, (name.strip() for name in text.split(","))))


def table() -> str:
    """The table of quirks in docs/reference/testing-kit.md."""
    rows = [f"| `{name}` | {dialect} | {how} |" for name, (dialect, how) in QUIRKS.items()]
    return "\n".join(["| quirk | dialect | what shows |", "|---|---|---|", *rows])

"""What the person wrote in a turn, without the text that an agent's harness added. Pure, linear, and never raises.

An envelope is a pair of tags that a harness writes: its open tag begins a line or its close tag ends one. Each is

1. the person's words (`<task>`, `<user_query>`)    -> its tags are removed, its text stays
2. known as the harness's, or named like it         -> it is removed everywhere
3. of a form that only harnesses use (lower case with `-` or `_`, or camel case), on lines of its own at the beginning
   or the end of the turn                           -> it is removed if a request is left; else its text stays
4. the name of a command (`<command-name>`)         -> it is put first, with its slash; names of commands that ask the
                                                       model for nothing are removed
5. anything else: HTML, code, a tag inside a line   -> it stays as it is

A known open tag without a close tag, alone on its line, is removed with its paragraph and nothing else.
The shapes without tags, which `harness` lists, are removed afterwards.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stoker.request.codec import harness
from stoker.request.codec.harness import Tag
from stoker.request.codec.summaries import requests_in

MOST_TAGS = 20_000
"""Characters `<` of one text that are examined; the text after them is kept unchanged."""
FEW_WORDS = 4
"""If fewer words than this are left, an envelope with an unknown name is taken to be the request."""
MOST_BLANKS = 64
"""Blanks that may stand between an envelope and the edge of its line."""
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_.:-]{0,63})([ \t][^<>\n]{0,300})?(/?)>")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class UserTurn(NamedTuple):
    """`requests`: what the person asked for, newest first; more than one only if the turn is a summary."""

    requests: tuple[str, ...] = ()
    is_summary: bool = False
    """The turn summarises earlier turns that are left out."""
    is_reset: bool = False
    """Nothing before this turn belongs to the conversation."""
    has_results: bool = False
    """The turn holds tool results, as text."""
    is_recap: bool = False
    """The model's next turn is the summary."""


class _Pair(NamedTuple):
    start: int
    inner: int
    close: int
    end: int
    kind: Tag
    is_alone: bool
    """The pair begins a line and ends a line."""


class _Open(NamedTuple):
    start: int
    end: int
    kind: Tag
    begins: bool
    """The tag is at the beginning of a line."""


class _Text(NamedTuple):
    text: str
    pairs: list[_Pair]
    unclosed: list[_Open]


def read_user_turn(texts: Iterable[str]) -> UserTurn:
    """Reads the texts of one turn."""
    texts = list(texts)
    if len(texts) == 1 and is_bare(texts[0]):
        return UserTurn((texts[0],) if texts[0].strip() else ())
    parts = [_envelopes(text) for text in texts]
    if any(harness.RESULT.match(part.text.lstrip()) for part in parts):
        return UserTurn(_joined(_inside(parts, Tag.SPOKEN)), has_results=True)
    told = _inside(parts, Tag.SUMMARY)
    plain = [_unquoted(_plain(_without(part, True))) for part in parts]
    if len(" ".join(plain).split(maxsplit=FEW_WORDS)) < FEW_WORDS and _has_likely(parts):
        plain = [_unquoted(_plain(_without(part, False))) for part in parts]
    if any(text.startswith(harness.RESET) for text in plain):
        return UserTurn(is_reset=True)
    if any(text.startswith(harness.RECAP) for text in plain):
        return UserTurn(is_recap=True)
    told += [text for text in plain if text.startswith(harness.SUMMARIES)]
    said = [text for text in plain if not text.startswith(harness.SUMMARIES)]
    if told:
        return UserTurn((*_joined(said), *requests_in(told)), is_summary=True)
    if names := _inside(parts, Tag.COMMAND):
        said = [*_commands(names), *said]
    return UserTurn(_joined(said))


def _commands(tagged: Iterable[str]) -> list[str]:
    """The names of commands that the model is asked to do, each with its slash."""
    names = [name.strip().lstrip("/") for name in tagged]
    return [f"/{name}" for name in dict.fromkeys(names) if name and name not in harness.LOCAL_COMMANDS]


def is_bare(text: str) -> bool:
    """Whether the text certainly holds no shape of `harness`. False: it has to be read in full."""
    if text[:1] == '"' or "<" in text or "#" in text or "[" in text or "---" in text or "setting up the" in text:
        return False
    if "Please continue the" in text or "(This is an" in text or "To suggest changes" in text:
        return False
    return not text.startswith(_BEGINS) and not (text[:1].isspace() and text.lstrip().startswith(_BEGINS))


_BEGINS = (*harness.WHOLE, *harness.SUMMARIES, *harness.RESET, *harness.RECAP)


def _joined(texts: Sequence[str]) -> tuple[str, ...]:
    text = "\n".join([text for text in texts if text.strip()])
    return (text,) if text else ()


def _inside(parts: Sequence[_Text], kind: Tag) -> list[str]:
    return [part.text[pair.inner : pair.close] for part in parts for pair in part.pairs if pair.kind is kind]


def _has_likely(parts: Sequence[_Text]) -> bool:
    return any(pair.kind is Tag.LIKELY for part in parts for pair in part.pairs)


# -- tags --------------------------------------------------------------------------------------------------------------


def _kind(name: str, more: str) -> Tag | None:
    """What kind of tag it is; None: not an envelope. `more`: the text in the tag after its name."""
    key = name.lower().replace("_", "-")
    if (found := harness.TAGS.get(key)) is not None:
        return found
    is_camel = name[0].islower() and not name.islower() and name.isalnum()
    if not is_camel and ("-" not in key or "." in key or ":" in key or (name != name.lower() and name != name.upper())):
        return None
    words = (_CAMEL.sub("-", name) if is_camel else key).lower().split("-")
    if words[-1] in harness.SPOKEN_WORDS:
        return Tag.SPOKEN
    return Tag.HARNESS if words[-1] in harness.HARNESS_WORDS and "=" not in more else Tag.LIKELY


def _envelopes(text: str) -> _Text:
    """Pairs tags in one pass. A close tag belongs to the nearest open tag of its name. If the close tag ends a line,
    open tags that begin a line are preferred; otherwise the other ones are.
    """
    pairs: list[_Pair] = []
    opens: dict[str, tuple[list[_Open], list[_Open]]] = {}
    at, looks = text.find("<"), 0
    first = len(text) - len(text.lstrip()) if at >= 0 else 0
    while at >= 0 and looks < MOST_TAGS:
        looks += 1
        found = _TAG.match(text, at)
        if found is None or found[4]:
            at = text.find("<", at + 1)
            continue
        at = text.find("<", found.end())
        name, more = found[2], found[3] or ""
        if found[1]:
            if name not in opens:
                continue
            strong, weak = opens[name]
            ends = _ends_line(text, found.end())
            stack = (strong or weak) if ends else (weak or strong)
            if stack:
                one = stack.pop()
                if one.begins or ends:
                    pairs.append(_Pair(one.start, one.end, found.start(), found.end(), one.kind, one.begins and ends))
        elif (kind := _kind(name, more)) is not None:
            begins = found.start() == first or _begins_line(text, found.start())
            opens.setdefault(name, ([], []))[not begins].append(_Open(found.start(), found.end(), kind, begins))
    pairs.sort()
    return _Text(text, pairs, [one for strong, _ in opens.values() for one in strong])


def _begins_line(text: str, at: int) -> bool:
    before = text[max(0, at - MOST_BLANKS) : at].rstrip(" \t")
    return (not before and at <= MOST_BLANKS) or before[-1:] in ("\n", ">")


def _ends_line(text: str, at: int) -> bool:
    after = text[at : at + MOST_BLANKS].lstrip(" \t\r")
    return (not after and at + MOST_BLANKS >= len(text)) or after[:1] in ("\n", "<")


def _without(part: _Text, drops_likely: bool) -> str:
    text = part.text
    if not part.pairs and not part.unclosed:
        return text
    gone: list[tuple[int, int]] = []
    end = 0
    likely: list[_Pair] = []
    for pair in part.pairs:
        if pair.start < end:
            continue  # inside a pair that is removed
        if pair.kind in (Tag.HARNESS, Tag.SUMMARY, Tag.COMMAND):
            gone.append((pair.start, pair.end))
            end = pair.end
        elif pair.kind is Tag.SPOKEN or not drops_likely:
            gone += [(pair.start, pair.inner), (pair.close, pair.end)]
        elif pair.is_alone:
            likely.append(pair)
    gone += _unclosed(part, sorted(gone))
    gone += _at_edges(text, likely, sorted(gone))
    pieces = [piece.strip("\r\n") for piece in _left(text, 0, len(text), sorted(gone))]
    return "\n\n".join([piece for piece in pieces if piece.strip()])


def _unclosed(part: _Text, gone: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What to remove for each known open tag without a close tag: its paragraph; of a person's tag only the tag."""
    found: list[tuple[int, int]] = []
    end = 0
    for one in sorted(part.unclosed):
        within = bisect_left(gone, (one.start, one.start)) - 1
        if one.start < end or (within >= 0 and one.start < gone[within][1]) or one.kind is Tag.LIKELY:
            continue
        if one.kind is Tag.SPOKEN:
            end = one.end
        elif _ends_line(part.text, one.end) or not part.text[one.end : one.end + 1].isspace():
            end = _paragraph(part.text, one.end)
        else:
            continue  # the person writes about the tag
        found.append((one.start, end))
    return found


def _paragraph(text: str, at: int) -> int:
    end = text.find("\n\n", at + 1)
    return len(text) if end < 0 else end


def _at_edges(text: str, likely: Sequence[_Pair], gone: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs of `likely` that begin or end the turn, once what is in `gone` is removed."""
    found: list[tuple[int, int]] = []
    begin, end = 0, len(text)
    for pair in likely:
        if pair.start < begin:
            continue
        if _holds(text, begin, pair.start, gone):
            break
        found.append((pair.start, pair.end))
        begin = pair.end
    for pair in sorted(likely, key=lambda pair: -pair.end):
        if pair.end > end or pair.start < begin:
            continue
        if _holds(text, pair.end, end, gone):
            break
        found.append((pair.start, pair.end))
        end = pair.start
    return found


def _holds(text: str, start: int, end: int, gone: Sequence[tuple[int, int]]) -> bool:
    return any(piece.strip() for piece in _left(text, start, end, gone))


def _left(text: str, start: int, end: int, gone: Sequence[tuple[int, int]]) -> list[str]:
    """The pieces between `start` and `end` that are not in `gone`, which is sorted."""
    found: list[str] = []
    at = max(0, bisect_left(gone, (start, start)) - 1)
    while at < len(gone) and gone[at][0] < end:
        if gone[at][0] > start:
            found.append(text[start : gone[at][0]])
        start = max(start, gone[at][1])
        at += 1
    if start < end:
        found.append(text[start:end])
    return found


# -- shapes without tags -----------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Without the harness's: 1. whole texts  2. set-up  3. text after a known line  4. files between lines  5. lines"""
    shown = text.lstrip()
    if shown.startswith(harness.WHOLE) or (shown[:2] == "# " and harness.FAILED_EDIT.match(shown)):
        return ""  # 1
    if harness.SET_UP in shown[:200]:
        text = shown = _after_set_up(shown)  # 2
    for line in harness.REST:
        if (at := _line(shown, line)) >= 0:
            text = shown = shown[:at]  # 3
    begin, end = harness.BETWEEN
    if (at := _line(shown, begin)) >= 0 and (until := shown.find(end, at)) >= 0:
        text = shown = f"{shown[:at]}{shown[until + len(end) :]}"  # 4
    if any(line in shown for line in harness.LINES):
        kept = [line for line in shown.split("\n") if not line.lstrip().startswith(harness.LINES)]
        text = "\n".join(kept)  # 5
    return text if text.strip() else ""


def _unquoted(text: str) -> str:
    """opencode puts what was typed on its command line in quotation marks."""
    shown = text.strip()
    is_quoted = len(shown) > 2 and shown[0] == shown[-1] == '"' and '"' not in shown[1:-1]
    return shown[1:-1] if is_quoted else text


def _line(text: str, line: str) -> int:
    """Offset of the first line that begins with `line`; -1: there is none."""
    if text.startswith(line):
        return 0
    at = text.find(f"\n{line}")
    return at + 1 if at >= 0 else -1


def _after_set_up(text: str) -> str:
    lines = text.split("\n")
    for at, line in enumerate(lines[1:], 1):
        shown = line.strip()
        if shown and not shown.startswith(harness.SET_UP_LINES) and harness.SET_UP not in shown:
            return "\n".join(lines[at:])
    return ""

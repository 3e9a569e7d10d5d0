"""What a text asks for: its clauses that begin with a verb, as a reader skims them. Pure.

The beginning and the end of a text are read closely. The middle is mostly pasted material: in prose, only sentences
that ask are read; in logs, code and data, whatever reads like a sentence (`between`). Lines of code, of diffs and
inside fences are not asks. "Please write a function that plans a route" asks to *write* a *function*; the word "plans"
does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from stoker_auto.classify import shapes
from stoker_auto.classify import verbs as s
from stoker_auto.classify.between import between
from stoker_auto.classify.letters import comparable

HEAD = 160
TAIL = 160
"""Characters that are read, ..."""
DENSE_HEAD = 80
DENSE_TAIL = 80
"""... and those of a script that is written without blanks."""
FIRST = 4
LAST = 3
"""Sentences that are read closely."""
MOST_LEAD = 10
"""How many words may precede the verb."""
MOST_WORDS = 16
"""How many words after the verb are searched for its object."""
MOST_PATHS = 8
LONGEST_PATH = 120
"""How many different files and folders are counted, and the length of each."""

_NO_MARKS = bytes(code for code in range(256) if code > 127 or re.match(r"[a-zA-Z\s]", chr(code)))
_EDGE = re.compile(r"['+#-](?<![\w'+#-].)['+#-]*")
"""Marks that may occur inside a word, at its beginning."""
_MARK, _OTHER = "\x1e", "\x1f"
"""Two characters that `str.split` treats as blanks: for a mark that may end a sentence, and for any other non-word."""
_PLAIN = b"".join(
    bytes((code,))
    if code > 127 or re.match(r"[\w'+#,\n-]", chr(code))
    else _MARK.encode()
    if chr(code) in ".!?;:"
    else b" "
    if chr(code).isspace()
    else _OTHER.encode()
    for code in range(256)
)
"""Table for `bytes.translate`: text in UTF-8 in which every character outside ASCII belongs to a word."""
_CODED = frozenset(("code", "diff", "fence"))
_BEGIN = frozenset(verb.split()[0] for verb in (*s.VERBS, *s.PARTICLES))
"""Words with which a verb begins."""
_TWO = frozenset(verb.split()[0] for verb in s.VERBS if " " in verb)
_STOP = s.words("for about with in that which from on by who whose where when of so because")
_HEADS = s.words(", and then or but")
_TO = s.words("to you help")
_TELLERS = s.words("i we i'd")
_DOERS = s.words("you we i please")
_WISHES = s.words("need want like")
_ONLY_BEFORE = {**dict.fromkeys(_WISHES, _TO), "do": _DOERS}
"""Words that lead to a verb only if one of these follows."""
_MAY_LEAD = s.LEAD | _ONLY_BEFORE.keys()
""""I split it" is a report, "I need it split" is an ask."""


class Ask(NamedTuple):
    """`kind`: the kind of its object, from `verbs.NOUNS`; `noun`: the word; `given`: the text says "this" or "the"."""

    verb: str
    roles: frozenset[str]
    kind: str = ""
    noun: str = ""
    given: bool = False


class Reading:
    """`sentences`: the first and the last, words and commas in lower case; `words`: those of all sentences; `shapes`:
    code, diff, fence, error; `prose`: what is left without code; `marks`: the marks and digits of ASCII in that.
    """

    def __init__(
        self,
        sentences: tuple[tuple[str, ...], ...],
        words: frozenset[str],
        asks: tuple[Ask, ...],
        shapes: frozenset[str],
        prose: str,
        marks: frozenset[str],
    ) -> None:
        self.sentences = sentences
        self.words = words
        self.asks = asks
        self.shapes = shapes
        self.prose = prose
        self.marks = marks
        self._paths: int | None = None

    @property
    def paths(self) -> int:
        """How many different files and folders are named. Counted on first use."""
        if self._paths is None:
            self._paths = _paths(self.prose, self.marks)
        return self._paths


def closely(text: str, head: int, tail: int) -> str:
    """The first `head` and the last `tail` characters of `text`, and the asks in between."""
    if len(text) <= head + tail:
        return text
    found = between(text, head, tail)
    begin, end = text[:head], text[-tail:]
    if found.machine and found.sentences:
        begin, end = found.by_person(begin), found.by_person(end)
    return "\n".join((begin, *found.sentences, end))


def bounds(text: str) -> tuple[int, int]:
    """Characters of the beginning and of the end that are read: fewer of a script in which each is a syllable or a
    word.
    """
    if text.isascii():
        return HEAD, TAIL
    sample = text[:HEAD]
    is_dense = len(sample.encode(errors="replace")) > 2 * len(sample)
    return (DENSE_HEAD, DENSE_TAIL) if is_dense else (HEAD, TAIL)


def read(text: str) -> Reading:
    """Never raises. Linear in the text, of which a bounded part is read closely."""
    shown = closely(text, *bounds(text))
    raw = shown.encode(errors="replace")
    marks = _marks(raw)
    seen = _shapes(shown, raw, marks)
    prose = shown
    if seen & _CODED:
        prose = _prose(shown)
        marks = _marks(prose.encode(errors="replace"))
    lower = prose.lower().replace("code base", "codebase")
    if ";" in marks:
        lower = lower.replace("tl;dr", "tldr")
    sentences = _sentences(comparable(lower))
    words = frozenset(chain.from_iterable(sentences))
    if len(sentences) > FIRST + LAST:
        sentences = [*sentences[:FIRST], *sentences[-LAST:]]
    return Reading(tuple(map(tuple, sentences)), words, _asks(sentences), seen, prose, marks)


def _sentences(plain: str) -> list[list[str]]:
    r"""A sentence ends with a line, or with marks before a blank. A word is `\w[\w'+#-]*`, or a comma. Told apart by
    translation: an expression that looks at each letter takes four times as long.
    """
    plain = plain.encode(errors="replace").translate(_PLAIN).decode().replace(f"{_MARK} ", "\n").replace(",", " , ")
    return [words for part in _EDGE.sub(" ", plain).split("\n") if (words := part.split())]


def _marks(raw: bytes) -> frozenset[str]:
    return frozenset(raw.translate(None, _NO_MARKS).decode())


def _shapes(text: str, raw: bytes, marks: frozenset[str]) -> frozenset[str]:
    """`raw`: the text in UTF-8, which is searched faster."""
    found = []
    if "`" in marks and shapes.FENCE in text:
        found.append("fence")
    if (text[:1] in shapes.DIFFS or (not marks.isdisjoint("@-+") and shapes.CHANGE.search(raw))) and (
        shapes.DIFF.search(text)
    ):
        found.append("diff")
    if (_is_marked(text, raw, marks) and shapes.MARK.search(text)) or any(map(shapes.LINE.match, _may_be_code(text))):
        found.append("code")
    if _may_be_error(raw, marks) and shapes.ERROR.search(text):
        found.append("error")
    return frozenset(found)


def _may_be_code(text: str) -> list[str]:
    """The lines that the pattern LINE may match."""
    starts = [found.start() + 1 for found in shapes.LINE_START.finditer(f"\n{text}")]
    return [text[start - 1 :].partition("\n")[0] for start in starts]


def _may_be_error(raw: bytes, marks: frozenset[str]) -> bool:
    if _holds(raw, shapes.ERRORS):
        return True
    return ("(" in marks and b"Traceback (" in raw) or (":" in marks and b"panic: " in raw)


def _is_marked(text: str, raw: bytes, marks: frozenset[str]) -> bool:
    """Whether MARK may find something. Most prose has no characters of code, except brackets around words."""
    if not marks.isdisjoint(shapes.MARKS) or ("(" in marks and shapes.CALL.search(text)):
        return True
    return b"L" in raw and _holds(raw, shapes.SQL)


def _holds(raw: bytes, any_of: Sequence[bytes]) -> bool:
    """A first test before a search: far cheaper, and usually False."""
    return any(map(raw.__contains__, any_of))


def _paths(prose: str, marks: frozenset[str]) -> int:
    ends = [found.end() for found in shapes.FILE.finditer(prose)] if "." in marks else []
    if "/" in marks:
        ends += [found.end() for found in shapes.FOLDER.finditer(prose)]
    return len({prose[max(0, end - LONGEST_PATH) : end].split()[-1].lstrip("`'\"(") for end in ends[:MOST_PATHS]})


def _prose(text: str) -> str:
    """The text without code. Of a line with both, the prose is kept. A line with at least five words in a row is prose
    about code.
    """
    is_line, mark, sentence = shapes.LINE.match, shapes.MARK.search, _SENTENCE.search
    kept: list[str] = []
    for line in _unfenced(text):
        if not line:
            kept.append(line)
        elif line[0] in shapes.DIFFS and shapes.DIFF.match(line):
            continue
        elif is_line(line):
            kept.append(line if sentence(line) else "")
        elif found := mark(line):
            kept.append(line if sentence(line) else _led(line[: found.start()]))
        else:
            kept.append(line)
    return "\n".join(kept)


def _unfenced(text: str) -> Sequence[str]:
    lines = text.split("\n")
    if shapes.FENCE not in text:
        return lines
    kept = []
    fenced = False
    for line in lines:
        if line.lstrip().startswith(shapes.FENCE):
            fenced = not fenced
        elif not fenced:
            kept.append(line)
    return kept


def _led(before: str) -> str:
    """The words before the code in a line: "Simplify this condition: ..."."""
    return before if _WORDS.match(before) else ""


_WORDS = re.compile(r"[A-Za-z]{1,20} [a-z]{1,20}\b")
_SENTENCE = re.compile(r" (?<=[A-Za-z',] )(?:[A-Za-z',]{1,20} ){3}[A-Za-z']")
"""Five words in a row, from the blank after the first."""


def _asks(sentences: Iterable[Sequence[str]]) -> tuple[Ask, ...]:
    found: list[Ask] = []
    for words in sentences:
        if _BEGIN.isdisjoint(words):
            continue
        starts = [0] if _opens(words[0]) else []
        if not _HEADS.isdisjoint(words):
            starts += [at for at, word in enumerate(words[:-1], 1) if word in _HEADS and _opens(words[at])]
        for start in starts:
            at = _verb(words, start)
            if at is not None and (ask := _ask(words, at)):
                found.append(ask)
    return tuple(found)


def _opens(word: str) -> bool:
    """Whether an ask may begin with this word; most words after a comma cannot."""
    return word in _BEGIN or word in _MAY_LEAD or word[-2:] == "ly"


def _verb(words: Sequence[str], start: int) -> int | None:
    most = len(words)
    for at in range(start, min(most, start + MOST_LEAD + 1)):
        word = words[at]
        is_lead = word in _MAY_LEAD or word[-2:] == "ly"
        if is_lead and at < start + MOST_LEAD and _leads(word, words[at + 1] if at + 1 < most else ""):
            continue
        told = at > start and words[at - 1] in _TELLERS and word not in _WISHES
        return at if word in _BEGIN and not told else None
    return None


def _leads(word: str, after: str) -> bool:
    if word in _ONLY_BEFORE:
        return after in _ONLY_BEFORE[word]
    return word in s.LEAD or (word[-2:] == "ly" and len(word) > 4 and word not in s.VERBS)


def _ask(words: Sequence[str], at: int) -> Ask | None:
    """The ask whose verb is at `at`: the verb with the next word, with a later particle, or alone."""
    verb = words[at]
    roles = s.VERBS.get(f"{verb} {words[at + 1]}") if verb in _TWO and at + 1 < len(words) else None
    if roles is not None:
        verb = f"{verb} {words[at + 1]}"
    elif verb in s.PARTICLES and (far := s.PARTICLES[verb].intersection(words[at + 1 : at + 7])):
        roles = s.VERBS.get(f"{verb} {min(far)}")
        verb = verb if roles is None else f"{verb} {min(far)}"
    if roles is None:
        roles = s.VERBS.get(verb)
    if roles is None:
        return None
    kind, noun, given = _object(words, at + 1)
    return Ask(verb, roles, kind, noun, given)


def _object(words: Sequence[str], start: int) -> tuple[str, str, bool]:
    """The first run of nouns after the verb; the last noun of the run counts."""
    end = min(len(words), start + MOST_WORDS)
    for at in range(start, end):
        if words[at] in _STOP:
            break
        if words[at] in s.NOUNS:
            last = at
            while words[last] not in s.CODE_HEADS and last + 1 < end and words[last + 1] in s.NOUNS:
                last += 1
            given = any(word in ("this", "the", "my", "our", "these") for word in words[start:at])
            return s.NOUNS[words[last]], words[last], given
    return "", "", False

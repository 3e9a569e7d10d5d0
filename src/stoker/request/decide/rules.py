"""What speaks for each class that is not high-risk: one question per class, over one reading. Pure.

A rule answers with a short note, or None. The order in `STRONG` and `WEAK` is the order in which they are asked:
a judgement before a change, a change before a new thing, code before prose.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.request.decide import shapes
from stoker.request.decide import signals as s
from stoker.request.decide.asks import Reading

Rule = Callable[[Reading], str | None]
CODE_SHAPES = s.words("code diff fence")
MOST_MATH_WORDS = 45
MOST_SURE_WORDS = 8
MOST_SUM_WORDS = 12
MOST_SUM = 400
MOST_SERIES = 80
"""Characters."""
MOST_PLAIN_WORDS = 28


def review(reading: Reading) -> str | None:
    """1. A judgement of something technical is asked for. 2. Words of reviewers beside code, and no change."""
    changes = [ask for ask in reading.asks if "fix" in ask.roles]
    technical = bool(reading.shapes & CODE_SHAPES) or bool(reading.telling & s.REVIEWED)
    for ask in reading.asks:
        if "review" in ask.roles and technical and (ask.verb not in _LOOSE or reading.telling & s.REVIEW_HINT):  # 1
            return f"ask:{ask.verb}"
    hints = reading.telling & s.REVIEW_HINT
    if (
        hints and not changes and (reading.shapes & CODE_SHAPES or (len(hints) >= 2 and reading.telling & s.REVIEWED))
    ):  # 2
        return None if _makes(reading, "story") else f"word:{min(hints)}"
    return None


_LOOSE = frozenset(("find", "compare", "check", "have a", "spot", "rate", "verify", "comment", "go through", "judge"))


def code_write(reading: Reading) -> str | None:
    """1. Something of code is to be made. 2. How do I, in a language of code. 3. A phrase: "excel formula:". 4. Given a
    string, return ...
    """
    for ask in reading.asks:
        if ask.kind == "code" and ask.roles & {"code"} and not (ask.given and "fix" in ask.roles):  # 1
            if ask.verb == "add" and (reading.shapes or reading.paths) and "new" not in reading.words:
                continue
            return f"ask:{ask.verb} {ask.noun}"
        if ask.verb in ("implement", "code", "complete") and "error" not in reading.shapes:
            return f"ask:{ask.verb}"
        if "code" in ask.roles and ask.verb in ("write", "create", "generate", "build") and _language(reading):
            return f"ask:{ask.verb}" if ask.kind != "story" else None
    if not reading.sentences:
        return None
    first = reading.sentences[0]
    if _language(reading) and "how" in first[:4] and first[-1:] != ("work",):  # 2
        return "how:code"
    if _language(reading) and any(
        s.NOUNS.get(word) == "code" and word not in s.LANGUAGES_OF_CODE for word in first[:4]
    ):  # 3
        changed = reading.shapes or any("fix" in ask.roles for ask in reading.asks)
        return None if changed else "phrase:code"
    if "given" in reading.words and reading.words & _INPUTS and _language(reading):  # 4
        return "phrase:given"
    return None


_INPUTS = s.words("string array list tree number integer strings integers graph matrix")


def _language(reading: Reading) -> bool:
    return bool(reading.telling & s.LANGUAGES_OF_CODE)


def code_edit(reading: Reading) -> str | None:
    """1. A change, beside code, a path or words of code. 2. An error is shown. 3. A complaint, beside code."""
    shaped = bool(reading.shapes & CODE_SHAPES)
    for ask in reading.asks:
        if "translate" in ask.roles and not _is_of_code(reading):
            continue
        if "fix" in ask.roles and (
            shaped or reading.paths or ask.kind == "code" or reading.telling & s.CODE_WORDS
        ):  # 1
            return f"ask:{ask.verb}"
    if "error" in reading.shapes:  # 2
        return "shape:error"
    if (shaped or reading.paths) and reading.words & _COMPLAINTS:  # 3
        return f"word:{min(reading.words & _COMPLAINTS)}"
    return None


_COMPLAINTS = s.words(
    "fix fails fail failing doesn't doesnt work works wrong why throws crashes change broken segfault bug smaller "
    "disabled race without convert snippet"
)


def _is_of_code(reading: Reading) -> bool:
    return bool(reading.shapes & CODE_SHAPES) or _language(reading)


def multilingual(reading: Reading) -> str | None:
    """1. A translation is asked for, not of code. 2. Another script. 3. Words of another language. 4. A question about
    a word of one.
    """
    for ask in reading.asks:
        if "translate" in ask.roles and not _is_of_code(reading):  # 1
            return f"ask:{ask.verb}"
    if not reading.prose.isascii() and _is_of_another_script(reading.prose):  # 2
        return "shape:script"
    foreign = reading.telling & s.FOREIGN
    accents = 0 if reading.prose.isascii() else sum(1 for word in reading.words if not word.isascii())
    if len(foreign) >= 2 and not reading.words & s.ENGLISH:  # 3
        return "shape:foreign"
    if len(foreign) + min(accents, 3) >= 3 and 2 * len(foreign) + accents > 2 * len(reading.words & s.ENGLISH):  # 3
        return "shape:foreign"
    if reading.telling & s.LANGUAGES and reading.telling & s.SPEAKING:  # 4
        return f"word:{min(reading.telling & s.SPEAKING)}"
    return None


def _is_of_another_script(prose: str) -> bool:
    """Whether more than a third are letters that are neither Latin nor marks on them; each takes two bytes or more."""
    if 3 * (len(prose.encode("utf-8", "surrogatepass")) - len(prose)) <= len(prose):
        return False
    return 3 * sum(1 for char in prose if char > "\u036f" and char.isalpha()) > len(prose)


def json_extract(reading: Reading) -> str | None:
    """JSON is asked for, or fields as an object; code that reads JSON is not it."""
    named = "json" in reading.words or "structured" in reading.words
    if not (named or _shows_object(reading.prose)):
        return None
    if any(ask.kind in ("code", "story") and "code" in ask.roles for ask in reading.asks):
        return None
    for ask in reading.asks:
        if "extract" in ask.roles:
            return f"ask:{ask.verb} json"
    return "word:json" if named and ("please" in reading.words or "output" in reading.words) else None


def _shows_object(prose: str) -> bool:
    return ("{" in prose or "[" in prose) and shapes.OBJECT.search(prose) is not None


def summarise(reading: Reading) -> str | None:
    """1. It is asked for. 2. A summary is to be made, or named in the first words."""
    if reading.words & {"you", "your"} and reading.words & {"feel", "feelings"}:
        return None
    for ask in reading.asks:
        if "summarise" in ask.roles and (
            ask.verb not in ("reduce", "sum", "brief", "boil") or len(reading.words) > 6
        ):  # 1
            return f"ask:{ask.verb}"
    if not reading.sentences or _makes(reading, "story"):
        return None
    if _makes(reading, "summary"):  # 2
        return "ask:summary"
    if _SHORTLY.isdisjoint(reading.words):
        return None
    early = {word for sentence in reading.sentences[:2] for word in sentence[:8]}
    if early & s.SUMMARY_WORDS:
        return f"word:{min(early & s.SUMMARY_WORDS)}"
    if (
        {"key", "points"} <= early
        or {"main", "points"} <= early
        or "shorter" in early
        or {"short", "version"} <= early
        or {"in", "one", "sentence"} <= early
        or "takeaways" in early
    ):
        return "word:points"
    return None


_SHORTLY = s.SUMMARY_WORDS | {"points", "shorter", "version", "sentence", "takeaways"}
"""Without any of these there is none of what is asked of the first words."""


def creative(reading: Reading) -> str | None:
    """1. Something is to be made up. 2. A verb that makes, and somewhere what is made up."""
    for ask in reading.asks:
        if ask.kind == "story" and ask.roles & {"make"}:  # 1
            return f"ask:{ask.noun}"
    stories = reading.words & _STORIES
    if stories and any(ask.verb in _TELLING and ask.kind in ("", "story") for ask in reading.asks):  # 2
        return f"word:{min(stories)}"
    return None


_TELLING = s.words(
    "write compose pen invent tell give draft imagine continue describe create rewrite brainstorm make"
) | {"make up", "come up"}
_STORIES = frozenset(word for word, kind in s.NOUNS.items() if kind == "story") | s.words(
    "campaign fairy character fiction rhymes voice diary plot villain"
)


def _makes(reading: Reading, kind: str) -> bool:
    return any(ask.kind == kind and "make" in ask.roles for ask in reading.asks)


def reasoning(reading: Reading) -> str | None:
    """1. A proof. 2. Words of puzzles: one that is sure, or enough that are not. 3. A series to be continued.
    4. If all are, and some are.
    """
    for ask in reading.asks:
        if "prove" in ask.roles and ask.verb != "argue" and "me" not in reading.words:  # 1
            return f"ask:{ask.verb}"
    if strong := reading.telling & s.PUZZLE_STRONG:  # 2
        return f"word:{min(strong)}"
    tail = reading.prose[-MOST_SERIES:]
    if tail.count(",") >= 3 and shapes.SERIES.search(tail):  # 3
        return "shape:series"
    if "if" in reading.words and len(reading.words & _QUANTIFIERS) >= 2 and "?" in reading.prose:  # 4
        return "word:if"
    weak = reading.telling & s.PUZZLE
    return f"word:{min(weak)}" if weak and 2 * len(weak) + len(reading.telling & s.THOUGHT) >= 4 else None


def math_short(reading: Reading) -> str | None:
    """1. Arithmetic, in few words. 2. Numbers, and words of mathematics. 3. A word of it that is sure."""
    count = sum(len(sentence) for sentence in reading.sentences)
    if count > MOST_MATH_WORDS:
        return None
    if not count:
        return None
    numbers = len(shapes.DIGITS.findall(reading.prose))
    named = reading.telling & s.MATH_WORDS
    if (named or count <= MOST_SUM_WORDS or numbers >= 3) and shapes.ARITHMETIC.search(reading.prose[:MOST_SUM]):  # 1
        return "shape:arithmetic"
    if count <= MOST_PLAIN_WORDS and named and (numbers or len(named) >= 2):  # 2
        return f"word:{min(named)}"
    if count <= MOST_PLAIN_WORDS and reading.telling & s.MATH_SURE:  # 3
        return f"word:{min(reading.telling & s.MATH_SURE)}"
    return None


_QUANTIFIERS = s.words("all some no every none must")


def bare_math(reading: Reading) -> str | None:
    sure = reading.telling & s.MATH_SURE
    few = sum(len(sentence) for sentence in reading.sentences) <= MOST_SURE_WORDS
    return f"word:{min(sure)}" if sure and few else None


def bare_code(reading: Reading) -> str | None:
    """Code, and nobody says what to do with it: a diff is to be judged, the rest to be changed."""
    return "shape:code" if reading.shapes & CODE_SHAPES else None


def bare_diff(reading: Reading) -> str | None:
    return "shape:diff" if "diff" in reading.shapes else None


CODING: tuple[tuple[str, Rule], ...] = (
    ("review", review),
    ("code-write", code_write),
    ("code-edit", code_edit),
)
STRONG: tuple[tuple[str, Rule], ...] = (
    ("multilingual", multilingual),
    ("json-extract", json_extract),
    ("summarise", summarise),
    ("creative", creative),
)
WEAK: tuple[tuple[str, Rule], ...] = (
    ("review", bare_diff),
    ("math-short", bare_math),
    ("code-edit", bare_code),
    ("reasoning", reasoning),
    ("math-short", math_short),
)

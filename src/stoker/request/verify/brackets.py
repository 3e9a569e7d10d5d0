"""Do brackets match, once strings and comments are taken away?"""

from __future__ import annotations

import re

_BRACKETS = re.compile(r"[()\[\]{}]")
_CLOSES = {")": "(", "]": "[", "}": "{"}
_JSON_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+"?')
"""A string that is not closed ends with its line: were it no match, each quote in it would be tried anew."""
_PYTHON_TEXT = re.compile(
    r"\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|#[^\n]*",
    re.DOTALL,
)


def without_json_strings(text: str) -> str:
    return _JSON_STRING.sub('""', text)


def without_python_text(text: str) -> str:
    """Without strings and comments, as far as a string does not hold its own quotes (f-strings since 3.12)."""
    return _PYTHON_TEXT.sub("''", text)


def nesting(text: str) -> int:
    """How many brackets are open at once at the most. Bounds from above, also where some stand in strings."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def are_matched(text: str) -> bool:
    """Whether each bracket has its partner."""
    still_open: list[str] = []
    for bracket in _BRACKETS.findall(text):
        if bracket not in _CLOSES:
            still_open.append(bracket)
        elif not still_open or still_open.pop() != _CLOSES[bracket]:
            return False
    return not still_open

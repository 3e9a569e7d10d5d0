"""What damaged text looks like: one sentence, or nothing. Pure."""

from __future__ import annotations

import re
import unicodedata
import zlib

_FOREIGN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "ARABIC", "CYRILLIC", "HEBREW", "DEVANAGARI", "GREEK")
CONTROL_SHARE = 0.005
LOOP = 4
"""Times that the same words may not stand in a row."""
_LONG = 400
"""Characters from which on compression says something."""
_SQUEEZED = 0.15
TAGS = re.compile(r"</?think(?:ing)?>|<\|channel\|>|◁/?think▷|<seed:think>|\[/?THINK\]|<\|(?:begin|end)_of_thought\|>")
SPECIAL = re.compile(
    r"<\|(?:im_start|im_end|eot_id|eom_id|end|endoftext|start_header_id|end_header_id|assistant|user|system|return|call"
    r"|message|start|begin_of_text|end_of_text|python_tag|channel|tool_call(?:s_section)?_(?:begin|end))\|>"
    r"|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>|</?tool_call>|<｜[^｜]{1,30}｜>|</?s>|<eos>|<bos>|<0x[0-9A-F]{2}>"
)


def damage(text: str, is_english: bool = True) -> tuple[str, str]:
    """(kind, sentence) of the first sign; ("", ""): it looks whole."""
    if not text.strip():
        return "empty", "the answer is empty"
    if "�" in text:
        return "replacement", f"U+FFFD {text.count('�')} times"
    control = sum(unicodedata.category(sign) == "Cc" and sign not in "\n\t\r" for sign in text)
    if control > CONTROL_SHARE * len(text):
        return "control", f"{control} control characters in {len(text)}"
    if is_english and (script := foreign_script(text)):
        return "script", f"{script} letters in an English answer"
    if (words := repeated_words(text)) is not None:
        return "loop", f"{words!r} again and again"
    if len(text) >= _LONG:
        raw = text.encode()
        if (squeezed := len(zlib.compress(raw, 9)) / len(raw)) < _SQUEEZED:
            return "entropy", f"it compresses to {squeezed:.0%}"
    return "", ""


def foreign_script(text: str) -> str:
    """The first script that English does not use."""
    for sign in text:
        if ord(sign) > 0x24F and sign.isalpha():
            name = unicodedata.name(sign, "")
            if name.startswith(_FOREIGN):
                return name.split()[0].title()
    return ""


def repeated_words(text: str) -> str | None:
    """Three or more words (or any block up to ten) that stand in a row at least LOOP times."""
    words = text.split()
    for size in range(3, 11):
        run = 0
        for at in range(size, len(words)):
            run = run + 1 if words[at] == words[at - size] else 0
            if run >= size * (LOOP - 1):
                return " ".join(words[at - size + 1 : at + 1])
    return None


def common_prefix(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def leaked_token(text: str) -> str:
    """A special token or a tag of thinking that a client should never see."""
    found = SPECIAL.search(text) or TAGS.search(text)
    return found.group(0) if found else ""

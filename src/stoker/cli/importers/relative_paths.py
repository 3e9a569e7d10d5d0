"""Corrects relative paths of a command that is started in another directory than before."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PATH_OPTIONS = frozenset((
    "-m", "--model", "-mm", "--mmproj", "--lora", "--lora-scaled", "--control-vector", "-md", "--model-draft",
    "--chat-template-file", "--grammar-file", "-jf", "--json-schema-file", "--slot-save-path", "--path", "--log-file",
    "--models-dir", "--models-preset", "--config", "--ssl-key-file", "--ssl-cert-file", "--api-key-file",
))  # fmt: skip
"""Options whose value is a path, of llama.cpp above all."""


@dataclass(frozen=True, slots=True)
class RelativePaths:
    """`source`: where commands were started before. `target`: where Stoker starts them, the configuration's directory.

    If both are the same, nothing changes.
    """

    source: Path
    target: Path

    def absolute(self, words: Sequence[str]) -> list[str]:
        """The words, with relative paths made absolute: the program, values of options that take a path, and words
        that name something which exists in `source`."""
        if os.path.realpath(self.source) == os.path.realpath(self.target):
            return list(words)
        return [self._word(words, place) for place in range(len(words))]

    def _word(self, words: Sequence[str], place: int) -> str:
        word = words[place]
        option, equals, value = word.partition("=")
        if equals and option in _PATH_OPTIONS and self._is_relative(value):
            return f"{option}={self._joined(value)}"
        if not self._is_relative(word):
            return word
        is_program = place == 0 and "/" in word
        is_value = place > 0 and words[place - 1] in _PATH_OPTIONS
        return self._joined(word) if is_program or is_value or self._exists(word) else word

    def _is_relative(self, word: str) -> bool:
        return bool(word) and not word.startswith(("/", "~", "-")) and not re.match(r"[a-z]+://", word)

    def _exists(self, word: str) -> bool:
        try:
            return "/" in word and (self.source / word).exists()
        except (OSError, ValueError):
            return False

    def _joined(self, word: str) -> str:
        return os.path.normpath(self.source / word)

"""Keys under their old names: accepted, with a warning that names the new one and when the old one goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker.config.document import ConfigDocument
from stoker.domain.definition import KeyPath
from stoker.domain.deprecation import NewName

RENAMED: dict[KeyPath, NewName] = {
    ("front_door", "legacy"): NewName("ollama_api", "0.2.0"),
    ("front_door", "keys", "*", "legacy"): NewName("ollama_api", "0.2.0"),
    ("media", "most"): NewName("max_images", "0.2.0"),
}
"""By the old key; `*` is each row of a list."""


def rename_keys(doc: ConfigDocument) -> tuple[str, ...]:
    """Give keys their new names. Returns the warnings. A key under both names is a problem."""
    warnings = []
    for pattern, (new, gone_in) in RENAMED.items():
        for path in list(_matches(doc.raw, pattern)):
            if doc.holds((*path[:-1], new)):
                doc.problem(path, f"is the old name of `{new}`, which is given too; remove one of them")
                doc.spoil(path)
                continue
            line, title = doc.line(path), doc.title(path)
            doc.rename(path, new)
            warnings.append(
                f"line {line}: key '{title}' is now called '{new}'; {gone_in} no longer knows the old name: rename it"
            )
    return tuple(warnings)


def _matches(value: Any, pattern: KeyPath, before: KeyPath = ()) -> Iterator[KeyPath]:
    if not pattern:
        yield before
        return
    first, *rest = pattern
    if first == "*":
        rows = value if isinstance(value, list) else []
        for index, row in enumerate(rows):
            yield from _matches(row, tuple(rest), (*before, index))
    elif isinstance(value, dict) and first in value:
        yield from _matches(value[first], tuple(rest), (*before, first))

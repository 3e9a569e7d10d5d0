"""In which language is a block written? Pure.

1. its file's name says so                                -> that
2. its fence has a word for a language, or one mistyped   -> that
3. what it looks like                                     -> that; PLAIN if it looks like no code
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.domain.nearest import nearest

PLAIN = ""
"""Not code, as far as can be told."""
DOCUMENTS = frozenset(
    ("markdown", "md", "mdx", "rst", "csv", "tsv", "text", "txt", "plain", "plaintext", "log", "output", "console",
     "html", "css", "scss", "svg", "xml", "yaml", "yml", "toml", "ini", "conf", "env", "gitignore", "mermaid")
)  # fmt: skip
"""Words for texts that are no code: nothing has to understand them."""
_LABELS = frozenset(("text", "txt", "plain", "plaintext", "code", "output", "console", "log", "none"))
"""Words that people put on anything."""
_BY_EXTENSION = {
    "py": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
    "ts": "typescript", "mts": "typescript", "tsx": "tsx", "go": "go", "rs": "rust", "java": "java", "c": "c",
    "h": "c", "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hpp": "cpp", "cs": "csharp", "rb": "ruby", "php": "php",
    "sh": "bash", "bash": "bash", "json": "json", "diff": "diff", "patch": "diff", "sql": "sql", "kt": "kotlin",
    "kts": "kotlin", "swift": "swift", "scala": "scala", "lua": "lua", "pl": "perl", "r": "r", "dart": "dart",
    "ex": "elixir", "exs": "elixir", "hs": "haskell", "ml": "ocaml", "clj": "clojure", "zig": "zig",
    "vue": "vue", "svelte": "svelte", "tf": "terraform", "md": "markdown", "markdown": "markdown", "rst": "rst",
    "txt": "text", "csv": "csv", "html": "html", "htm": "html", "css": "css", "scss": "scss", "xml": "xml",
    "svg": "svg", "yaml": "yaml", "yml": "yaml", "toml": "toml", "ini": "ini", "cfg": "ini", "conf": "conf",
    "env": "env", "ps1": "powershell",
}  # fmt: skip
_BY_NAME = {"dockerfile": "dockerfile", "makefile": "makefile", "gemfile": "ruby", "rakefile": "ruby"}
_WORDS = frozenset(
    (*_BY_EXTENSION.values(), *_BY_NAME.values(), *DOCUMENTS, "py", "python3", "js", "jsx", "mjs", "cjs", "node", "ts",
     "mts", "golang", "rs", "h", "c++", "cc", "cxx", "hpp", "cs", "c#", "rb", "sh", "shell", "zsh", "patch", "kt",
     "perl", "objective-c", "julia", "fortran", "cobol", "assembly", "asm", "jsonc", "json5", "jsonl", "ndjson",
     "cython", "batch", "fish", "proto", "graphql")
)  # fmt: skip
_LONG_ENOUGH = 4
"""Letters from which on a word may be mistyped: shorter ones are near too many others."""
_MOST_LINES = 400

_PYTHON = re.compile(
    r"\s*(?:(?:async )?def \w+\s*\(|class \w+[\s(:]|from [\w.]+ import |import \w[\w.]*(?: as \w+)?\s*$"
    r"|(?:el)?if .+:\s*$|else:\s*$|for \w.* in .+:\s*$|while .+:\s*$|try:\s*$|except\b.*:\s*$|with .+:\s*$"
    r"|return\b.*|raise \w+|@\w[\w.]*|[a-z_][\w.]*(?:\[[^\]]*\])? [-+*/]?= \S|[\w.]+\(.*\)\s*$)"
)
_SQL = re.compile(
    r"\s*(?:select\b.+\bfrom\b|select\s+[\w*\"`]|insert\s+into\b|update\s+\S+\s+set\b|delete\s+from\b"
    r"|(?:create|alter|drop)\s+(?:table|index|view|database)\b|with\s+\w+\s+as\s*\()",
    re.IGNORECASE,
)
_BRACES = re.compile(
    r"\s*(?:[})\]]+[;,]?\s*$|.*[{;]\s*$|(?:const|let|var|function|public|private|static|func|fn|pub|use|package|import|#include)\b)"
)
_SENTENCE = re.compile(r"\s*(?:[-*#>]\s+)?[A-Z][^=(){};]*[.!?:]\s*$")


def language_of(path: str, info: str, lines: Sequence[str]) -> str:
    """A word for the language of the block of these lines, in lower case; PLAIN: it looks like no code. `path`: its
    file, `info`: what follows the backquotes of its fence; either may be empty.
    """
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    stem, dot, extension = name.rpartition(".")
    by_file = _BY_NAME.get(name) or (_BY_EXTENSION.get(extension) if dot and stem else None)
    if by_file is not None:
        return by_file  # 1
    word = _fence_word(info)
    if word not in _LABELS and word:
        meant = word if word in _WORDS else _mistyped(word)
        return meant or word  # 2: an unknown word is a language that nothing here knows
    return looks_like(lines) or (word if word in DOCUMENTS else PLAIN)  # 3


def looks_like(lines: Sequence[str]) -> str:
    """The language that most of these lines look like: `python`, `sql`, `code` for what has braces, or PLAIN."""
    said = [line for line in lines[:_MOST_LINES] if line.strip() and not line.lstrip().startswith(("#", "//", "--"))]
    if not said:
        return PLAIN
    if any(_SQL.match(line) for line in said[:3]) and not _SENTENCE.match(said[0]):
        return "sql"
    prose = sum(_SENTENCE.match(line) is not None for line in said)
    for language, pattern in (("python", _PYTHON), ("code", _BRACES)):
        hits = sum(pattern.match(line) is not None for line in said)
        if hits >= 2 and 2 * hits >= len(said) and hits > prose:
            return language
    return PLAIN


def is_document(language: str) -> bool:
    """Whether nothing has to understand a block in this language."""
    return language == PLAIN or language in DOCUMENTS


def _fence_word(info: str) -> str:
    word = info.split(maxsplit=1)[0] if info else ""
    return word.partition(":")[0].partition("{")[0].lower()


def _mistyped(word: str) -> str:
    return (nearest(word, sorted(_WORDS - DOCUMENTS), cutoff=0.8) or "") if len(word) >= _LONG_ENOUGH else ""

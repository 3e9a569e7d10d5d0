"""systemd's syntax, after systemd.syntax(7), systemd.service(5) and systemd.exec(5).

There are four ways of quoting. A command line is split into words, `%x` is filled in, then `$x`. A setting with several
words is the same without `$`. A plain value goes to the end of its line. An environment file is shell-like.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(service|socket|target|timer|mount|path|slice|scope)", re.ASCII)
_ESCAPED = re.compile(r"\\(\n|[\"\\`$])")


def command(argv: Sequence[str], variables: Sequence[str] = ()) -> str:
    """The value of `ExecStart=`. systemd fills in a `${NAME}` of `variables`; every other `$` stays as it is.

    Raises ValueError for text that no line can hold, and for a program that is not an absolute path or has a `$` in it,
    which systemd would look up as `$$`.
    """
    if not argv[0].startswith("/") or "$" in argv[0]:
        raise ValueError(f"the program {_shown(argv[0])} has to be an absolute path without `$`")
    line = " ".join(_quoted(word, dollars=True) for word in argv)
    for name in variables:
        line = line.replace(f"$${{{name}}}", f"${{{name}}}")
    return line


def word(text: str) -> str:
    """One word of a setting that takes several (`Environment=`). Raises ValueError."""
    return _quoted(text, dollars=False)


def value(text: str) -> str:
    """A setting that is the rest of its line: a path, a description, a user. Raises ValueError."""
    _check(text)
    if text != text.strip() or text.endswith("\\"):
        raise ValueError(
            f"{_shown(text)} cannot be written into a unit file: it begins or ends with a blank, or ends with \\"
        )
    return text.replace("%", "%%")


def file_name(path: str) -> str:
    """As `value`, for `EnvironmentFile=`, which takes wildcards. Raises ValueError."""
    if re.search(r"[*?\[\\]", path):
        raise ValueError(
            f"{_shown(path)} cannot be written into a unit file: systemd takes * ? [ and \\ in it for wildcards"
        )
    return value(path)


def is_unit(name: str) -> bool:
    """Whether this can be the full name of a unit."""
    return len(name) < 256 and _UNIT.fullmatch(name) is not None


def environment(variables: Mapping[str, str]) -> str:
    """The text of an environment file. Raises ValueError for a name or a value that cannot be in one."""
    lines = []
    for name, text in variables.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{_shown(name)} cannot be the name of an environment variable")
        try:
            _check(text)
        except ValueError:
            raise ValueError(f"the value of {name} has a line break or a control character in it") from None
        lines.append(f'{name}="' + re.sub(r'(["\\`$])', r"\\\1", text) + '"\n')
    return "".join(lines)


def read_environment(text: str) -> dict[str, str]:
    """The variables of an environment file, written by `environment` or by hand: one per line, quoted or not.

    Lines that are no assignment are left out, as systemd does. Values over several lines are not understood.
    """
    found = {}
    for line in text.split("\n"):
        name, is_assignment, rest = line.strip().partition("=")
        if is_assignment and _NAME.fullmatch(name):
            found[name] = _unquoted(rest.strip())
    return found


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _ESCAPED.sub(lambda found: found[1], text[1:-1])
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    return re.sub(r"\\(.)", r"\1", text)


def _quoted(text: str, dollars: bool) -> str:
    _check(text)
    text = text.replace("%", "%%")
    if dollars:
        text = text.replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check(text: str) -> None:
    if any(c != "\t" and unicodedata.category(c) in ("Cc", "Cs") for c in text):
        raise ValueError(
            f"{_shown(text)} cannot be written into a unit file: it has a line break or a control character in it"
        )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")

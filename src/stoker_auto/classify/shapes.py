"""The shapes that tell classes of tasks apart: code, diffs, errors, paths, sums. Pure.

No expression repeats without a bound or repeats a repetition: each is linear in the text.
"""

from __future__ import annotations

import re

FENCE = "```"
DIFF = re.compile(
    r"^(?:diff --git |@@ -\d|--- a/|\+\+\+ b/|[-+] {0,12}[a-z_]\w* ?[:=({.]|[-+](?:import|const|def|func) )", re.M
)
DIFFS = "d@-+"
"""Beginnings of the lines that DIFF finds."""
CHANGE = re.compile(rb"\n(?:[-+]|@@)")
"""If the text itself does not begin like a diff, DIFF is searched for only if one of these occurs."""
LINE = re.compile(
    r"[ \t]{0,40}+(?:def \w|class \w[\w(]{0,60}[:({ ]|func \w|fn \w|function[ (*]|import \w|"
    r"from \w[\w.]{0,60} import |const \w|"
    r"let \w|var \w|public |private |return[ ;]|if ?\(|for ?\(|while ?\(|#include|SELECT |FROM \w|"
    r"apiVersion:|@\w{2,40}$|"
    r"export |print[( ]|try:|package \w|resource \"|app\.\w|ALTER TABLE |DELETE FROM )"
)
"""How a line of code begins. A line of prose may begin like that, too: it is kept if it reads as a sentence."""
LINES = frozenset((
    "de", "cl", "fu", "fn", "im", "fr", "co", "le", "va", "pu", "pr", "re", "if", "fo", "wh", "#i", "SE", "FR", "ap",
    "ex", "tr", "pa", "AL", "DE",
))  # fmt: skip
LINE_START = re.compile(r"\n(?:[ \t@]|" + "|".join(sorted(LINES)) + ")")
"""Beginnings of the lines that LINE matches, after the line break."""
MARK = re.compile(
    r"[;{(=)</!&.:\]SAD](?:"
    r"(?<=[;{])(?=\n|$)|(?<=\()(?:\w{0,40}\)[:;.{ ]?(?=\n|$)|\w?\) ?\{)|(?<==)(?: \[\]|> |=)|(?<=\));|"
    r"(?<=<)/\w{1,20}>|(?<=/)>|(?<=!)= |(?<=&)&|(?<=\.)\w{1,30}\(|(?<=:)= |(?<=\])\((?=\n|$)|"
    r"(?<=S)ELECT .{1,80} FROM |(?<=A)LTER TABLE |(?<=D)ELETE FROM )"
)
"""Text that occurs only in code. The pattern begins with a set of characters, and each branch with one of the set:
the search skips to the next of them, ten times as fast as trying each branch at each character.
"""
MARKS = ("{", "=", ";", "<", ">", "&")
SQL = (b"SELECT ", b"ALTER TABLE ", b"DELETE FROM ")
CALL = re.compile(r"\((?:(?<=[\w\]]\()|\w{0,40}\))")
"""Every match of MARK holds one of MARKS, a word of SQL, or a CALL."""
ERRORS = (b"rror", b"Exception", b"SIG", b"segfault")
"""Every match of ERROR holds one of these, or what `asks` searches for if there is a bracket or a colon."""
ERROR = re.compile(r"Traceback \(most|(?<=\w)(?:Error|Exception)\b|error\[E\d|SIG(?:SEGV|ABRT|KILL)|segfault|panic: ")
FILE = re.compile(
    r"\.(?<=[\w-].)(?:py|tsx?|jsx?|go|rs|java|kt|c|h|cc|cpp|cs|rb|php|vue|md|ya?ml|toml|json|sql|"
    r"css|html|swift|scala|sh|ini|cfg)\b"
)
"""Endings of the names of code files."""
FOLDER = re.compile(r"/(?<=\w.)(?![^\s`'\"),.:;?])")
"""The ending of a folder's name."""

"""Sessions of people with coding agents, out of what their repositories keep of them.

Two forms are read, both committed by the people themselves:

- SpecStory, `.specstory/history/*.md`: one file for a session, `_**User**_` and `_**Agent**_` before each turn
- aider, `.aider.chat.history.md`: `# aider chat started at` before a session, `#### ` before what the person typed

Nothing of them is kept in this repository: `REPOSITORIES` says where they are, and `of_repository` reads a checkout,
with its history, because many were taken out again. A text that a program wrote (a summary of an earlier session, a
prompt for a sub-agent, the output of a command) is no turn.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

DEVELOPED_ON, HELD_OUT = "developed on", "held out"
REPOSITORIES = {
    "AllProAi/TV-App": DEVELOPED_ON,
    "Atlia-Code/website": DEVELOPED_ON,
    "AGalleonCodes/tft-bot": DEVELOPED_ON,
    "Aquaticat/Monochromatic": DEVELOPED_ON,
    "AryanSinCel/StreamList": DEVELOPED_ON,
    "ChrisGVE/MunsellSpace": DEVELOPED_ON,
    "edobry/minsky": DEVELOPED_ON,
    "specstoryai/tnyOffice": DEVELOPED_ON,
    "0xf1e/health-analyzer-poc": HELD_OUT,
    "Abhisekpm/JobSpeak": HELD_OUT,
    "AndyCross/pytato": HELD_OUT,
    "Aviweb/cab-booking-site": HELD_OUT,
    "BBXtreme/Waterfront": HELD_OUT,
    "Borewit/listFix": HELD_OUT,
    "CS485-Harmony/Harmony": HELD_OUT,
    "DanCard/cal-date-widget": HELD_OUT,
    "maloneype/yposfgold-community-platform": HELD_OUT,
    "specstoryai/getspecstory": HELD_OUT,
}
"""Where sessions are, and whether the rules were made on them. All of one repository are on the same side."""
MOST_TEXT = 20_000
"""Characters of one turn that are kept."""


class Call(NamedTuple):
    """A call of a tool: what it is for (read, write, shell, other), and the file that it names, if it names one."""

    kind: str
    path: str = ""


class Turn(NamedTuple):
    """What a person typed, and what the agent did until the next turn."""

    text: str
    calls: tuple[Call, ...] = ()
    said: str = ""
    """The end of what the agent wrote."""


class Session(NamedTuple):
    repository: str
    name: str
    turns: tuple[Turn, ...]


def digest(text: str) -> str:
    """By which a label names a turn, without its text."""
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).hexdigest()


# -- what is in a file -------------------------------------------------------------------------------------------------

_MARK = re.compile(r"^_\*\*(User|Agent|Assistant)\b([^\n]*?)\*\*_[ \t]*$", re.MULTILINE)
_TOOL = re.compile(r'data-tool-type="(\w+)"[^>]*data-tool-name="([^"]*)"')
_OLD_TOOL = re.compile(r"Tool use: \*\*(\w+)\*\*(?:[^\n]*?(?:file|File):? `?([^`\n<]+))?")
_OLD_READ = re.compile(r"^(?:Read|Listed|Searched|Grepped)\b[^\n]*", re.MULTILINE)
_OLD_EDIT = re.compile(
    r"<summary>(?:Edit|Create|Write|Delete|Edited|Created|Deleted)[^\n]*?file:? `?([^`\n<]*)", re.IGNORECASE
)
_FILE = re.compile(r"(?<![\w.])(?:[\w.@~-]*/)*[\w-]+\.(?:[a-z]{1,5}|[A-Z]{2})\b")
_WRITES = re.compile(r"edit|write|patch|create|delete|replace|insert", re.IGNORECASE)
_SHELLS = re.compile(r"bash|shell|terminal|command|exec", re.IGNORECASE)
_READS = re.compile(r"read|grep|glob|list|search|view|ls\b|fetch", re.IGNORECASE)
_KINDS = {"write": "write", "shell": "shell", "read": "read", "search": "read"}
_NOT_TYPED = re.compile(
    r"\s*(?:<(?!-|details)[\w-]+>|\[Request interrupted|This session is being continued|Caveat: |\[Image|API Error"
    r"|You are (?:a|an|the|consolidating|helping|reviewing|working)\b|Base directory for this skill|# Instructions|<!--"
    r"|\(no content\)|No response requested|/\w+ *\u23bf|Add file to the chat\?|cls$)"
)
_ADDED = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|local-command-\w+|command-\w+|"
    r"user-prompt-submit-hook|task-notification"
    r"|environment_details|bash-\w+)>.*?(?:</\1>|$)|\[Image #?\d*\]|^> /\w+.*$",
    re.DOTALL | re.MULTILINE,
)


def of_specstory(text: str, repository: str, name: str) -> Session:
    """The session of one file. Turns that no person typed are part of what the agent did."""
    marks = list(_MARK.finditer(text))
    turns: list[Turn] = []
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        part = text[mark.end() : end]
        if mark[1] == "User" and "sidechain" not in mark[2]:
            typed = _typed(part)
            if typed:
                turns.append(Turn(typed[:MOST_TEXT]))
                continue
        if turns and mark[1] != "User":
            last = turns[-1]
            said = _said(part)
            turns[-1] = last._replace(calls=(*last.calls, *_calls(part)), said=said or last.said)
    return Session(repository, name, tuple(turns))


def _typed(part: str) -> str:
    shown = re.sub(r"\n-{3,}\s*$", "", _ADDED.sub("", part).rstrip()).strip()
    return "" if not shown or _NOT_TYPED.match(shown) else shown


def _said(part: str) -> str:
    plain = re.sub(r"<(tool-use|details|think).*?</\1>", " ", part, flags=re.DOTALL)
    plain = re.sub(r"^-{3,}$", "", plain, flags=re.MULTILINE).strip()
    return plain[-2_000:]


def _calls(part: str) -> Iterator[Call]:
    for found in _TOOL.finditer(part):
        kind = _KINDS.get(found[1]) or _kind(found[2])
        yield Call(kind, _first_file(part[found.end() : found.end() + 600]))
    if "data-tool-type" in part:
        return
    for found in _OLD_TOOL.finditer(part):
        yield Call(_kind(found[1]), (found[2] or "").strip() or _first_file(part[found.end() : found.end() + 300]))
    for found in _OLD_READ.finditer(part):
        yield Call("read", _first_file(found[0]))
    for found in _OLD_EDIT.finditer(part):
        yield Call("write", found[1].strip())


def _kind(name: str) -> str:
    if _WRITES.search(name) and "todo" not in name.lower():
        return "write"
    if _SHELLS.search(name):
        return "shell"
    return "read" if _READS.search(name) else "other"


def _first_file(text: str) -> str:
    found = _FILE.search(text)
    return found[0] if found else ""


_AIDER = re.compile(r"^# aider chat started at .*$", re.MULTILINE)
_APPLIED = re.compile(r"^> Applied edit to (.+?)\s*$", re.MULTILINE)
_TYPED_TO_AIDER = re.compile(r"(?:^#### .*\n?)+", re.MULTILINE)


def of_aider(text: str, repository: str) -> Iterator[Session]:
    """The sessions of one file. Commands (`/add`, `/run`) are not sent to a model, except `/ask` and `/code`."""
    for at, part in enumerate(_AIDER.split(text)[1:]):
        marks = list(_TYPED_TO_AIDER.finditer(part))
        turns: list[Turn] = []
        for place, mark in enumerate(marks):
            end = marks[place + 1].start() if place + 1 < len(marks) else len(part)
            rest = part[mark.end() : end]
            typed = "\n".join(line[5:].rstrip() for line in mark[0].splitlines()).strip()
            typed = re.sub(r"^/(?:ask|code|architect)\s+", "", typed)
            if typed and not typed.startswith("/") and typed not in ("y", "n", "d", "a"):
                calls = tuple(Call("write", path) for path in _APPLIED.findall(rest))
                turns.append(Turn(typed[:MOST_TEXT], calls, rest.strip()[-2_000:]))
        if turns:
            yield Session(repository, f"aider-{at}", tuple(turns))


# -- what is in a repository -------------------------------------------------------------------------------------------


def of_repository(git_dir: Path, repository: str) -> list[Session]:
    """The sessions of a checkout or a bare clone, without those that another one begins with.

    Raises OSError, subprocess.CalledProcessError: git is missing, or this is no repository.
    """
    found: dict[str, Session] = {}
    for name, blob in _files(git_dir):
        text = _git(git_dir, "cat-file", "blob", blob).decode(errors="replace")
        sessions = of_aider(text, repository) if name.endswith(".aider.chat.history.md") else [
            of_specstory(text, repository, name)
        ]  # fmt: skip
        for session in sessions:
            key = digest(session.turns[0].text) if session.turns else ""
            if session.turns and (key not in found or len(found[key].turns) < len(session.turns)):
                found[key] = session
    return list(found.values())


def _files(git_dir: Path) -> Iterator[tuple[str, str]]:
    """Name and blob of each version of each file with sessions, of all that the history has."""
    paths = (".specstory/history", ":(glob)**/.specstory/history/**", ".aider.chat.history.md")
    shown = _git(
        git_dir,
        "-c",
        "core.quotePath=false",
        "log",
        "--all",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--format=",
        "--",
        *paths,
    ).decode(errors="replace")
    seen: dict[tuple[str, str], None] = {}
    for line in shown.splitlines():
        fields, _, name = line.partition("\t")
        blob = fields.split()[3] if fields.startswith(":") else ""
        if blob.strip("0") and name.endswith(".md"):
            seen[name, blob] = None
    yield from sorted(seen)


def _git(git_dir: Path, *words: str) -> bytes:
    place = git_dir / ".git" if (git_dir / ".git").exists() else git_dir
    done = subprocess.run(["git", f"--git-dir={place}", *words], capture_output=True, check=False)
    if done.returncode and not done.stdout:
        if words[0] == "cat-file":
            return b""  # a blob that the clone left out
        raise subprocess.CalledProcessError(done.returncode, "git", stderr=done.stderr)
    return done.stdout


def place_of(data: Path, repository: str) -> Path | None:
    """The clone of a repository below a folder: `DIR/NAME`, `DIR/OWNER/NAME` or `DIR/OWNER+NAME/repo`."""
    owner, _, name = repository.partition("/")
    places: Iterable[Path] = (data / owner / name, data / f"{owner}+{name}" / "repo", data / name)
    return next((place for place in places if place.is_dir()), None)

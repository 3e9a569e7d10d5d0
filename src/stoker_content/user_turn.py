"""What the person wrote in a turn, without the text that an agent's harness added. Pure, linear, and never raises.

An envelope is a pair of tags that a harness writes: its open tag begins a line or its close tag ends one. Each is

1. the person's words (`<task>`, `<user_query>`)    -> its tags are removed, its text stays
2. known as the harness's, or named like it         -> it is removed everywhere
3. of a form that only harnesses use (lower case with `-` or `_`, or camel case), on lines of its own at the beginning
   or the end of the turn                           -> it is removed if a request is left; else its text stays
4. the name of a command (`<command-name>`)         -> it is put first, with its slash; names of commands that ask the
                                                       model for nothing are removed
5. anything else: HTML, code, a tag inside a line   -> it stays as it is

A known open tag without a close tag, alone on its line, is removed with its paragraph and nothing else.
The shapes without tags, which follow the tags below, are removed afterwards. Add a shape to the tables when an agent
uses a new one; tags without an entry are judged by their form. Tag names are in lower case there, with `-` for `_`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple


class Tag(Enum):
    """What stands between two tags."""

    SPOKEN = "spoken"
    """The person's own words: only the tags are removed."""
    HARNESS = "harness"
    """The harness's words, wherever they stand."""
    SUMMARY = "summary"
    """A summary of earlier turns: the task is searched for in it."""
    COMMAND = "command"
    """The name of a command that the person typed; its text may follow, or be unknown."""
    LIKELY = "likely"
    """Most likely the harness's, if it begins or ends the turn on lines of its own."""


def _names(kind: Tag, names: str) -> dict[str, Tag]:
    return dict.fromkeys(names.split(), kind)


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


TAGS: dict[str, Tag] = {
    **_names(
        Tag.SPOKEN,
        # Cline, Roo, Kilo; Cursor; Copilot; Claude Code's commands
        "task feedback answer user-message user-query userrequest user-request user-prompt user-input command-args",
    ),
    **_names(
        Tag.HARNESS,
        # Claude Code
        "system-reminder command-message local-command-stdout local-command-stderr local-command-caveat "
        "bash-stdout bash-stderr ide-selection ide-opened-file ide-diagnostics new-diagnostics task-notification "
        "user-prompt-submit-hook session-start-hook post-tool-use-hook "
        # Codex
        "environment-context user-instructions permissions-instructions permissions instructions turn-aborted "
        "user-shell-command skills-instructions skill subagent-notification collaboration-mode personality-spec "
        "model-switch multi-agent-mode app-context "
        # Cline, Roo, Kilo
        "environment-details file-content folder-content explicit-instructions new-task-context "
        # Cursor, Copilot, Zed, opencode, goose, Gemini CLI, Qwen Code
        "additional-data attached-files open-and-recently-viewed-files user-info user-rules system-notification "
        "environment-info workspace-info editor-context editorcontext reminderinstructions toolreferences "
        "session-context info-msg env extremely-important ephemeral-message",
    ),
    **_names(Tag.COMMAND, "command-name"),
    **_names(Tag.SUMMARY, "state-snapshot conversation-summary"),
    **_names(Tag.LIKELY, "file files context attachments environment reminder memory memories workspace"),
}
LOCAL_COMMANDS = _words(
    "add-dir agents allowed-tools bashes bug clear color compact config context copy cost doctor effort exit export "
    "extra-usage fast feedback fork help hooks ide install-github-app keybindings login logout mcp memory "
    "migrate-installer "
    "mobile model output-style passes permissions plugin privacy-settings quit release-notes reload-plugins rename "
    "resume rewind sandbox skills stats status statusline stickers tasks terminal-setup theme todos upgrade usage vim"
)
"""Claude Code's own commands: they ask the model for nothing."""
SPOKEN_WORDS = _words(
    "request query question message prompt task feedback answer args arguments input goal objective issue story"
)
"""A tag of several words whose last word is one of these holds the person's words."""
HARNESS_WORDS = _words(
    "reminder reminders context environment env info information metadata state status stdout stderr caveat hook "
    "notification notifications rules settings memory memories skills details"
)
"""A tag of several words whose last word is one of these holds the harness's words."""

WHOLE = (
    # aider: files, its map of the repository, what it did and ran
    "I have *added these files to the chat*",
    "Here are summaries of some files present in my git repository",
    "Here are some READ ONLY files, provided for your reference",
    "I am not sharing any",
    "I'm not sharing any",
    "I updated the files.",
    "I committed the changes with git hash",
    "I ran this command:\n",
    "# Fix any linting errors below",
    # Claude Code
    "Caveat: The messages below were generated by the user while running local commands",
    "Your task is to create a detailed summary of the conversation so far",
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
    "Stop hook feedback:",
    # Codex
    "You are performing a CONTEXT CHECKPOINT COMPACTION",
    # opencode
    "Provide a detailed prompt for continuing our conversation above",
    "Provide a detailed but concise summary of our conversation above",
    "Summarize the task tool output above and continue",
    "Continue if you have next steps",
    "Called the Read tool with the following input",
    "Called the List tool with the following input",
    # Gemini CLI, Qwen Code
    "First, reason in your scratchpad",
    "Analyze *only* the content and structure of your immediately preceding response",
    "System: Please continue",
    # Cline, Roo, Kilo
    "[ERROR] You did not use a tool",
    "# task_progress ",
    "# TODO LIST",
    "The current conversation is rapidly running out of context",
)
"""Beginnings of texts that hold nothing from the person."""
FAILED_EDIT = re.compile(r"# \d{1,4} SEARCH/REPLACE blocks? failed to match")
"""aider: another such beginning, with a number."""
REST = (
    "# *SEARCH/REPLACE block* Rules:",
    "# *file listing* format:",
    "# File editing rules:",
    "To suggest changes to a file you MUST return",
)
"""Lines after which the rest of the text is the harness's: aider's reminder."""
LINES = (
    "[Request interrupted by user",
    "# AGENTS.md instructions for ",
    "[TASK RESUMPTION]",
    "Here's some useful information about the environment",
    "Here is some useful information about the environment",
    "Here is useful information about the environment",
    "Please continue the conversation from where we left",
    "(This is an automated message, so do not respond",
)
"""Lines that the harness adds."""
BETWEEN = ("--- Content from referenced files ---", "--- End of content ---")
"""Gemini CLI, Qwen Code: files that the person named stand between these lines."""
SET_UP = "We are setting up the context for our chat"
"""Gemini CLI, Qwen Code: in the first line of their set-up text, which precedes the first request."""
SET_UP_LINES = (
    "Today's date", "My operating system", "The project's temporary directory", "I'm currently working in",
    "Here is the folder structure", "Showing up to", "Reminder:", "/", "~", "├", "│", "└",
)  # fmt: skip
RESULT = re.compile(r"\[\w{2,40}(?: for '[^\n]{0,400})?\] Result:")
"""Cline, Roo: tool results, as text of the user."""
RESET = ("I switched to a new code base. Please don't consider the above files",)
"""aider: everything before was an example, written in the user's name."""
SUMMARIES = (
    "This session is being continued from a previous conversation",
    "I spoke to you previously about a number of things",
    "Another language model started to solve this problem and produced a summary",
    "The following is a summary of the conversation",
    "Here is a summary of the conversation",
    "Here is a summary of our conversation",
    "# Conversation summary",
)
"""Beginnings of texts that summarise turns which were left out."""
RECAP = ("What did we do so far?",)
"""opencode: the model's next turn is a summary of what was left out."""
PROMPT_TOOLS = (
    b"write_to_file", b"replace_in_file", b"execute_command", b"apply_diff", b"apply_patch", b"SEARCH/REPLACE",
    b"str_replace", b"```bash",
)  # fmt: skip
"""Words in the system prompt of an agent that edits files from its model's text, without offering tools."""


MOST_SUMMARY = 65_536
"""Characters of a summary that are read."""
MOST_FOUND = 32
_HEADING = re.compile(
    r"^[ \t#*\d.)>_-]{0,12}<?(?:all user messages|primary request|overall[ _]goal|original (?:request|task)|user'?s? "
    r"(?:request|goal|task|messages)|main (?:request|goal|task)|current task|task|goal|objective)\b"
    r"(?P<same>[^\n]{0,2000})",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT = re.compile(
    r"^(?:[ \t]{0,3}\d{1,2}\. |#{1,6} |[ \t]{0,3}\*\*[^*\n]{1,80}\*\*:?[ \t]*$|[ \t]*</?\w+>)", re.MULTILINE
)
"""How the next section begins."""
_TOLD = re.compile(
    r"\b(?:the )?user(?:'s)? (?:has |had |first |then |also |originally |initially )?"
    r"(?:asked|asks|wants|wanted|requested|requests|needs|needed|instructed|told|request (?:is|was))"
    r"(?: me| us| you| for| that| the assistant)?(?: to)? (?P<what>[^\n]{4,2000})",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^[ \t>*\d.)\"'`“-]{1,12}")
_MOST_SECTION = 8_192


def requests_in(summaries: Iterable[str]) -> tuple[str, ...]:
    """The requests, newest first if the summary says which is newest; empty if it mentions none."""
    found: dict[str, None] = {}
    for summary in summaries:
        text = summary[:MOST_SUMMARY]
        for told in islice(_TOLD.finditer(text), MOST_FOUND):
            _add(found, told["what"])
        for heading in islice(_HEADING.finditer(text), MOST_FOUND):
            _add(found, heading["same"].partition(":")[2] or heading["same"].partition(">")[2])
            rest = text[heading.end() : heading.end() + _MOST_SECTION]
            after = _NEXT.search(rest)
            for line in rest[: after.start() if after else None].split("\n")[:MOST_FOUND]:
                _add(found, line)
    return tuple(reversed(found))


def _add(found: dict[str, None], line: str) -> None:
    text = _LEAD.sub("", line).strip().rstrip("\"'`”*")
    told = _TOLD.match(text)
    text = told["what"] if told else text
    if len(text) >= 4 and len(found) < MOST_FOUND:
        found[text[:1].upper() + text[1:]] = None


MOST_TAGS = 20_000
"""Characters `<` of one text that are examined; the text after them is kept unchanged."""
FEW_WORDS = 4
"""If fewer words than this are left, an envelope with an unknown name is taken to be the request."""
MOST_BLANKS = 64
"""Blanks that may stand between an envelope and the edge of its line."""
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_.:-]{0,63})([ \t][^<>\n]{0,300})?(/?)>")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class UserTurn(NamedTuple):
    """`requests`: what the person asked for, newest first; more than one only if the turn is a summary."""

    requests: tuple[str, ...] = ()
    is_summary: bool = False
    """The turn summarises earlier turns that are left out."""
    is_reset: bool = False
    """Nothing before this turn belongs to the conversation."""
    has_results: bool = False
    """The turn holds tool results, as text."""
    is_recap: bool = False
    """The model's next turn is the summary."""


class _Pair(NamedTuple):
    start: int
    inner: int
    close: int
    end: int
    kind: Tag
    is_alone: bool
    """The pair begins a line and ends a line."""


class _Open(NamedTuple):
    start: int
    end: int
    kind: Tag
    begins: bool
    """The tag is at the beginning of a line."""


class _Text(NamedTuple):
    text: str
    pairs: list[_Pair]
    unclosed: list[_Open]


def read_user_turn(texts: Iterable[str]) -> UserTurn:
    """Reads the texts of one turn."""
    texts = list(texts)
    if len(texts) == 1 and is_bare(texts[0]):
        return UserTurn((texts[0],) if texts[0].strip() else ())
    parts = [_envelopes(text) for text in texts]
    if any(RESULT.match(part.text.lstrip()) for part in parts):
        return UserTurn(_joined(_inside(parts, Tag.SPOKEN)), has_results=True)
    told = _inside(parts, Tag.SUMMARY)
    plain = [_unquoted(_plain(_without(part, True))) for part in parts]
    if len(" ".join(plain).split(maxsplit=FEW_WORDS)) < FEW_WORDS and _has_likely(parts):
        plain = [_unquoted(_plain(_without(part, False))) for part in parts]
    if any(text.startswith(RESET) for text in plain):
        return UserTurn(is_reset=True)
    if any(text.startswith(RECAP) for text in plain):
        return UserTurn(is_recap=True)
    told += [text for text in plain if text.startswith(SUMMARIES)]
    said = [text for text in plain if not text.startswith(SUMMARIES)]
    if told:
        return UserTurn((*_joined(said), *requests_in(told)), is_summary=True)
    if names := _inside(parts, Tag.COMMAND):
        said = [*_commands(names), *said]
    return UserTurn(_joined(said))


def _commands(tagged: Iterable[str]) -> list[str]:
    """The names of commands that the model is asked to do, each with its slash."""
    names = [name.strip().lstrip("/") for name in tagged]
    return [f"/{name}" for name in dict.fromkeys(names) if name and name not in LOCAL_COMMANDS]


def is_bare(text: str) -> bool:
    """Whether the text certainly holds no shape of `harness`. False: it has to be read in full."""
    if text[:1] == '"' or "<" in text or "#" in text or "[" in text or "---" in text or "setting up the" in text:
        return False
    if "Please continue the" in text or "(This is an" in text or "To suggest changes" in text:
        return False
    return not text.startswith(_BEGINS) and not (text[:1].isspace() and text.lstrip().startswith(_BEGINS))


_BEGINS = (*WHOLE, *SUMMARIES, *RESET, *RECAP)


def _joined(texts: Sequence[str]) -> tuple[str, ...]:
    text = "\n".join([text for text in texts if text.strip()])
    return (text,) if text else ()


def _inside(parts: Sequence[_Text], kind: Tag) -> list[str]:
    return [part.text[pair.inner : pair.close] for part in parts for pair in part.pairs if pair.kind is kind]


def _has_likely(parts: Sequence[_Text]) -> bool:
    return any(pair.kind is Tag.LIKELY for part in parts for pair in part.pairs)


# -- tags --------------------------------------------------------------------------------------------------------------


def _kind(name: str, more: str) -> Tag | None:
    """What kind of tag it is; None: not an envelope. `more`: the text in the tag after its name."""
    key = name.lower().replace("_", "-")
    if (found := TAGS.get(key)) is not None:
        return found
    is_camel = name[0].islower() and not name.islower() and name.isalnum()
    if not is_camel and ("-" not in key or "." in key or ":" in key or (name != name.lower() and name != name.upper())):
        return None
    words = (_CAMEL.sub("-", name) if is_camel else key).lower().split("-")
    if words[-1] in SPOKEN_WORDS:
        return Tag.SPOKEN
    return Tag.HARNESS if words[-1] in HARNESS_WORDS and "=" not in more else Tag.LIKELY


def _envelopes(text: str) -> _Text:
    """Pairs tags in one pass. A close tag belongs to the nearest open tag of its name. If the close tag ends a line,
    open tags that begin a line are preferred; otherwise the other ones are.
    """
    pairs: list[_Pair] = []
    opens: dict[str, tuple[list[_Open], list[_Open]]] = {}
    at, looks = text.find("<"), 0
    first = len(text) - len(text.lstrip()) if at >= 0 else 0
    while at >= 0 and looks < MOST_TAGS:
        looks += 1
        found = _TAG.match(text, at)
        if found is None or found[4]:
            at = text.find("<", at + 1)
            continue
        at = text.find("<", found.end())
        name, more = found[2], found[3] or ""
        if found[1]:
            if name not in opens:
                continue
            strong, weak = opens[name]
            ends = _ends_line(text, found.end())
            stack = (strong or weak) if ends else (weak or strong)
            if stack:
                one = stack.pop()
                if one.begins or ends:
                    pairs.append(_Pair(one.start, one.end, found.start(), found.end(), one.kind, one.begins and ends))
        elif (kind := _kind(name, more)) is not None:
            begins = found.start() == first or _begins_line(text, found.start())
            opens.setdefault(name, ([], []))[not begins].append(_Open(found.start(), found.end(), kind, begins))
    pairs.sort()
    return _Text(text, pairs, [one for strong, _ in opens.values() for one in strong])


def _begins_line(text: str, at: int) -> bool:
    before = text[max(0, at - MOST_BLANKS) : at].rstrip(" \t")
    return (not before and at <= MOST_BLANKS) or before[-1:] in ("\n", ">")


def _ends_line(text: str, at: int) -> bool:
    after = text[at : at + MOST_BLANKS].lstrip(" \t\r")
    return (not after and at + MOST_BLANKS >= len(text)) or after[:1] in ("\n", "<")


def _without(part: _Text, drops_likely: bool) -> str:
    text = part.text
    if not part.pairs and not part.unclosed:
        return text
    gone: list[tuple[int, int]] = []
    end = 0
    likely: list[_Pair] = []
    for pair in part.pairs:
        if pair.start < end:
            continue  # inside a pair that is removed
        if pair.kind in (Tag.HARNESS, Tag.SUMMARY, Tag.COMMAND):
            gone.append((pair.start, pair.end))
            end = pair.end
        elif pair.kind is Tag.SPOKEN or not drops_likely:
            gone += [(pair.start, pair.inner), (pair.close, pair.end)]
        elif pair.is_alone:
            likely.append(pair)
    gone += _unclosed(part, sorted(gone))
    gone += _at_edges(text, likely, sorted(gone))
    pieces = [piece.strip("\r\n") for piece in _left(text, 0, len(text), sorted(gone))]
    return "\n\n".join([piece for piece in pieces if piece.strip()])


def _unclosed(part: _Text, gone: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What to remove for each known open tag without a close tag: its paragraph; of a person's tag only the tag."""
    found: list[tuple[int, int]] = []
    end = 0
    for one in sorted(part.unclosed):
        within = bisect_left(gone, (one.start, one.start)) - 1
        if one.start < end or (within >= 0 and one.start < gone[within][1]) or one.kind is Tag.LIKELY:
            continue
        if one.kind is Tag.SPOKEN:
            end = one.end
        elif _ends_line(part.text, one.end) or not part.text[one.end : one.end + 1].isspace():
            end = _paragraph(part.text, one.end)
        else:
            continue  # the person writes about the tag
        found.append((one.start, end))
    return found


def _paragraph(text: str, at: int) -> int:
    end = text.find("\n\n", at + 1)
    return len(text) if end < 0 else end


def _at_edges(text: str, likely: Sequence[_Pair], gone: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs of `likely` that begin or end the turn, once what is in `gone` is removed."""
    found: list[tuple[int, int]] = []
    begin, end = 0, len(text)
    for pair in likely:
        if pair.start < begin:
            continue
        if _holds(text, begin, pair.start, gone):
            break
        found.append((pair.start, pair.end))
        begin = pair.end
    for pair in sorted(likely, key=lambda pair: -pair.end):
        if pair.end > end or pair.start < begin:
            continue
        if _holds(text, pair.end, end, gone):
            break
        found.append((pair.start, pair.end))
        end = pair.start
    return found


def _holds(text: str, start: int, end: int, gone: Sequence[tuple[int, int]]) -> bool:
    return any(piece.strip() for piece in _left(text, start, end, gone))


def _left(text: str, start: int, end: int, gone: Sequence[tuple[int, int]]) -> list[str]:
    """The pieces between `start` and `end` that are not in `gone`, which is sorted."""
    found: list[str] = []
    at = max(0, bisect_left(gone, (start, start)) - 1)
    while at < len(gone) and gone[at][0] < end:
        if gone[at][0] > start:
            found.append(text[start : gone[at][0]])
        start = max(start, gone[at][1])
        at += 1
    if start < end:
        found.append(text[start:end])
    return found


# -- shapes without tags -----------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Without the harness's: 1. whole texts  2. set-up  3. text after a known line  4. files between lines  5. lines"""
    shown = text.lstrip()
    if shown.startswith(WHOLE) or (shown[:2] == "# " and FAILED_EDIT.match(shown)):
        return ""  # 1
    if SET_UP in shown[:200]:
        text = shown = _after_set_up(shown)  # 2
    for line in REST:
        if (at := _line(shown, line)) >= 0:
            text = shown = shown[:at]  # 3
    begin, end = BETWEEN
    if (at := _line(shown, begin)) >= 0 and (until := shown.find(end, at)) >= 0:
        text = shown = f"{shown[:at]}{shown[until + len(end) :]}"  # 4
    if any(line in shown for line in LINES):
        kept = [line for line in shown.split("\n") if not line.lstrip().startswith(LINES)]
        text = "\n".join(kept)  # 5
    return text if text.strip() else ""


def _unquoted(text: str) -> str:
    """opencode puts what was typed on its command line in quotation marks."""
    shown = text.strip()
    is_quoted = len(shown) > 2 and shown[0] == shown[-1] == '"' and '"' not in shown[1:-1]
    return shown[1:-1] if is_quoted else text


def _line(text: str, line: str) -> int:
    """Offset of the first line that begins with `line`; -1: there is none."""
    if text.startswith(line):
        return 0
    at = text.find(f"\n{line}")
    return at + 1 if at >= 0 else -1


def _after_set_up(text: str) -> str:
    lines = text.split("\n")
    for at, line in enumerate(lines[1:], 1):
        shown = line.strip()
        if shown and not shown.startswith(SET_UP_LINES) and SET_UP not in shown:
            return "\n".join(lines[at:])
    return ""

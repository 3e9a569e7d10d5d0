"""What routing looks at in a request: the requests of its conversation, its tools, images and length. Pure.

`read_body_fields` proved that the body is JSON, so nothing here fails: a field that is not where its dialect has it is
ignored. The cost is two passes that skip most of the body; then the texts of the user's turns are read, newest first.
`user_turn` removes what an agent's harness added to a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.task import MAX_SYSTEM_WORDS, MAX_TEXT, Around, Outline
from stoker.request.codec.tolerant_json import NOT_JSON
from stoker_content.user_turn import PROMPT_TOOLS, is_bare, read_user_turn, requests_in

_ABSENT = msgspec.Raw(b"")
_text = msgspec.json.Decoder(str)
_RESULT_PARTS = ("tool_result", "function_call_output", "custom_tool_call_output")
_IMAGES = ("image", "image_url", "input_image")
_FILES = ("document", "file", "input_file", "container_upload")
_TEXTS = ("text", "input_text", "output_text")
_CLOSE = (MAX_TEXT, 3 * MAX_TEXT)
"""Bytes of JSON that usually hold MAX_TEXT / 2 characters; and bytes that always do, six for each character."""
_MOST_CUT = 1_024
"""Bytes among which a place to cut is searched."""
_SAFE = re.compile(rb"[ \xc0-\xff]")
"""A JSON string may be cut before such a byte: it is not inside an escape or a character."""


class _Part(msgspec.Struct, gc=False):
    """One part of a turn's content. Images and results may be long, and are only counted."""

    type: Any = ""
    text: msgspec.Raw = _ABSENT


class _Result(msgspec.Struct, gc=False):
    type: Any = ""
    content: msgspec.Raw = _ABSENT


_results = msgspec.json.Decoder(list[_Result])
_parts = msgspec.json.Decoder(list[_Part])
_part = msgspec.json.Decoder(_Part)
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class TurnContent(msgspec.Struct):
    """One turn's content: its texts, as JSON, and what else is in it."""

    texts: list[msgspec.Raw] = []
    images: int = 0
    files: int = 0
    results: int = 0


def turn_content(raw: msgspec.Raw) -> TurnContent:
    """Reads a text or a list of parts; anything else is empty content."""
    found = TurnContent(texts=[])
    head = first(raw)
    if head == b'"':
        found.texts.append(raw)
    elif head == b"[":
        try:
            parts = _parts.decode(raw)
        except NOT_JSON:
            return _mixed(raw)
        for part in parts:
            _look(part, found)
    return found


def results_of(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The contents of the tool results in a list of parts."""
    try:
        return [part.content for part in _results.decode(raw) if part.type in _RESULT_PARTS]
    except NOT_JSON:
        return []


def beginning(raw: msgspec.Raw, most: int) -> tuple[str, bool]:
    """The text of a JSON string, or its beginning of about `most` bytes; and whether it is whole."""
    if len(raw) <= most:
        return decoded(raw), True
    at = _SAFE.search(raw, most, most + _MOST_CUT)
    return (decoded(bytes(memoryview(raw)[: at.start()]) + b'"') if at is not None else ""), False


def ending(raw: msgspec.Raw, most: int) -> str:
    """The text of a JSON string, or its end of about `most` bytes."""
    if len(raw) <= most:
        return decoded(raw)
    size = len(raw)
    at = _SAFE.search(raw, size - most, size)
    return decoded(b'"' + bytes(memoryview(raw)[at.start() :])) if at is not None else ""


def first(raw: msgspec.Raw) -> bytes:
    """The first byte, which tells the kind of JSON value; empty if the field is missing."""
    return bytes(memoryview(raw)[:1])


def shortened_text(raw: msgspec.Raw) -> str:
    """The text. Of a very long one at least MAX_TEXT / 2 characters from either end, if that is cheaper to read: the
    text between them would be cut anyway.
    """
    size = len(raw)
    for close in _CLOSE:
        if size <= 4 * close:
            break
        head, tail = _SAFE.search(raw, close), _SAFE.search(raw, size - close)
        if head is None or tail is None or head.start() > tail.start():
            break
        view = memoryview(raw)
        begin = decoded(bytes(view[: head.start()]) + b'"')
        end = decoded(b'"' + bytes(view[tail.start() :]))
        if min(len(begin), len(end)) >= MAX_TEXT // 2 and begin.strip():
            return f"{begin}\n{end}"
    return decoded(raw)


def decoded(raw: msgspec.Raw | bytes) -> str:
    """The text of a JSON string; empty if it is not a valid string."""
    try:
        return _text.decode(raw)
    except NOT_JSON:
        return ""


def _mixed(raw: msgspec.Raw) -> TurnContent:
    """A list with entries that are not parts: a bare string counts as a text part."""
    found = TurnContent(texts=[])
    for each in _raws.decode(raw):
        head = first(each)
        if head == b'"':
            found.texts.append(each)
        elif head == b"{":
            with suppress(*NOT_JSON):
                _look(_part.decode(each), found)
    return found


def _look(part: _Part, found: TurnContent) -> None:
    if part.type in _TEXTS and first(part.text) == b'"':
        found.texts.append(part.text)
    found.images += part.type in _IMAGES
    found.files += part.type in _FILES
    found.results += part.type in _RESULT_PARTS


CHANGES = re.compile(
    r"(?<!cr)edit|writ|(?<!dis)patch|replac|insert|creat|delet|remov|renam|append|modif|updat|save|shell|bash|exec|terminal"
    r"|command|console|interpreter|notebook|computer|commit|apply|mkdir|upload|refactor"
    r"|(?<![a-z])(?:mv|rm|cp|sh|zsh|pwsh|cmd|run|put|move|copy|git|sed|python|repl|touch|fix|format|agent|task|mcp)(?![a-z])"
)
"""Words in the name or type of a tool that can change files, or can run or request something that can. Camel case is
split first, and prefixes (`mcp__files__`) do not matter.
"""
READS = re.compile(
    r"(?:get|list|read|search|find|show|view|look|fetch|query)_"
    r"(?!.*(?:writ|edit|delet|remov|renam|replac|patch|shell|bash|exec|and_|or_))"
)
"""First words in the names of tools that only read: `get_task`, `list_commits`."""
DESCRIBED = re.compile(
    r"\b(?:edit|modif|writ|chang|creat|delet|mov|renam|patch|overwrit|replac|sav)\w{0,8}\b[^.\n]{0,60}"
    r"\b(?:files?|folders?|director\w+|disk|code|repo\w*|workspace|documents?)\b"
    r"|\b(?:run|execut|launch)\w{0,8}\b[^.\n]{0,60}\b(?:commands?|shell|scripts?|bash|programs?|code|process\w*)\b",
    re.IGNORECASE,
)
"""Words in a tool's description, for tools whose name does not decide."""
MOST_DESCRIBED = 300
"""Characters of a description that are read."""
SERVERS = ("mcp", "mcp_toolset", "tool_search")
"""Types of tools that stand for other tools, which the request does not list."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _Tool(msgspec.Struct, gc=False):
    """Chat nests it under `function`; a namespace of Responses holds `tools`."""

    type: Any = ""
    name: Any = ""
    description: msgspec.Raw = _ABSENT
    function: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT


class Toolbox(NamedTuple):
    size: int = 0
    changes_files: bool = False


_tools = msgspec.json.Decoder(list[_Tool])
_tool = msgspec.json.Decoder(_Tool)


def toolbox(raw: msgspec.Raw) -> Toolbox:
    """Reads a list of tools; anything else has no tools."""
    if bytes(memoryview(raw)[:1]) != b"[":
        return Toolbox()
    try:
        found = _tools.decode(raw)
    except NOT_JSON:
        return _odd(raw)
    return Toolbox(len(found), _changes(list(_flat(found))))


def _odd(raw: msgspec.Raw) -> Toolbox:
    """A list with entries that are not tools: engines may read these in any way."""
    try:
        return Toolbox(len(_raws.decode(raw)), True)
    except NOT_JSON:
        return Toolbox(0, True)


def _flat(tools: Iterable[_Tool], depth: int = 0) -> Iterator[_Tool]:
    for tool in tools:
        yield tool
        for raw in (tool.function, tool.tools) if depth < 2 else ():
            head = bytes(memoryview(raw)[:1])
            try:
                if head in (b"{", b"["):
                    yield from _flat([_tool.decode(raw)] if head == b"{" else _tools.decode(raw), depth + 1)
            except NOT_JSON:
                yield _Tool(type=SERVERS[0])


def _changes(tools: Iterable[_Tool]) -> bool:
    tools = list(tools)
    if any(tool.type in SERVERS or _named(tool.name) or _named(tool.type) for tool in tools):
        return True
    return any(tool.description and _described(tool.description) for tool in tools)


def _named(name: object) -> bool:
    if not isinstance(name, str) or name == "function":
        return False
    plain = _CAMEL.sub("_", name[:200]).lower().replace("-", "_")
    last = plain.rsplit("__", 1)[-1]
    return CHANGES.search(last) is not None and READS.match(last) is None


def _described(raw: msgspec.Raw) -> bool:
    try:
        return DESCRIBED.search(_text.decode(raw)[:MOST_DESCRIBED]) is not None
    except NOT_JSON:
        return False


_FORCED = ("required", "any", "tool", "function", "custom")
_SYSTEMS = ("system", "developer")
_MOST_SYSTEM = 12 * 20 * MAX_SYSTEM_WORDS + 2
"""A system prompt of more bytes of JSON is certainly not short: a character takes twelve bytes at most."""
_LONG_SYSTEM = 1_024
"""Only a system prompt of at least so many bytes of JSON is searched for descriptions of tools."""
_MOST_SYSTEMS = 4
_RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output", "local_shell_call_output",
            "shell_call_output", "apply_patch_call_output", "computer_call_output")  # fmt: skip
MOST_TURNS = 2_048
"""How many turns of the user are read, newest first."""
MOST_REQUESTS = 256
"""How many requests of one conversation are read, newest first."""
MOST_BYTES = 1_048_576
"""How many bytes of the user's texts are read, newest first."""
FIRST_RESULTS = 3
"""How many tool results after a request are read, the first ones."""
MOST_RESULT = 4_096
"""Bytes of JSON of each of them that are read."""
MOST_SAID = 2_048
"""Bytes of JSON that are read of the end of what the model wrote before a request."""
MOST_POINTING = 1_024
"""Only around requests of at most so many characters it is read what the model wrote, and what tools gave."""
MOST_CALLS = 512
"""Calls of tools that are read in one conversation, newest first."""
MOST_ARGUMENTS = 600
"""Bytes of the arguments of each in which the name of a file is looked for."""
MOST_AROUND = 65_536
"""Bytes that are read around all requests of a conversation, newest first."""


class _Turn(msgspec.Struct, gc=False):
    role: Any = ""
    type: Any = ""
    content: msgspec.Raw = _ABSENT
    output: msgspec.Raw = _ABSENT
    """Of a tool's result in Responses."""
    tool_calls: msgspec.Raw = _ABSENT
    name: Any = ""
    """Of a call in Responses; so are `arguments`, and `input` of a custom tool."""
    arguments: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    """Codex offers some tools in an item of the input."""


class _Body(msgspec.Struct):
    messages: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    instructions: Any = None
    tools: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT
    mcp_servers: msgspec.Raw = _ABSENT
    tool_choice: Any = None
    response_format: Any = None
    text: Any = None
    format: Any = None
    output_config: Any = None
    thinking: Any = None
    think: Any = None
    reasoning: Any = None
    reasoning_effort: Any = None
    metadata: Any = None
    previous_response_id: Any = None
    stop: Any = None
    stop_sequences: Any = None
    suffix: Any = None
    options: Any = None
    """Of Ollama."""


class _KeptElsewhere(msgspec.Struct):
    """Earlier turns that are not in the body: of Responses; of Ollama, as tokens."""

    conversation: Any = None
    context: msgspec.Raw = _ABSENT


class _Talk(NamedTuple):
    requests: tuple[str, ...] = ()
    is_cut: bool = False
    images: int = 0
    has_results: bool = False
    around: tuple[Around, ...] = ()


_body = msgspec.json.Decoder(_Body)
_kept_elsewhere = msgspec.json.Decoder(_KeptElsewhere)
_turns = msgspec.json.Decoder(list[_Turn])
_turn = msgspec.json.Decoder(_Turn)
_BRIEF = 8_192
"""A text of at most so many bytes is first tried as one without envelopes."""


def outline(dialect: Dialect, body: bytes) -> tuple[Outline, str | None]:
    """The outline, and the class that the body declares (`metadata.stoker_class`). Never raises."""
    try:
        fields = _body.decode(body)
    except NOT_JSON:
        return Outline(size=len(body), is_cut=True, changes_files=b'"tools"' in body), None
    turns, is_whole = _turns_of(fields)
    told = [turn.content for turn in turns if turn.role in _SYSTEMS]
    if fields.system:
        told.append(fields.system)
    systems = [decoded(text) for content in told for text in turn_content(content).texts if len(text) <= _MOST_SYSTEM]
    if isinstance(fields.instructions, str):
        systems.append(fields.instructions)
    declared = fields.metadata.get("stoker_class") if isinstance(fields.metadata, dict) else None
    tools = toolbox(fields.tools or fields.functions)
    changes_files = tools.changes_files or _changes_otherwise(fields, turns, told, tools)
    is_continued, hides_tools = fields.previous_response_id is not None, False
    if dialect in _KEEPS_TURNS:
        is_continued, hides_tools = _is_continued(dialect, fields, body)
    talk = _talk(turns, changes_files) if turns else _plain(fields)
    seen = Outline(
        text=talk.requests[0] if talk.requests else "",
        earlier=talk.requests[1:],
        is_cut=talk.is_cut or not is_whole or is_continued,
        changes_files=changes_files,
        hides_tools=hides_tools,
        around=talk.around,
        systems=tuple([text for text in systems if _is_short(text)][:_MOST_SYSTEMS]),
        size=len(body),
        turns=sum([turn.role == "user" for turn in turns]) or 1,
        tools=tools.size,
        forces_tool=_forces(fields.tool_choice),
        has_results=talk.has_results,
        may_be_empty=talk.has_results or _has_end_of_its_own(fields) or (bool(turns) and turns[-1].role == "assistant"),
        wants_json=_wants_json(fields),
        images=talk.images,
        wants_thinking=_wants_thinking(fields),
    )
    return seen, declared if isinstance(declared, str) else None


def _turns_of(fields: _Body) -> tuple[list[_Turn], bool]:
    """The turns of chat and Messages, or of Responses if its input is a list; and whether all could be read."""
    for raw in (fields.messages, fields.input):
        if first(raw) == b"[":
            try:
                return _turns.decode(raw), True
            except NOT_JSON:
                return _odd_turns(raw), False
    return [], True


def _has_end_of_its_own(fields: _Body) -> bool:
    """Whether the client says where the answer ends: at a stop sequence, or before text that follows it."""
    options = fields.options if isinstance(fields.options, dict) else {}
    return bool(fields.stop or fields.stop_sequences or fields.suffix or options.get("stop"))


def _odd_turns(raw: msgspec.Raw) -> list[_Turn]:
    found = []
    try:
        raws = _raws.decode(raw)
    except NOT_JSON:
        return []
    for each in raws:
        try:
            found.append(_turn.decode(each))
        except NOT_JSON:
            continue
    return found


def _plain(fields: _Body) -> _Talk:
    one = turn_content(fields.input or fields.prompt)
    found = read_user_turn([shortened_text(text) for text in one.texts])
    requests = tuple(map(_cut, found.requests))
    around = (Around((), True, "", bool(one.files or one.images), 0, not (found.has_results or found.is_summary)),)
    return _Talk(requests, found.is_summary and not requests, one.images, around=around * len(requests))


def _is_continued(dialect: Dialect, fields: _Body, body: bytes) -> tuple[bool, bool]:
    """Whether earlier turns, or the prompt itself, are kept elsewhere; and whether these may tell of tools."""
    if dialect is Dialect.OLLAMA_GENERATE:
        if b'"context"' not in body:
            return fields.previous_response_id is not None, False
        is_given = _holds_any(_kept_elsewhere.decode(body).context)
        return is_given, is_given
    if fields.previous_response_id is not None or first(fields.prompt) == b"{":
        return True, False
    return b'"conversation"' in body and _kept_elsewhere.decode(body).conversation is not None, False


_KEEPS_TURNS = frozenset((Dialect.OLLAMA_GENERATE, Dialect.RESPONSES))


_EDITS = re.compile(
    r"edit|writ|(?<!dis)patch|replac|insert|creat|delet|remov|renam|append|modif|updat|apply", re.IGNORECASE
)
"""Words in the names of tools whose call changes the file that it names."""
_NAMES_FILE = re.compile(
    rb'\\?"(?:file_?path|path|file_?name|target_file|relative_(?:workspace_)?path|notebook_path|file)\\?"\s*:\s*\\?"'
    rb'((?:[^"\\]|\\{2,4}(?!")){1,300})',
    re.IGNORECASE,
)
_LOOKS_ONLY = re.compile(rb'"?\s*\{\s*\\?"command\\?"\s*:\s*\\?"view\\?"')
"""The call of a tool that edits, which only shows the file."""
_PATCHES_FILE = re.compile(rb"\*\*\* (?:Update|Add|Delete) File: ([^\\\"\n]{1,300})")
"""The name of a file in a patch as Codex writes it, in the arguments of any tool."""


class _Function(msgspec.Struct, gc=False):
    name: Any = ""
    arguments: msgspec.Raw = _ABSENT


class _Call(msgspec.Struct, gc=False):
    """A call of chat, or a part of Messages."""

    type: Any = ""
    name: Any = ""
    input: msgspec.Raw = _ABSENT
    function: _Function | None = None


_calls = msgspec.json.Decoder(list[_Call])


def _called(turn: _Turn) -> Iterator[tuple[object, msgspec.Raw]]:
    """Names and arguments of the tools that a turn of the model calls, of chat, Responses and Messages."""
    if (given := turn.arguments or turn.input) and turn.type not in _RESULTS:
        yield turn.name, given
    for raw in (turn.tool_calls, turn.content):
        if first(raw) == b"[":
            try:
                calls = _calls.decode(raw)
            except NOT_JSON:
                continue
            for call in calls:
                if call.function is not None:
                    yield call.function.name, call.function.arguments
                elif call.type == "tool_use":
                    yield call.name, call.input


class _Surroundings:
    """Collects what stands around the requests of a conversation, from its newest turn to its oldest."""

    def __init__(self) -> None:
        self._left = MOST_AROUND
        self._results: list[msgspec.Raw] = []
        """Contents of the tool results of newer turns, up to the request that they belong to, the newest first."""
        self._wants_said = False
        self._calls_left = MOST_CALLS
        self._changed: set[bytes] = set()
        """Files that newer calls change, up to the request that they belong to."""
        self._found: list[Around] = []
        self._just_read = 0
        """How many requests, at the end of `_found`, stand in the turn that was read last."""

    def on_calls(self, turn: _Turn) -> None:
        self._just_read = 0
        if self._calls_left <= 0:
            return
        for name, arguments in _called(turn):
            self._calls_left -= 1
            patched = _PATCHES_FILE.findall(arguments, 0, MOST_ARGUMENTS)
            self._changed.update(patched)
            if not patched and isinstance(name, str) and _EDITS.search(name[:100]):
                found = _NAMES_FILE.search(arguments, 0, MOST_ARGUMENTS)
                if found is not None and _LOOKS_ONLY.match(arguments) is None:
                    self._changed.add(found[1])

    def on_results(self, contents: Iterable[msgspec.Raw]) -> None:
        self._results += contents
        for at in range(len(self._found) - self._just_read, len(self._found)):
            self._found[at] = self._found[at]._replace(is_own=False)  # it follows results without an answer between
        self._just_read = 0

    def on_model(self, content: msgspec.Raw) -> None:
        if self._wants_said and (texts := turn_content(content).texts):
            said = "\n".join([ending(text, MOST_SAID) for text in texts[-2:]])
            self._left -= len(said)
            if said.strip():
                self._wants_said = False
                self._found[-1] = self._found[-1]._replace(said=said)

    def on_requests(self, requests: Iterable[str], has_attachment: bool = False, is_own: bool = True) -> None:
        had = len(self._found)
        for request in requests:
            self._wants_said = len(request) <= MOST_POINTING and self._left > 0
            results, is_whole = self._first_results() if self._wants_said else ((), False)
            self._found.append(Around(results, is_whole, "", has_attachment, len(self._changed), is_own))
            self._results, self._changed = [], set()
        self._just_read = len(self._found) - had

    def _first_results(self) -> tuple[tuple[str, ...], bool]:
        found: list[str] = []
        is_whole = True
        for raw in reversed(self._results[-FIRST_RESULTS:]):
            texts = turn_content(raw).texts
            for text in texts[:FIRST_RESULTS]:
                begin, whole = beginning(text, MOST_RESULT)
                found.append(begin)
                is_whole = is_whole and whole
                self._left -= len(begin)
            is_whole = is_whole and len(texts) <= FIRST_RESULTS
        return tuple(found), is_whole

    @property
    def has_lost_request(self) -> bool:
        """Whether tool results precede the oldest request: the one that they belong to is not in the body."""
        return bool(self._results)

    @property
    def found(self) -> tuple[Around, ...]:
        return tuple(self._found)


def _found(around: _Surroundings | None) -> tuple[Around, ...]:
    return () if around is None else around.found


def _talk(turns: list[_Turn], changes_files: bool = False) -> _Talk:
    """From the newest turn to the oldest.

    1. tool results, or text of the harness: the request that it belongs to is in an earlier turn
    2. a request
    3. a summary: the turns before it are not in the body, but the requests that it mentions count
    4. a reset: the turns before it are not part of the conversation
    5. a limit is reached
    """
    requests: list[str] = []
    images, has_results, size, seen = 0, False, 0, 0
    models = _ABSENT
    around = _Surroundings() if changes_files else None
    for turn in reversed(turns):
        if turn.role != "user":
            if around is not None and (turn.role == "assistant" or turn.arguments or turn.input):
                around.on_calls(turn)
            if turn.role == "assistant":
                models = turn.content
                if around is not None:
                    around.on_model(models)
            elif turn.role in ("tool", "function") or turn.type in _RESULTS:
                has_results = has_results or not requests
                if around is not None:
                    around.on_results((turn.output or turn.content,))
            continue
        seen += 1
        if len(turn.content) <= _BRIEF and turn.content and is_bare(text := _brief(turn.content)):
            size += len(text)
            if size > MOST_BYTES or len(requests) > MOST_REQUESTS:
                return _Talk(tuple(requests), True, images, has_results, _found(around))  # 5
            requests.append(text)  # 2, the usual case
            if around is not None:
                around.on_requests((text,))
            continue
        one = turn_content(turn.content)
        size += sum(map(len, one.texts))
        if seen > MOST_TURNS or len(requests) > MOST_REQUESTS or (size > MOST_BYTES and seen > 1):
            return _Talk(tuple(requests), True, images, has_results, _found(around))  # 5
        if not requests:
            images = images or one.images
            has_results = has_results or one.results > 0
        if one.results and around is not None:
            around.on_results(reversed(results_of(turn.content)))
        if not one.texts:
            continue  # 1
        found = read_user_turn(map(shortened_text, one.texts))
        has_results = has_results or (not requests and found.has_results)
        if found.has_results and around is not None:
            around.on_results(reversed(one.texts))
        if found.is_recap:
            recap = requests_in(map(shortened_text, turn_content(models).texts))
            if around is not None:
                around.on_requests(recap, is_own=False)
            return _Talk((*requests, *recap), not recap, images, has_results, _found(around))  # 3
        requests += map(_cut, found.requests)  # 2
        if around is not None:
            is_own = not (one.results or found.has_results or found.is_summary)
            around.on_requests(found.requests, one.files > 0 or one.images > 0, is_own)
        if found.is_summary:
            return _Talk(tuple(requests), not found.requests, images, has_results, _found(around))  # 3
        if found.is_reset:
            break  # 4
    if around is None:
        return _Talk(tuple(requests), False, images, has_results)
    return _Talk(tuple(requests), around.has_lost_request, images, has_results, around.found)


def _holds_any(raw: msgspec.Raw) -> bool:
    """Whether it is a list that is not empty."""
    return first(raw) == b"[" and bytes(memoryview(raw)[1:64]).lstrip()[:1] != b"]"


def _brief(content: msgspec.Raw) -> str:
    try:
        return _text.decode(content).strip() or "<"
    except NOT_JSON:
        return "<"


def _changes_otherwise(fields: _Body, turns: list[_Turn], told: list[msgspec.Raw], tools: Toolbox) -> bool:
    """Tools of a server or of an item of the input; or none are offered, and the system prompt tells of some."""
    if fields.mcp_servers and _holds_any(fields.mcp_servers):
        return True
    if any(toolbox(turn.tools).changes_files for turn in turns if turn.tools):
        return True
    if tools.size:
        return False
    long = [bytes(content) for content in told if len(content) > _LONG_SYSTEM]
    if isinstance(fields.instructions, str) and len(fields.instructions) > _LONG_SYSTEM:
        long.append(fields.instructions.encode(errors="replace"))
    return any(sign in text for text in long for sign in PROMPT_TOOLS)


def _cut(text: str) -> str:
    """The beginning and the end: the task is at one of them, pasted files are between."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"


def _is_short(text: str) -> bool:
    return len(text) <= 20 * MAX_SYSTEM_WORDS and len(text.split()) <= MAX_SYSTEM_WORDS


def _forces(choice: object) -> bool:
    return (choice.get("type") if isinstance(choice, dict) else choice) in _FORCED


def _wants_json(fields: _Body) -> bool:
    """1. chat  2. Responses  3. Messages  4. Ollama: `json` or a schema"""
    if fields.response_format is fields.text is fields.output_config is None:
        return bool(fields.format)
    inner = fields.text.get("format") if isinstance(fields.text, dict) else None
    output = fields.output_config.get("format") if isinstance(fields.output_config, dict) else None
    kinds = (one.get("type") for one in (fields.response_format, inner, output) if isinstance(one, dict))
    return any(kind in ("json_object", "json_schema") for kind in kinds) or bool(fields.format)


def _wants_thinking(fields: _Body) -> bool:
    effort = fields.reasoning.get("effort") if isinstance(fields.reasoning, dict) else fields.reasoning_effort
    enabled = isinstance(fields.thinking, dict) and fields.thinking.get("type") in ("enabled", "adaptive")
    return enabled or fields.think is True or effort in ("medium", "high", "xhigh", "max")

"""Reads a stream that passes through. It changes nothing, except that it removes the usage chunk that Stoker asked for,
and adds required fields that an engine left out.

The network cuts the stream anywhere. Whole SSE frames are passed on at once; an incomplete frame is held until its end,
so that no error event or ping is written into the middle of a frame, where no client could read it. A frame is parsed
only if a cheap search says that it matters.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError, UpstreamError
from stoker.request.codec.endings import CALLS, empty_answer, failed, is_failure
from stoker.request.codec.media import seconds_of_usage
from stoker.request.codec.own_replies import StreamPosition
from stoker.request.codec.reply_formats import FORMATS, SilenceWatch, calls_tool
from stoker.request.codec.sse import MAX_FRAME, data_of, last_end, parse, split
from stoker.request.codec.tolerant_json import NOT_JSON, is_strict, read, strict
from stoker.request.codec.upstream_errors import as_error, failure_of, is_error, no_answer, whole_error
from stoker.request.codec.upstream_messages import UpstreamMessages
from stoker.request.codec.usage import Usage, text_size, tokens_of_pieces, tokens_of_text
from stoker.request.codec.whole_answer import WholeAnswer, lacks_embeddings

_KEPT: Final = 16384
"""Bytes that are kept of a large read."""
_AT_THE_END: Final = 3
"""Reads across which the dialect's end marker may be split."""
_MOST_KEPT: Final = 32
_LIST: Final = re.compile(rb"\[\s*(\])?")
"""The beginning of a list; the group matches if the list is empty."""


_decode_top: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_whole: Final = msgspec.json.Decoder(WholeAnswer).decode
_decode_value: Final = msgspec.json.Decoder().decode
_USUAL_ENDS: Final = ("stop", "length", "tool_calls", None)
_SPACED_FRAME: Final = re.compile(rb'^data: ?\{\s*"\w+": ', re.MULTILINE)
_LLAMA_CPP: Final = {"prompt_tokens": "tokens_evaluated", "completion_tokens": "tokens_predicted"}
"""How llama.cpp calls its counts at paths of its own."""


class StreamReader:
    """Follows one streamed reply. `feed` returns the bytes to pass on now (maybe empty).

    `is_meaningful` turns true with the first frame that carries text, reasoning, a refusal, tool data or a finish;
    `error` holds what the serve's own error frame means, if one came, or an ending that is a failure; `usage` what was
    counted. Nothing is raised.
    """

    __slots__ = (
        "_ending",
        "_format",
        "_has_begun",
        "_is_media",
        "_lacking",
        "_may_fail_late",
        "_openings",
        "_partial",
        "_piece",
        "_pieces",
        "_recent",
        "_remove_usage",
        "_response",
        "_silence",
        "_words",
        "dialect",
        "error",
        "failure",
        "is_meaningful",
        "usage",
    )  # fmt: skip
    includes_error = False
    """The serve's error frame. It is not passed on: the caller decides what the client gets."""

    def __init__(self, dialect: Dialect, remove_usage: bool = False, words: UpstreamMessages | None = None) -> None:
        """`words` cleans the error message of a failed response."""
        self._words = words or UpstreamMessages()
        self.dialect = dialect
        self.usage = Usage()
        self.is_meaningful = False
        self.error: StokerError | None = None
        self.failure: StokerError | None = None
        spec = dialect.spec
        self._format = FORMATS[dialect]
        self._ending = spec.ending + b'":"'
        """Stands before the word by which an answer ends, and nowhere else outside of a text."""
        self._has_begun = False
        """Whether any frame was part of an answer; an end marker alone is not."""
        self._remove_usage = remove_usage
        self._partial = bytearray()
        self._recent: list[bytes] = []
        """The last reads: three at least, in which the dialect's end marker may be."""
        self._piece = spec.piece
        self._pieces = 0
        """Of the answer, in reads that are no longer kept."""
        self._openings = 0
        """Of them, those that came before the first piece with content."""
        self._is_media = spec.is_media
        self._may_fail_late = spec.has_response
        """The dialect's streams can end with a failed response."""
        self._lacking = self._format.lacking
        self._response: dict[str, Any] | None = None
        """The response object that the stream began with, in that dialect."""
        self._silence: SilenceWatch | None = None
        """Until something is said; None: an empty answer is as good as any."""

    def refuse_empty(self) -> None:
        """Take an empty answer for a failure: `error` holds it. Called before anything is fed."""
        self._silence = SilenceWatch(self._format)

    def feed(self, data: bytes) -> bytes:
        if self._partial or not data.endswith(b"\n\n"):  # usually, whole frames come
            data = self._whole_frames(data)
            if not data:
                return self._unreadable()
        recent = self._recent
        recent.append(data)
        if len(recent) > _MOST_KEPT or len(data) > _KEPT:
            self._forget()
        if self._lacking:
            data = self._with_required(data)
        if not self.is_meaningful:
            return self._early(data)
        # `find`, because CPython makes and drops an exception for each `in` of bytes: that takes twice as long.
        if data.find(b'"usage"') >= 0 and data.count(b'"usage"') > data.count(b'"usage":null'):
            return self._with_usage(data)
        if data.find(self._ending) >= 0:
            return self._until_error(data)
        if data.find(b"error") >= 0 and (b'"error"' in data or b"event: error" in data):
            return self._until_error(data)
        return data

    @property
    def held(self) -> int:
        """Bytes of the incomplete frame."""
        return len(self._partial)

    def position(self) -> StreamPosition:
        frames = split(b"".join(self._recent)) if self._may_fail_late else ()
        numbers = (payload.get("sequence_number") for frame in frames if (payload := parse(frame)) is not None)
        sequence = max((number + 1 for number in numbers if type(number) is int), default=0)
        return StreamPosition(sequence, self._response, True)

    def has_ended(self) -> bool:
        """Whether the dialect's end marker (or a finish reason) was among the last frames.

        An end marker without any answer before it does not count. Frames are parsed for it: a
        model may well write about `[DONE]` or `message_stop`. An empty answer that is refused has ended with an error.
        """
        if self._is_media:
            return self._has_begun and not self._partial  # the engines do not agree on an end marker
        frames = split(b"".join(self._recent) + self._partial)
        if not any(self._format.is_end(frame) for frame in reversed(frames)):
            return False
        if self._silence is not None and not self.is_meaningful and self.error is None:
            last = parse(bytes(self._partial))  # a last frame without its blank line was not read yet
            if last is None or self._silence.says_nothing(last):
                self.error = empty_answer()
        return self._has_begun or any(self._is_of_answer(frame) for frame in frames)

    def _is_of_answer(self, frame: bytes) -> bool:
        payload = parse(frame)
        return payload is not None and self._format.is_of_answer(payload)

    def take_rest(self) -> bytes:
        """Bytes still held back when the stream is over. A last frame gets the blank line that it lacks, without which
        no client reads it.
        """
        rest, self._partial = bytes(self._partial), bytearray()
        is_frame = parse(rest) is not None or data_of(rest) == b"[DONE]"
        return rest.rstrip(b"\r\n") + b"\n\n" if is_frame else rest

    def _whole_frames(self, data: bytes) -> bytes:
        """Of frames that are split across reads, the whole ones; an incomplete one waits. Only new bytes are searched,
        so that a frame which never ends costs linear time.
        """
        seam = bytes(self._partial[-2:])  # a blank line is three bytes at most
        cut = last_end(seam + data) - len(seam)
        if cut <= 0:
            self._partial += data
            return b""
        whole = bytes(self._partial) + data[:cut]
        self._partial = bytearray(data[cut:])
        return whole

    def _unreadable(self) -> bytes:
        """What waits, if it is far too large for a frame: it passes unread."""
        if len(self._partial) <= MAX_FRAME:
            return b""
        self._has_begun = True
        unread, self._partial = bytes(self._partial), bytearray()
        return unread

    def _has_failed(self, payload: dict[str, Any]) -> bool:
        """Notes an error frame, or an ending that is a failure."""
        if is_error(payload):
            self.error = as_error(payload)
            return True
        for word in self._format.last_words(payload):
            if is_failure(word):
                self.error = failed(word)
            elif word in CALLS:
                self.usage.calls_tool = True
        return self.error is not None

    def tokens_so_far(self) -> int:
        """Tokens of the answer by its pieces, for want of a count of the serve's."""
        if not self._piece:
            return 0
        tokens, sizes = 0, []
        for frame in split(b"".join(self._recent)):
            count = frame.count(self._piece)
            if count and (size := text_size(parse(frame))):
                tokens += tokens_of_pieces(count, size)
                sizes.append(size // count)
        earlier = max(0, self._pieces - self._openings)
        usual = sorted(sizes)[len(sizes) // 2] if sizes else 0
        return tokens + tokens_of_pieces(earlier, earlier * usual)

    def _forget(self) -> None:
        """Keep only the last reads, and only the end of a large one. The pieces of the others are counted."""
        recent = self._recent
        self._pieces += b"".join(recent[:-_AT_THE_END]).count(self._piece)
        del recent[:-_AT_THE_END]
        last = recent[-1]
        if len(last) > _KEPT:
            cut = last_end(last[:-_KEPT])  # the last frame stays whole
            self._pieces += last.count(self._piece, 0, cut)
            recent[-1] = last[cut:]

    def _with_required(self, data: bytes) -> bytes:
        """The frames, with what the dialect requires and the engine left out, and with the error message of a failed
        response cleaned.
        """
        if data.find(self._lacking) < 0:
            return data
        data = b"".join(
            self._format.complete(frame) if frame.find(self._lacking) >= 0 else frame for frame in split(data)
        )
        if self._may_fail_late and self.is_meaningful and data.find(b"response.failed") >= 0:
            return self._with_failure(data)
        return data

    def _early(self, data: bytes) -> bytes:
        """Parses every frame up to the first meaningful one."""
        kept: list[bytes] = []
        for frame in split(data):
            payload = parse(frame)
            if payload is not None:
                if _SPACED_FRAME.search(frame) is not None:
                    self._ending = self.dialect.spec.ending + b'": "'
                if self._has_failed(payload):
                    self._take_usage(payload)
                    break
                has_failed = payload.get("type") == "response.failed"
                if has_failed and not self.is_meaningful:
                    self.error = as_error({"error": failure_of(payload)})
                    self._take_usage(payload)
                    break
                self._has_begun = self._has_begun or self._format.is_of_answer(payload)
                if self._may_fail_late and isinstance(payload.get("response"), dict):
                    self._response = payload["response"]
                if not self.is_meaningful:
                    is_silent = self._silence is not None and self._silence.says_nothing(payload)
                    self.is_meaningful = self._has_begun and not is_silent and self._format.is_meaningful(payload)
                    if is_silent and self._silence is not None and self._silence.is_over:
                        self.error = empty_answer()
                        self._take_usage(payload)
                        break
                    if not self.is_meaningful:
                        self._openings += frame.count(self._piece)
                if has_failed:
                    frame = self._mark_failure(frame, payload)
                if self._take_usage(payload):
                    continue
            elif data_of(frame) == b"[DONE]":
                if self._silence is not None and self._has_begun and not self.is_meaningful:
                    self.error = empty_answer()
                    break
                self.is_meaningful = self._has_begun
            kept.append(frame)
        return b"".join(kept)

    def _with_usage(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        for frame in split(data):
            is_read = frame.find(b'"usage"') >= 0 or frame.find(b'"error"') >= 0 or frame.find(self._ending) >= 0
            payload = parse(frame) if is_read else None
            if payload is not None:
                if self._has_failed(payload):
                    self._take_usage(payload)
                    break
                if self._take_usage(payload):
                    continue
            kept.append(frame)
        return b"".join(kept)

    def _take_usage(self, payload: dict[str, Any]) -> bool:
        """Reads usage wherever the dialect puts it. True if only Stoker asked for this frame: it is not passed on."""
        usage = payload.get("usage")
        if usage is None:
            inner = payload.get("message") or payload.get("response")
            usage = inner.get("usage") if isinstance(inner, dict) else None
        if usage is None:
            return False
        self.usage.update_from(usage)
        if self._is_media:
            self.usage.audio_seconds = seconds_of_usage(usage)
        return self._remove_usage and not payload.get("choices")

    def _until_error(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        for frame in split(data):
            is_read = b'"error"' in frame or b"event: error" in frame or self._ending in frame
            payload = parse(frame) if is_read else None
            if payload is not None and self._has_failed(payload):
                break
            kept.append(frame)
        return b"".join(kept)

    def _with_failure(self, data: bytes) -> bytes:
        """The frames, with the error message of a failed response cleaned for the client."""
        kept: list[bytes] = []
        for frame in split(data):
            payload = parse(frame) if b"response.failed" in frame else None
            kept.append(frame if payload is None else self._mark_failure(frame, payload))
        return b"".join(kept)

    def _mark_failure(self, frame: bytes, payload: dict[str, Any]) -> bytes:
        response = payload.get("response")
        if payload.get("type") != "response.failed" or not isinstance(response, dict):
            return frame
        given = failure_of(payload)
        code = given.get("code")
        word = code if isinstance(code, str) and code.isascii() and code.isidentifier() else ""
        error = self.failure = self._words.for_client(as_error({"error": given}))
        told = {"code": word[:64] if word and self._words.is_safe(word) else "server_error", "message": error.message}
        response["error"] = {**told, "source": error.source}
        return b"event: response.failed\ndata: %b\n\n" % msgspec.json.encode(payload)


def read_usage(body: bytes) -> Usage:
    """Usage of a whole reply; unknown if the body is not a JSON object."""
    usage = Usage()
    if b'"usage"' not in body:
        return usage
    try:
        usage.update_from(_value(_decode_top(body), "usage"))
    except NOT_JSON:
        return usage
    return usage


def read_engine_answer(body: bytes) -> Usage:
    """Usage of a whole answer at an engine's own path; unknown if the body is not a JSON object."""
    usage = read_usage(body)
    if usage.input and usage.output:
        return usage
    try:
        top = _decode_top(body)
        usage.update_from({name: _value(top, own) for name, own in _LLAMA_CPP.items() if own in top})
        usage.text_tokens = tokens_of_text(text_size({"content": _value(top, "content")}))
    except NOT_JSON:
        return usage
    return usage


class CheckedAnswer(NamedTuple):
    usage: Usage
    mended: bytes | None = None
    """The answer as strict JSON; None: it is strict."""


def check_answer(dialect: Dialect, body: bytes, inputs: int | None = None) -> CheckedAnswer:
    """What a whole answer says. `inputs`: how many texts are to be embedded. Raises StokerError if the body is not an
    answer:

    1. it is not a JSON object (`upstream_unusable`)   2. it is an error   3. see `problem_of`   4. the engine gave up
    5. it lacks an embedding
    """
    mended = None
    try:
        answer = _decode_whole(body)
        if not body.isascii():
            body.decode()  # msgspec does not look into texts that it skips
    except NOT_JSON:
        mended = None if is_strict(body) else strict(body)
        answer = _odd_answer(mended or body)  # 1
    if answer.error or answer.type == "error" or answer.object == "error":
        raise whole_error(read(body))  # 2
    name = dialect.spec.answers
    if name != "choices" or not answer.choices:
        problem = problem_of(dialect, answer.status, answer.stop_reason, _has_entries(name, answer))  # 3
        if problem is None and dialect is Dialect.EMBEDDINGS:
            problem = lacks_embeddings(answer.data, inputs)  # 5
        if problem is not None:
            raise problem
    else:
        for choice in answer.choices:
            if choice.finish_reason not in _USUAL_ENDS and is_failure(choice.finish_reason):
                raise failed(choice.finish_reason)  # 4
    usage = Usage()
    usage.update_from(answer.usage)
    usage.calls_tool = answer.choices[0].finish_reason in CALLS if answer.choices else _has_called(answer)
    if not usage.output and name:
        usage.text_tokens = tokens_of_text(text_size({name: read(mended or body).get(name)}))
    return CheckedAnswer(usage, mended)


def _has_called(answer: WholeAnswer) -> bool:
    """Whether a whole answer without choices calls a tool of the client's."""
    if answer.stop_reason in CALLS:
        return True
    output = bytes(answer.output)
    return output.find(b'_call"') >= 0 and calls_tool(read(output))


def _odd_answer(body: bytes) -> WholeAnswer:
    """One with fields of other types than an answer has. Raises UpstreamError if it is not a JSON object."""
    found = read(body)
    if not isinstance(found, dict):
        raise no_answer("is not a JSON object")
    try:
        return _decode_whole(body)
    except NOT_JSON:
        return WholeAnswer.of(found)


def _has_entries(name: str, answer: WholeAnswer) -> bool | None:
    """Whether the answer's list of content, the field `name`, has entries; None: it has no list."""
    match name:
        case "choices":
            return None if answer.choices is None else bool(answer.choices)
        case "content":
            return _entries(answer.content)
        case "output":
            return _entries(answer.output)
    return None


def _value(top: dict[str, msgspec.Raw], name: str) -> Any:
    """The value of a field; None if it is missing. Raises msgspec.DecodeError, UnicodeDecodeError."""
    raw = top.get(name)
    return None if raw is None else _decode_value(raw)


def problem_of(dialect: Dialect, status: object, stop: object, entries: bool | None) -> UpstreamError | None:
    """Why a whole reply, which is no error, is not an answer. `entries`: whether its content list has
    entries; None: no list.

    1. it is a failed response, or one that is not finished   2. the engine gave up   3. its content is empty; in
    dialects that allow an empty answer, only if the reply does not say how it ended
    """
    format = FORMATS[dialect]
    if (problem := format.unfinished(status)) is not None:
        return problem
    for word in (status, stop):
        if isinstance(word, str) and is_failure(word):
            return failed(word)
    name = dialect.spec.answers
    if not name or entries:
        return None
    if entries is False and format.may_be_empty(status, stop):
        return None
    return no_answer(f"has no {name}")


def _entries(raw: msgspec.Raw) -> bool | None:
    found = _LIST.match(raw)
    return None if found is None else found[1] is None

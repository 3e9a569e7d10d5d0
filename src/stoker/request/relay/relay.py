"""One upstream call: bytes go from the serve's socket callback straight to the client's transport.

1. the head comes           -> an error status is decided on when its body is complete; a stream waits for its first
                               meaningful frame; anything else is collected
2. the first meaningful frame -> commit: 200, what was held, and from now on every read is one write
3. the client is slow       -> reading from the serve pauses until the client reads again
4. silence                  -> pings; after `stall_timeout` the stream is ended with an error
                               (of audio and images: from the first byte on, which may take minutes); of a reply that
                               passes through unread, only if it is the client that does not read
5. the end                  -> complete only if the dialect's own end marker came; else one error event
6. the client is gone, or the lease is cut -> the upstream connection is closed at once
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from stoker.domain.dialect import MEDIA, ApiFamily, Dialect
from stoker.domain.errors import CapacityError, OutputLimitTooHigh, StokerError, UnsupportedInput, UpstreamError
from stoker.domain.lease import Target
from stoker.request.codec.content_coding import PLAIN, READ, ContentDecoder, accepts, decoded
from stoker.request.codec.context_overflow import CODE, is_recognised
from stoker.request.codec.frames import StreamReader, check_answer, read_engine_answer, read_usage
from stoker.request.codec.media import check_media_answer, is_binary, seconds_of_answer
from stoker.request.codec.own_replies import StreamPosition
from stoker.request.codec.reply_formats import refuse_empty
from stoker.request.codec.required_fields import completed_body
from stoker.request.codec.usage import NOTHING, Usage, tokens_of_text
from stoker.request.relay import faults
from stoker.request.relay.faults import refusal_of
from stoker.request.relay.headers import accepted_codings, reply_headers, retry_after
from stoker.request.relay.pool import ReplyReceiver, RequestBody
from stoker.request.relay.reply import Reply, ReplyExchange


class RelayCompletion:
    """What a request waits for while its relay works in callbacks.

    Unlike a Future, `succeed`, which only a socket's callback calls, resumes the waiter at once. `fail` and `cancel`,
    which may be called from anywhere, resume it in the next iteration of the loop. It can be awaited once, by an
    `InlineTask` or by a task.
    """

    __slots__ = ("_asyncio_future_blocking", "_error", "_loop", "_wake", "is_known")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_known = False
        self._loop = loop
        self._error: BaseException | None = None
        self._wake: Callable[[Any], object] | None = None
        self._asyncio_future_blocking = False
        """A task takes what has this for a Future."""

    def succeed(self) -> None:
        """The relay ended well. Only the first outcome counts."""
        if not self.is_known:
            self.is_known = True
            if self._wake is not None:
                self._resume()

    def fail(self, error: BaseException) -> None:
        """The relay ended with this error. Only the first outcome counts."""
        if not self.is_known:
            self.is_known = True
            self._error = error
            self._loop.call_soon(self._resume)

    def close(self) -> None:
        """The outcome is no longer needed."""
        self.is_known = True
        self._error = self._wake = None

    def _resume(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake(self)

    # -- what a Future has -----------------------------------------------------------------------------------------

    def __await__(self) -> Generator[RelayCompletion, None, None]:
        if not self.is_known:
            self._asyncio_future_blocking = True
            yield self
        if self._error is not None:
            raise self._error

    def result(self) -> None:
        """A task calls this before it resumes; an `InlineTask` does not."""
        if self._error is not None:
            raise self._error

    def cancel(self, msg: object = None) -> bool:
        """False if the relay has already ended."""
        if self.is_known:
            return False
        self.fail(asyncio.CancelledError())
        return True

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Any = None) -> None:
        """A task, which passes its context, is woken by the loop: it may not run inside another one."""
        self._wake = wake if context is None else partial(self._schedule, wake, context)

    def _schedule(self, wake: Callable[[Any], object], context: Any, _: object) -> None:
        self._loop.call_soon(wake, self, context=context)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop


STALE_WITHIN: Final = 1.0
"""Seconds. A kept connection that ends within this time after sending, unanswered, was closed by the serve before: the
request is sent again on a new one.
"""
UNREAD_LIMIT: Final = 600.0
"""A client that reads nothing is cut after `stall_timeout`, but never before this many seconds. Until then it holds a
place of the serve.
"""
MAX_HELD = 256 * 1024
"""Bytes kept of a stream before its first meaningful frame."""
MAX_REWRITTEN: Final = 64 * 2**20
"""Bytes of a reply that is translated as a whole."""
MAX_REFUSAL: Final = 16 * 1024
"""Bytes of a 4xx that passes through as the serve wrote it."""
MAX_COLLECTED: Final = 4 * 2**20
"""Bytes of a reply without a stream that are kept so that it can still fail as a whole; a larger one flows."""


class ReplyReader(Protocol):
    """Reads one streamed reply, and returns what the client gets of it. Raises nothing."""

    is_meaningful: bool

    @property
    def includes_error(self) -> bool:
        """Whether `feed` returned the serve's own error event; else the caller must report the error."""

    @property
    def error(self) -> StokerError | None:
        """What the serve's own error frame means, or an ending that is a failure."""

    @property
    def failure(self) -> StokerError | None:
        """The failure that the stream's own end reported; it was passed on."""

    @property
    def usage(self) -> Usage: ...

    def refuse_empty(self) -> None:
        """Take an empty answer for a failure."""

    def feed(self, data: bytes) -> bytes: ...

    def has_ended(self) -> bool: ...

    def tokens_so_far(self) -> int: ...

    def take_rest(self) -> bytes: ...

    def position(self) -> StreamPosition: ...


class ReplyTranslator(ReplyReader, Protocol):
    """Writes a serve's reply in another dialect, and may check it on the way."""

    rejected: UpstreamError | None
    """Why a check rejected the answer; then `error` is set, too. None: it did not."""

    @property
    def has_content(self) -> bool:
        """Whether any of the answer has come, even if it is held back."""

    @property
    def content_type(self) -> bytes: ...

    def translate_whole(self, body: bytes) -> bytes:
        """A reply that was not streamed. Raises UpstreamError."""

    def describe_changes(self) -> bytes:
        """What was changed, for `x-stoker-translation`."""


class ServeConnection(Protocol):
    """What a relay uses of a connection to a serve."""

    @property
    def is_reused(self) -> bool: ...

    @property
    def has_answered(self) -> bool:
        """Whether any byte of the current reply has come."""

    def send(self, receiver: ReplyReceiver, head: bytes, body: RequestBody) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self) -> None: ...


class ServeConnections(Protocol):
    """What a relay uses of the pool."""

    def take_idle(self, target: Target) -> ServeConnection | None: ...

    async def open(self, target: Target) -> ServeConnection: ...


class Limits(NamedTuple):
    """Seconds; 0 = never."""

    keep_alive: float
    stall_timeout: float
    unread: float = UNREAD_LIMIT


class Relay:
    """Carries one request. Only the request itself awaits the result of `send`."""

    __slots__ = (
        "_body", "_coding", "_connection", "_decoder", "_dialect", "_head", "_headers", "_held", "_hidden_since",
        "_inputs", "_is_flowing", "_is_hidden", "_is_raw_stream", "_is_unusable", "_last_data", "_limits", "_loop",
        "_may_leave", "_on_flowing", "_opening", "_outcome", "_pool", "_reader", "_refuses_empty", "_removes_usage",
        "_requires_answer", "_sent", "_size", "_target", "_timer", "is_complete", "received", "reply", "retry_after",
        "translator", "upstream_status", "usage",
    )  # fmt: skip

    def __init__(
        self,
        reply: Reply,
        pool: ServeConnections,
        limits: Limits,
        may_leave: Callable[[StokerError], bool] | None = None,
    ) -> None:
        """`may_leave(error)`: whether a 4xx is raised, so that another serve can be tried. Otherwise it is
        passed on unchanged.
        """
        self.reply = reply
        self.received = 0
        """Bytes of the reply's body so far."""
        self.usage = NOTHING
        self.translator: ReplyTranslator | None = None
        """Writes the reply in the client's dialect, if it is in another one; may also only check it."""
        self.is_complete = False
        """Whether the reply came to its end, and the client got it."""
        self._refuses_empty = False
        self._on_flowing: Callable[[], None] | None = None
        self.retry_after: float | None = None
        """Seconds for which the serve asked for a pause; None: it did not."""
        self._may_leave = may_leave
        self._pool = pool
        self._limits = limits
        self._loop = reply.loop
        self._outcome = RelayCompletion(reply.loop)
        self.upstream_status = 0
        self._connection: ServeConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._reader: ReplyReader | None = None
        self._held: list[bytes] = []
        self._size = 0
        self._is_flowing = False
        self._is_raw_stream = False
        self._coding = b""
        """The coding in which the client gets a whole reply, as it asked; empty: none."""
        self._decoder: ContentDecoder | None = None
        """Decodes the reply; None: it comes uncompressed, or passes as it is."""
        self._is_unusable = False
        """Whether the whole reply came, and is no answer."""
        self._last_data = self._sent = self._hidden_since = 0.0
        self._is_hidden = False
        """Of the last data nothing went to the client."""
        self._timer: asyncio.TimerHandle | None = None

    def refuse_empty(self) -> None:
        """An empty answer is a failure: see `codec.reply_formats.refuse_empty`."""
        self._refuses_empty = True

    def send(
        self,
        target: Target,
        head: bytes,
        body: RequestBody,
        dialect: Dialect | None = None,
        remove_usage: bool = False,
        translator: ReplyTranslator | None = None,
        requires_answer: bool = True,
        on_flowing: Callable[[], None] | None = None,
        inputs: int | None = None,
    ) -> RelayCompletion:
        """Send the request. `dialect` None: pass the reply on unread. `translator`: write the reply in another dialect.
        `requires_answer`: fail if a 200 is no answer in `dialect`. `on_flowing` is called when the answer begins to
        flow to the client: from then on this request is not sent again. `inputs`: how many texts are to be embedded.

        Awaited, the outcome returns when the reply is complete, and raises UpstreamError (the serve failed; maybe after
        the commit) or the error that `end_with` was called with. `close` must follow in every case.
        """
        self._target = target
        self._headers: list[tuple[bytes, bytes]] = []
        self._head = head
        self._body: RequestBody = body
        self._dialect = dialect
        self._removes_usage = remove_usage
        self._requires_answer = requires_answer
        self._on_flowing = on_flowing
        self._inputs = inputs
        self.translator = translator
        connection = self._pool.take_idle(target)
        if connection is None:
            self._opening = self._loop.create_task(self._open())
        else:
            self._send(connection)
        return self._outcome

    def close(self) -> None:
        """Stop the timer and the upstream call, if they still run."""
        self.reply.exchange.on_resume = None
        self._disarm()
        if self._opening is not None:
            self._opening.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._outcome.close()

    def take_unsent(self) -> bytes:
        """What was written of an answer that a check ended, and has not been sent: whoever goes on with it sends it."""
        rest = b"" if self._reader is None else self._reader.take_rest()
        unsent, self._held = b"".join((*self._held, rest)), []
        return unsent

    @property
    def has_answered(self) -> bool:
        """Whether any of the answer has come: text, thinking or a call; of a reply that is not a stream, any byte."""
        reader, translator = self._reader, self.translator
        if reader is None:
            return self.received > 0
        return self._is_flowing or reader.is_meaningful or (translator is not None and translator.has_content)

    @property
    def has_own_timer(self) -> bool:
        """Whether silence ends it (4). False until a reply begins, and for one that is collected."""
        return self._timer is not None

    @property
    def sent_at(self) -> float:
        """When the request was sent, by the loop's clock; 0: not yet."""
        return self._sent

    @property
    def has_sent_end(self) -> bool:
        """Whether the stream's own end marker went out, even if the reply is not finished."""
        return self._is_flowing and self._reader is not None and self._reader.has_ended()

    @property
    def was_sent(self) -> bool:
        return self._sent > 0

    @property
    def seconds_since_sent(self) -> float:
        return self._loop.time() - self._sent

    @property
    def has_begun_answer(self) -> bool:
        """Whether any of an answer has come, and not only of a reply that turned out to be none."""
        is_none = self._is_unusable and not self.usage.text_tokens
        return self.upstream_status == 200 and self.has_answered and not is_none

    def tokens_so_far(self) -> int:
        """Tokens of the answer by its pieces, or by its length: for want of a count of the serve's."""
        if self._reader is not None:
            return self._reader.tokens_so_far()
        was_read = self.is_complete and not self._is_flowing
        has_content = self._dialect is not None and bool(self._dialect.spec.answers)
        if was_read or self.upstream_status != 200 or not has_content:
            return self.usage.text_tokens
        return self.usage.text_tokens or tokens_of_text(self.received)

    @property
    def _rejection(self) -> UpstreamError | None:
        return None if self.translator is None else self.translator.rejected

    def cut(self, reason: str) -> None:
        """The lease was taken away."""
        self.end_with(CapacityError(f"Stoker ended the request: {reason}", code="cut"))

    def end_with(self, error: Exception) -> None:
        """End the relay with `error`, and close the upstream connection. Does nothing once it is over."""
        if self._outcome.is_known:
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        if self._opening is not None:
            self._opening.cancel()
        self._settle(error)

    # -- the serve's side (socket callbacks) -----------------------------------------------------------------------

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.upstream_status = status
        self._headers = headers
        given = dict(reversed(headers))  # of headers that are repeated, the first
        kind = given.get(b"content-type", b"").strip().lower()
        if b"content-encoding" in given and (coding := given[b"content-encoding"].strip().lower()) not in PLAIN:
            self._begin_coding(coding, kind, accepted_codings(self._head))
        self._head = self._body = b""  # it is not sent again, and a stream may be long
        if status in faults.PAUSES:
            self.retry_after = retry_after(headers)
        dialect = self._dialect
        if status == 200 and dialect is not None and kind.startswith(b"text/event-stream"):
            self._reader = self.translator or StreamReader(dialect, self._removes_usage, self.reply.upstream_messages)
            if self._refuses_empty:
                self._reader.refuse_empty()
            self.reply.position = self._reader.position
            self.usage = self._reader.usage
            if dialect not in MEDIA:
                self._last_data = self._loop.time()
                self._arm()
        else:
            is_stream = kind.startswith(b"text/event-stream") or (dialect in MEDIA and is_binary(kind))
            self._is_raw_stream = status == 200 and is_stream

    def on_data(self, data: bytes) -> None:
        self.received += len(data)
        if self._decoder is not None:
            data = self._decode(self._decoder, data)
            if not data:
                return
        reader = self._reader
        if reader is None:
            self._collect(data)
            return
        self._last_data = self._loop.time()
        out = reader.feed(data)
        if not self._is_flowing:
            self._hold_or_flow(out, reader)
            return
        if out:  # as `_write`, without a call for each event
            wire = self.reply.exchange
            wire.write(out)
            if wire.is_paused:
                self._wait_for_client(wire)
            self._is_hidden = False
        elif not self._is_hidden:
            self._is_hidden = True
            self._hidden_since = self._last_data
        if reader.error is not None:
            if self._rejection is None and reader.includes_error:  # that was the one error event
                self.reply.exchange.close_after()
                self.reply.finish()
            self.end_with(self._rejection or reader.error)

    def on_end(self) -> None:
        self._connection = None  # the pool may give it to another request
        try:
            self._end()
        except Exception as error:
            self._is_unusable = self._reader is None
            self._settle(error)  # a bug, too: the request must not wait for ever
        else:
            self.is_complete = True
            self._settle(None)

    def on_broken(self, reason: str) -> None:
        connection, self._connection = self._connection, None
        is_fresh = self._loop.time() - self._sent < STALE_WITHIN
        if connection is not None and connection.is_reused and not connection.has_answered and is_fresh:
            self._opening = self._loop.create_task(self._open())  # the serve had closed it before it read the request
            return
        if self._reader is not None and self._reader.has_ended():
            self.on_end()  # the reply was complete; only the connection was not closed properly
            return
        self._settle(UpstreamError(f"the serve broke off its reply: {reason}", code="upstream_broke"))

    # -- compressed replies --------------------------------------------------------------------------------------

    def _begin_coding(self, coding: bytes, kind: bytes, accepted: bytes) -> None:
        """The client gets a whole reply encoded if it asked for that, and everything else decoded. Where Stoker reads
        nothing, what it cannot decode passes as it is. `kind`: the Content-Type.
        """
        is_stream = kind.startswith(b"text/event-stream")
        has_response = self._dialect is not None and self._dialect.spec.has_response  # it may have to be completed
        may_pass = not is_stream and not has_response
        if coding in READ and may_pass and accepts(accepted, coding):
            self._coding = coding
        elif coding in READ or self._dialect is not None:
            self._decoder = ContentDecoder(coding)
            self._headers = [header for header in self._headers if header[0] != b"content-encoding"]

    def _decode(self, decoder: ContentDecoder, data: bytes) -> bytes:
        try:
            return decoder.feed(data)
        except UpstreamError as error:
            if self.upstream_status < 300:
                self.end_with(error)
            return b""  # of an error, the status says enough

    # -- streams -------------------------------------------------------------------------------------------------

    def _hold_or_flow(self, out: bytes, reader: ReplyReader) -> None:
        self._held.append(out)
        self._size += len(out)
        if reader.error is not None:
            self.end_with(self._rejection or reader.error)
        elif reader.is_meaningful or self._size > MAX_HELD:
            self._start_flowing()

    def _start_flowing(self) -> None:
        """From here on each read is one write."""
        if not self.reply.is_committed:
            self.reply.commit(self.upstream_status, self._reply_headers())
        self.reply.begin()
        self._is_flowing = True
        if self._on_flowing is not None:
            self._on_flowing()
        if self._timer is None:
            self._last_data = self._loop.time()
            self._arm()
        self._write(b"".join(self._held))
        self._held.clear()

    def _write(self, out: bytes) -> None:
        wire = self.reply.exchange
        wire.write(out)
        if wire.is_paused:
            self._wait_for_client(wire)

    def _wait_for_client(self, wire: ReplyExchange) -> None:
        if self._connection is not None:
            self._connection.pause()
            wire.on_resume = self._resume

    def _resume(self) -> None:
        self.reply.exchange.on_resume = None
        self._last_data = self._loop.time()  # the silence was the client's
        if self._connection is not None:
            self._connection.resume()

    def _arm(self) -> None:
        waits = [seconds for seconds in (self._limits.keep_alive, self._limits.stall_timeout) if seconds > 0]
        if waits:
            self._timer = self._loop.call_later(min(waits), self._on_silence)

    def _on_silence(self) -> None:
        """One timer per stream that looks back instead of being moved by each event."""
        self._timer = None
        silent = self._loop.time() - self._last_data
        stall, keep_alive = self._limits.stall_timeout, self._limits.keep_alive
        wire = self.reply.exchange
        ends = stall > 0 and (wire.is_paused or self._reader is not None or self._dialect is not None)
        if ends and silent >= (max(stall, self._limits.unread) if wire.is_paused else stall):
            self.end_with(faults.unread(silent) if wire.is_paused else faults.stalled(silent))
            return
        if self._is_hidden:  # the serve goes on, but nothing of it is for the client
            silent = self._loop.time() - self._hidden_since
        if keep_alive > 0 and silent >= keep_alive and self._is_flowing and not wire.is_paused:
            self.reply.ping()
        self._arm()

    # -- other replies ---------------------------------------------------------------------------------------------

    def _collect(self, data: bytes) -> None:
        if self._is_raw_stream:
            if self.usage is NOTHING:
                self.usage = Usage()
            self.usage.text_tokens += data.count(_EVENT)
        if self._is_flowing:
            self._last_data = self._loop.time()
            self._write(data)
            return
        self._held.append(data)
        self._size += len(data)
        if self._size > MAX_COLLECTED and self.upstream_status >= 300:
            what = f"answered HTTP {self.upstream_status} with more than {MAX_COLLECTED} bytes"
            self.end_with(faults.from_status(self.upstream_status, self._headers) or faults.unusable(what))
        elif self._size > MAX_COLLECTED and self.reply.is_committed:
            self.end_with(faults.unusable("answered without a stream, but the request asked for one"))
        elif self.translator is not None and self._size > MAX_REWRITTEN:
            self.end_with(faults.unusable(f"answered with more than {MAX_REWRITTEN} bytes"))
        elif self.translator is None and (self._size > MAX_COLLECTED or self._is_raw_stream):
            self._start_flowing()

    # -- the end -------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Raises UpstreamError if the reply is incomplete."""
        reader, reply = self._reader, self.reply
        if self._decoder is not None and reader is None and self.received and not self._decoder.has_failed:
            self._decoder.finish()
        if reader is not None:
            if self.translator is not None:
                reader.has_ended()  # the rest may be what is rejected
                if self.translator.rejected is not None:
                    raise self.translator.rejected
            if not self._is_flowing:
                has_ended = reader.has_ended()
                if reader.error is not None:
                    raise reader.error
                if not has_ended:
                    raise UpstreamError("the serve ended its stream before the first token", code="upstream_empty")
                reader.is_meaningful = True
                self._hold_or_flow(b"", reader)
            if not reader.has_ended():
                raise UpstreamError("the serve ended its stream before the answer was complete", code="upstream_broke")
            reply.error = reader.failure
            reply.finish(reader.take_rest())
            return
        if self._is_flowing:
            reply.finish()
            return
        body = b"".join(self._held)
        translator = self.translator
        readable = decoded(self._coding, body) if self._coding else body
        if self.upstream_status >= 300:
            self._refuse(readable)
        else:
            if reply.is_committed:
                raise faults.unusable("answered without a stream, but the request asked for one")
            if translator is not None:
                self._rewrite(translator, body)
                return
            if self._dialect in MEDIA:
                check_media_answer(self._dialect, _header(self._headers, b"content-type"), readable)
                self.usage = read_usage(readable)
                self.usage.audio_seconds = seconds_of_answer(readable)
            elif self._dialect is None:
                self.usage = read_engine_answer(readable)
            elif not self._requires_answer:
                self.usage = read_usage(readable)
            else:
                checked = check_answer(self._dialect, readable, self._inputs)
                self.usage = checked.usage
                if self._refuses_empty:
                    refuse_empty(self._dialect, readable)
                if checked.mended is not None:
                    body = checked.mended
                    self._headers = [header for header in self._headers if header[0] != b"content-encoding"]
                if self._dialect.spec.has_response:
                    body = completed_body(body)
        reply.begin()
        reply.send_whole(self.upstream_status, reply_headers(self._headers), body)

    def _refuse(self, body: bytes) -> None:
        """Raises the error for this status, or returns: then the reply is passed on unchanged.

        1. the serve's own failure, or a redirect
        2. the caller's fault, but its text cannot pass unchanged: it is translated, too long, holds a secret, or calls
           the prompt too long in words that the client does not know
        3. the caller's fault, after the client has got its 200
        4. the caller's fault, but another serve may be tried
        """
        status, words = self.upstream_status, self.reply.upstream_messages
        error = faults.from_status(status, self._headers, body)
        if error is not None:
            raise error  # 1
        if self._dialect is not None:
            error = refusal_of(status, body, retry_after(self._headers))
            is_fit = len(body) <= MAX_REFUSAL and words.is_safe(body.decode("utf-8", "replace"))
            is_lost = not is_fit or (self._decoder is not None and self._decoder.has_failed)
            if self.translator is not None or is_lost or self._is_unrecognised(error, body):
                raise error  # 2
        if self.reply.is_committed:
            raise faults.refused(status, body)  # 3
        if error is not None and self._may_leave is not None and self._may_leave(error):
            raise error  # 4
        self.reply.error = error

    def _is_unrecognised(self, error: StokerError, body: bytes) -> bool:
        """Whether it says that the prompt is too long, in words that the client would take for something else; that
        the output limit is too high, in words that it would take for a prompt that is too long; or that the model takes
        no images, without the model's name.
        """
        if isinstance(error, OutputLimitTooHigh | UnsupportedInput):
            return True
        if error.code != CODE:
            return False
        is_anthropics = self._dialect is not None and self._dialect.spec.api is ApiFamily.ANTHROPIC
        return self.reply.is_committed or not is_recognised(error, is_anthropics, body)

    def _rewrite(self, translator: ReplyTranslator, body: bytes) -> None:
        """A whole reply in the client's dialect. Raises UpstreamError."""
        if self._refuses_empty:
            translator.refuse_empty()
        try:
            written = translator.translate_whole(body)
        finally:
            self.usage = translator.usage  # tokens that no client gets were paid for, too
        if changes := translator.describe_changes():
            self.reply.set_header(b"x-stoker-translation", changes)
        self.reply.begin()
        self.reply.send_whole(200, [(b"content-type", b"application/json")], written)

    def _reply_headers(self) -> list[tuple[bytes, bytes]]:
        if self.translator is None:
            return reply_headers(self._headers)
        return [(b"content-type", self.translator.content_type), (b"cache-control", b"no-cache")]

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Open a new connection, in a task of its own, so that the end of the request need not wait for it."""
        try:
            connection = await self._pool.open(self._target)
        except Exception as error:
            self._settle(error)
            return
        finally:
            self._opening = None
        self._send(connection)

    def _send(self, connection: ServeConnection) -> None:
        self._connection = connection
        self._sent = self._loop.time()
        connection.send(self, self._head, self._body)

    def _settle(self, error: Exception | None) -> None:
        self._disarm()
        if error is None:
            self._outcome.succeed()
        else:
            self._outcome.fail(error)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_EVENT: Final = b"data: "
"""What each event of a stream has that passes on unread."""


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes:
    for key, value in headers:
        if key == name:
            return value.strip().lower()
    return b""

"""Formats a request for its serve, as it came or in another dialect, and translates the answer back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from stoker.domain.dialect import ENDPOINTS, OUTPUT_LIMITS, ApiFamily, Dialect, Endpoint, RequestForm
from stoker.domain.errors import ClientError
from stoker.domain.lease import Target
from stoker.domain.prompt import Prompt, Redacted, Role, Text, Thinking, Turn
from stoker.domain.request_parameters import NO_PARAMETERS, RequestParameters
from stoker.domain.serve import Serve, Translation
from stoker.engines.registry import engine_of
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.edits import Edited, apply_parameters, edit, lower_output_limit
from stoker.request.codec.upstream_messages import UpstreamMessages
from stoker.request.codec.usage import excess_of_files
from stoker.request.codec.whole_answer import count_inputs
from stoker.request.decide.dialects import dialect_for
from stoker.request.relay.headers import request_head
from stoker.request.translate.checked_reply import CheckedReply
from stoker.request.translate.neutral.capabilities import Capabilities, capabilities_of
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.protocols import AnswerContext, AnswerWriter, Check
from stoker.request.translate.neutral.thinking import ThinkingSigner, vendor_of
from stoker.request.translate.ollama.embed import EmbedReply, read_embed
from stoker.request.translate.pass_through import adapt_body, drop_thinking, is_plain
from stoker.request.translate.translate import AnswerTranslator, Written, answer_writer, read_prompt, write_prompt

_UNCHANGED: Final[tuple[str, ...]] = ()
_KEPT_HEADERS: Final = (b"user-agent", b"traceparent", b"tracestate")
"""Headers of the client that a translated request keeps."""


class UpstreamRequest:
    """One request as one serve gets it."""

    __slots__ = (
        "body",
        "capabilities",
        "client",
        "endpoint",
        "fields",
        "inputs",
        "is_empty",
        "may_drop_thinking",
        "notes",
        "parameters",
        "prompt_bytes",
        "tokens",
        "written",
    )

    def __init__(
        self,
        client: Endpoint,
        endpoint: Endpoint,
        fields: BodyFields,
        body: bytes,
        notes: tuple[str, ...] = (),
        written: Written | None = None,
        capabilities: Capabilities | None = None,
        is_empty: bool = False,
    ) -> None:
        self.client = client
        """The endpoint that the client called."""
        self.endpoint = endpoint
        """The endpoint that the serve is called at."""
        self.fields = fields
        self.body = body
        self.notes = notes
        """What was changed so far, for the header `x-stoker-translation`."""
        self.written = written
        """None: the request passes through untranslated."""
        self.capabilities = capabilities
        self.tokens: int | None = None
        """Tokens of the prompt, if they were counted."""
        self.prompt_bytes = 0
        """Its size, by which it is estimated; known once it is encoded."""
        self.is_empty = is_empty
        """There is nothing to embed."""
        self.inputs: int | None = None
        """How many texts are to be embedded; None: it is about something else, or not known."""
        self.may_drop_thinking = capabilities is not None and bool(vendor_of(capabilities))
        """The serve checks who made past thinking: if it refuses that, the request may be sent once more without it."""
        self.parameters = NO_PARAMETERS
        """What the serve sets; applied to `body` already, but not to a form."""

    @property
    def is_rewritten(self) -> bool:
        """Whether the serve gets it in another dialect, or another form of its own."""
        return self.written is not None or self.client is not self.endpoint

    @property
    def counts_only(self) -> bool:
        """Whether the client wants its tokens counted by a serve that has no endpoint for that."""
        return self.written is not None and not self.client.generates

    @property
    def loads_only(self) -> bool:
        """Whether the prompt is empty: that is how an Ollama client loads a model."""
        if self.written is None:
            return self.is_empty
        return self.client.dialect.spec.api is ApiFamily.OLLAMA and not self.written.prompt.turns

    def rewritten(self, written: Written, fields: BodyFields, parameters: RequestParameters) -> UpstreamRequest:
        """The same request with another prompt, and these parameters of the serve."""
        request = UpstreamRequest(
            self.client, self.endpoint, fields, written.body, self.notes, written, self.capabilities
        )
        return request.with_parameters(parameters, note=False)

    def with_parameters(self, parameters: RequestParameters, note: bool = True) -> UpstreamRequest:
        """The same request with the serve's parameters in its body, where its endpoint takes them. `note`: the notes
        say what changed.
        """
        if not parameters or not self.endpoint.takes_parameters:
            return self
        request = UpstreamRequest(
            self.client,
            self.endpoint,
            self.fields,
            self.body,
            self.notes,
            self.written,
            self.capabilities,
            self.is_empty,
        )
        request.tokens, request.inputs = self.tokens, self.inputs
        request.parameters = parameters
        if self.endpoint.form is not RequestForm.JSON:  # the form is on disk: see `exchange.media`
            return request
        request.body, request.fields, changes = apply_parameters(self.body, self.fields, parameters)
        if note:
            request.notes = self.notes + changes
        return request

    def lower_output_limit(self, room: int) -> tuple[str, ...]:
        """Let it ask for at most `room` tokens of output. Returns the fields that were lowered; of a translated
        request, the client's field.
        """
        self.body, self.fields, lowered = lower_output_limit(self.body, self.fields, self.endpoint.dialect, room)
        if lowered and self.written is not None:
            lowered = self.client.dialect.spec.limits[-1:]
        self.notes += tuple(f"lowered:{name}" for name in lowered)
        return lowered

    def drop_body(self) -> None:
        """The answer has begun: the request will not be sent again."""
        self.body = b""

    def edited(self, served_name: str, sequence: int | None = None) -> Edited:
        """The body with the serve's own name for the model, and the other fields that every request gets."""
        return edit(
            self.body,
            self.fields,
            self.endpoint.dialect,
            served_name,
            sequence,
            self.parameters is NO_PARAMETERS or "stream_options" not in self.parameters.names(),
        )


class EncodedRequest:
    """One upstream request in bytes. `notes` say what was changed; `translator` is None if the reply passes through."""

    __slots__ = ("body", "head", "notes", "remove_usage", "translator")

    def __init__(
        self,
        head: bytes,
        body: bytes | list[bytes | memoryview],
        remove_usage: bool,
        notes: tuple[str, ...],
        translator: AnswerTranslator | CheckedReply | EmbedReply | None,
    ) -> None:
        self.head = head
        self.body = body
        self.remove_usage = remove_usage
        self.notes = notes
        self.translator = translator


class Formatter:
    """Makes upstream requests, and the translators of their answers."""

    def __init__(
        self, signer: ThinkingSigner, wall: Callable[[], float], upstream_messages: UpstreamMessages | None = None
    ) -> None:
        self.upstream_messages = upstream_messages or UpstreamMessages()
        """Decides how much of an engine's error text clients see."""
        self.signer = self._signer = signer
        self._wall = wall
        self._known_capabilities: dict[tuple[str, Dialect, str | None], tuple[Translation, str, str, Capabilities]] = {}
        self._plain: dict[tuple[str, str], tuple[Serve, Target | None]] = {}
        """By serve and path: serves that take an endpoint's dialect unchanged, but for images, tools and calls."""

    def format(
        self,
        serve: Serve,
        target: Target | None,
        endpoint: Endpoint,
        fields: BodyFields,
        body: bytes,
        must_read: bool = False,
    ) -> UpstreamRequest:
        """The request for this serve. `target`: the running serve, whose engine was asked what it can do; None: it is
        not loaded yet. `must_read`: parse and rewrite also what could pass through, so that the answer can be checked.

        Raises ClientError 400: the serve speaks no dialect that fits, or the request cannot be read or written.
        """
        must_read = must_read or endpoint.must_read
        plain = self._plain.get((serve.name, endpoint.path))
        if (
            plain is not None
            and plain[0] is serve
            and plain[1] is target
            and not (fields.may_name_images or fields.may_hold_calls or fields.may_have_server_tools or must_read)
        ):
            return UpstreamRequest(endpoint, endpoint, fields, body)
        request = self._format(serve, target, endpoint, fields, body, must_read)
        return request.with_parameters(serve.request)

    def _format(
        self, serve: Serve, target: Target | None, endpoint: Endpoint, fields: BodyFields, body: bytes, must_read: bool
    ) -> UpstreamRequest:
        """The request without the serve's parameters."""
        dialect = dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
        capabilities = self._capabilities_of(serve, dialect, None if target is None else target.system_turns)
        is_target = dialect.spec.is_target
        if dialect is endpoint.dialect and not (must_read and is_target):
            if not serve.request and (not is_target or is_plain(capabilities)):
                self._plain[serve.name, endpoint.path] = serve, target
            tidied, changes = body, _UNCHANGED
            if is_target:
                flags = fields.may_name_images, fields.may_have_server_tools
                tidied, changes = adapt_body(body, capabilities, *flags)
            if changes:
                fields.model_at = None
            return UpstreamRequest(endpoint, endpoint, fields, tidied, changes, capabilities=capabilities)
        if endpoint.dialect is Dialect.OLLAMA_EMBED:
            return _embed_request(endpoint, body)
        prompt, losses = read_prompt(endpoint.dialect, body)
        prompt.stream = bool(fields.stream) and endpoint.streams
        written = write_prompt(prompt, losses, capabilities, self._signer)
        written_fields = BodyFields(model=prompt.model, stream=prompt.stream, max_tokens=prompt.max_tokens, model_at=1)
        written_fields.stream_options = {"include_usage": True}
        written_fields.may_name_images = fields.may_name_images or endpoint.dialect.spec.may_hide_images
        way = () if dialect is endpoint.dialect else (f"{endpoint.dialect.value}>{dialect.value}",)
        notes = (*way, *written.losses.words())
        return UpstreamRequest(
            endpoint, ENDPOINTS[dialect.spec.path], written_fields, written.body, notes, written, capabilities
        )

    def format_own(self, serve: Serve, target: Target, prompt: Prompt) -> UpstreamRequest:
        """A request that Stoker itself makes. Raises ClientError 400 as `format` does."""
        client = ENDPOINTS[prompt.dialect.spec.path]
        dialect = dialect_for(serve, client.dialect, client.path, target.speaks)
        capabilities = self._capabilities_of(serve, dialect, target.system_turns)
        written = write_prompt(prompt, Losses(), capabilities, self._signer)
        fields = BodyFields(model=prompt.model, stream=prompt.stream, max_tokens=prompt.max_tokens, model_at=1)
        if prompt.stream:
            fields.stream_options = {"include_usage": True}
        own = UpstreamRequest(client, ENDPOINTS[dialect.spec.path], fields, written.body, (), written, capabilities)
        return own.with_parameters(serve.request)

    def with_one_token(self, request: UpstreamRequest) -> UpstreamRequest:
        """The same request, for an answer of one token."""
        assert request.written is not None
        assert request.capabilities is not None
        prompt = replace(request.written.prompt, max_tokens=1, stream=False)
        written = write_prompt(prompt, request.written.losses, request.capabilities, self._signer)
        fields = BodyFields(model=prompt.model, stream=False, max_tokens=1, model_at=1)
        return request.rewritten(written, fields, request.parameters.without(OUTPUT_LIMITS))

    def repair(self, request: UpstreamRequest, findings: Iterable[str]) -> UpstreamRequest:
        """The same request with another turn that says what was wrong with the first answer."""
        assert request.written is not None
        assert request.capabilities is not None
        text = f"Your last answer was not valid ({', '.join(findings)}). Answer the same request again, correctly."
        turns = [*request.written.prompt.turns, Turn(Role.USER, [Text(text)])]
        prompt = replace(request.written.prompt, turns=turns)
        written = write_prompt(prompt, request.written.losses, request.capabilities, self._signer)
        return request.rewritten(written, request.fields, request.parameters)

    def with_prompt(self, request: UpstreamRequest, prompt: Prompt) -> UpstreamRequest:
        """The same translated request with another prompt, and the limit of output that this one has."""
        assert request.written is not None
        assert request.capabilities is not None
        written = write_prompt(prompt, request.written.losses, request.capabilities, self._signer)
        fields = request.fields.copy()
        fields.max_tokens = prompt.max_tokens
        return request.rewritten(written, fields, request.parameters)

    def runs_server_tools(self, serve: Serve, target: Target | None, endpoint: Endpoint) -> bool:
        """Whether a serve gets the tools that its vendor runs as the client declared them."""
        dialect = dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
        found = self._capabilities_of(serve, dialect, None if target is None else target.system_turns)
        return dialect is endpoint.dialect and found.server_tools

    def without_thinking(self, request: UpstreamRequest) -> UpstreamRequest | None:
        """The same request without any thinking of the past; None: it holds none."""
        assert request.capabilities is not None
        if request.written is None:
            body = drop_thinking(request.body, request.capabilities)
            if body is request.body:
                return None
            fields = request.fields.copy()
            fields.model_at = None
            again = UpstreamRequest(
                request.client, request.endpoint, fields, body, request.notes, None, request.capabilities
            )
            again.parameters = request.parameters
        else:
            prompt = request.written.prompt
            turns = [
                Turn(turn.role, [block for block in turn.blocks if not isinstance(block, Thinking | Redacted)])
                for turn in prompt.turns
            ]
            if turns == prompt.turns:
                return None
            written = write_prompt(
                replace(prompt, turns=turns), request.written.losses, request.capabilities, self._signer
            )
            again = request.rewritten(written, request.fields, request.parameters)
        again.tokens = request.tokens
        again.may_drop_thinking = False
        again.notes = tuple(dict.fromkeys((*again.notes, "dropped:thinking")))
        return again

    def prompt_of(self, request: UpstreamRequest) -> Prompt | None:
        """The prompt, for checking the answer against it; None: Stoker cannot read the dialect."""
        if request.written is not None:
            return request.written.prompt
        if not request.endpoint.dialect.spec.is_target or not request.client.generates:
            return None
        try:
            return read_prompt(request.endpoint.dialect, request.body)[0]
        except ClientError:
            return None  # the serve may understand it all the same

    def needs_images(self, serve: Serve, target: Target | None, endpoint: Endpoint) -> bool:
        """Whether images that a request names by URL have to be downloaded for this serve."""
        dialect = dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
        return not self._capabilities_of(
            serve, dialect, None if target is None else target.system_turns
        ).takes_image_urls

    def encode(
        self,
        request: UpstreamRequest,
        target: Target,
        given: list[tuple[bytes, bytes]],
        request_id: str,
        sequence: int | None = None,
        check: Check | None = None,
        plain: bool = False,
    ) -> EncodedRequest:
        """The bytes for the serve, and the translator of its answer. `given`: the client's headers. `check` sees
        every event; it can hold back only a translated answer. `plain`: the answer may not be compressed.
        """
        edited = request.edited(target.served_name, sequence)
        body = edited.body
        request.prompt_bytes = edited.size
        if request.fields.may_name_images:
            request.prompt_bytes -= excess_of_files(request.body)
        if request.written is None:
            # A compressed stream cannot be read, and no error or ping of ours can be inserted into it.
            embeds = request.client.dialect is Dialect.OLLAMA_EMBED
            if request.endpoint.dialect is Dialect.EMBEDDINGS and request.inputs is None:
                request.inputs = count_inputs(request.body)
            plain = plain or bool(request.fields.stream) or check is not None or embeds
            head = request_head(b"POST", request.endpoint.path, target, given, edited.size, plain)
            watched = (
                None
                if check is None
                else CheckedReply(request.endpoint.dialect, edited.remove_usage, check, self.upstream_messages)
            )
            notes = request.notes + edited.changes
            if embeds:
                reply = EmbedReply(request.fields.model, request.client.path, self._wall, notes, request.inputs)
                return EncodedRequest(head, body, False, notes, reply)
            return EncodedRequest(head, body, edited.remove_usage, notes, watched)
        headers = [header for header in given if header[0] in _KEPT_HEADERS]
        headers.append((b"content-type", b"application/json"))
        headers += request.endpoint.dialect.spec.needs_headers
        head = request_head(b"POST", request.endpoint.path, target, headers, edited.size, plain=True)
        context = AnswerContext(
            prompt=request.written.prompt,
            request_id=request_id,
            created=int(self._wall()),
            signer=self._signer,
            model=target.served_name,
            input_tokens=request.tokens,
            upstream=request.endpoint.dialect,
            wall=self._wall,
        )
        notes = request.notes + edited.changes
        translator = AnswerTranslator(
            request.endpoint.dialect, request.written, context, notes, check, self.upstream_messages
        )
        return EncodedRequest(head, body, False, notes, translator)

    def answer_writer(self, prompt: Prompt, request_id: str, model: str) -> AnswerWriter:
        """Writes an answer that Stoker itself gives, in the dialect of the client's prompt."""
        context = AnswerContext(prompt, request_id, int(self._wall()), self._signer, model, wall=self._wall)
        return answer_writer(context, Losses())

    def _capabilities_of(self, serve: Serve, dialect: Dialect, system_turns: str | None) -> Capabilities:
        """What a serve can do in one dialect, computed once per configuration and per finding about its engine."""
        key = serve.name, dialect, system_turns
        known = self._known_capabilities.get(key)
        translation, model = serve.translation, serve.served_name  # variants of a serve share its translation
        if known is None or known[0] is not translation or known[1] != serve.engine or known[2] != model:
            found = {} if system_turns is None else {"system_turns": system_turns}
            traits = engine_of(serve.engine).traits
            given = {**found, **translation.traits, "strict": translation.strict}
            capabilities = capabilities_of(traits, dialect, translation.cloud, given, model or serve.name)
            known = self._known_capabilities[key] = translation, serve.engine, model, capabilities
        return known[3]


def _embed_request(endpoint: Endpoint, body: bytes) -> UpstreamRequest:
    """Ollama's request for embeddings, as /v1/embeddings has it. Raises ClientError 400."""
    embed = read_embed(body, endpoint.path)
    fields = BodyFields(model=embed.model, stream=False, model_at=1)
    way = f"{Dialect.OLLAMA_EMBED.value}>{Dialect.EMBEDDINGS.value}"
    notes = (way, *(f"lossy:{code}" for code in embed.losses.codes))
    request = UpstreamRequest(endpoint, ENDPOINTS["/v1/embeddings"], fields, embed.body, notes, is_empty=embed.is_empty)
    request.inputs = embed.inputs
    return request

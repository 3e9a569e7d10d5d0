"""In which form a request reaches its serve: as it came, or in another dialect; and its answer the other way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from stoker.domain.dialect import ENDPOINTS, OLLAMA, Dialect, Endpoint
from stoker.domain.errors import ClientError
from stoker.domain.lease import Target
from stoker.domain.prompt import Prompt, Role, Text, Turn
from stoker.domain.serve import Serve
from stoker.request.codec.edits import Edited, edit
from stoker.request.codec.peek import Top
from stoker.request.codec.upstream import Words
from stoker.request.decide.dialects import dialect_for
from stoker.request.relay.headers import request_head
from stoker.request.translate.neutral.corners import Losses
from stoker.request.translate.neutral.dialogue import Asked, Check
from stoker.request.translate.neutral.thinking import Signer
from stoker.request.translate.neutral.traits import Traits, traits
from stoker.request.translate.tidy import is_plain, tidy
from stoker.request.translate.translate import PATHS, AnswerTranslator, Written, read_prompt, write_prompt
from stoker.request.translate.watched import Watched

_VERSION = b"2023-06-01"
_GO_ALONG = (b"user-agent", b"traceparent", b"tracestate")
"""Headers of the client that a request in another dialect still has."""


class Form:
    """One request as one serve is to get it. `written` is None where it passes through."""

    __slots__ = ("about", "body", "client", "endpoint", "tokens", "top", "words", "written")

    def __init__(
        self,
        client: Endpoint,
        endpoint: Endpoint,
        top: Top,
        body: bytes,
        words: tuple[str, ...] = (),
        written: Written | None = None,
        about: Traits | None = None,
    ) -> None:
        self.client = client
        """Where the request came in; `endpoint` is where it goes."""
        self.endpoint = endpoint
        self.top = top
        self.body = body
        self.words = words
        """What was done so far, for `x-stoker-translation`."""
        self.written = written
        self.about = about
        self.tokens: int | None = None
        """Of the prompt, where they were counted."""

    @property
    def counts_only(self) -> bool:
        """Whether a count is asked for, of a serve that has no path for it."""
        return self.written is not None and not self.client.generates

    @property
    def loads_only(self) -> bool:
        """Whether nothing is asked: an Ollama client has its model loaded that way."""
        return self.written is not None and self.client.dialect in OLLAMA and not self.written.asked.turns

    def edited(self, served_name: str, sequence: int | None = None) -> Edited:
        """The body with the serve's own name for the model, and what else is asked of every request."""
        return edit(self.body, self.top, self.endpoint.dialect, served_name, sequence)


class Sending(NamedTuple):
    """One upstream request. `words` say what was done to it; `answer` is None where the reply passes through."""

    head: bytes
    body: bytes
    remove_usage: bool
    words: tuple[str, ...]
    answer: AnswerTranslator | Watched | None


class Speech:
    """Makes forms, and whatever reads a form's answer."""

    def __init__(self, signer: Signer, wall: Callable[[], float], words: Words | None = None) -> None:
        self._words = words
        """What clients get of a serve's own words."""
        self._signer = signer
        self._wall = wall
        self._traits: dict[tuple[str, Dialect, str | None], tuple[Serve, Traits]] = {}
        self._plain: dict[tuple[str, str], tuple[Serve, Target | None]] = {}
        """Who was found to speak an endpoint's dialect as it is, by serve and path: only images are looked for then."""

    def form(
        self, serve: Serve, target: Target | None, endpoint: Endpoint, top: Top, body: bytes, reads: bool = False
    ) -> Form:
        """`target`: the running serve, whose engine was asked what it can; None: it is not loaded yet. `reads`: also
        what could pass through is read and written anew, so that its answer can be checked.

        Raises ClientError 400: the serve speaks nothing that fits, or the request cannot be read or written.
        """
        plain = self._plain.get((serve.name, endpoint.path))
        if plain is not None and plain[0] is serve and plain[1] is target and not (top.may_name_images or reads):
            return Form(endpoint, endpoint, top, body)
        dialect = dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
        about = self._about(serve, dialect, None if target is None else target.system_turns)
        if dialect is endpoint.dialect and not (reads and dialect in PATHS):
            if dialect not in PATHS or is_plain(about):
                self._plain[serve.name, endpoint.path] = serve, target
            tidied, changes = tidy(body, about, top.may_name_images) if dialect in PATHS else (body, ())
            if changes:
                top.model_at = None
            return Form(endpoint, endpoint, top, tidied, changes)
        prompt, losses = read_prompt(endpoint.dialect, body)
        prompt.stream = bool(top.stream) and endpoint.streams
        written = write_prompt(prompt, losses, about, self._signer)
        written_top = Top(model=prompt.model, stream=prompt.stream, max_tokens=prompt.max_tokens, model_at=1)
        written_top.stream_options = {"include_usage": True}
        way = () if dialect is endpoint.dialect else (f"{endpoint.dialect.value}>{dialect.value}",)
        words = (*way, *(f"lossy:{code}" for code in written.losses.codes))
        return Form(endpoint, ENDPOINTS[PATHS[dialect]], written_top, written.body, words, written, about)

    def own(self, serve: Serve, target: Target, prompt: Prompt) -> Form:
        """A request that Stoker itself makes, not streamed. Raises ClientError 400 as `form` does."""
        client = ENDPOINTS[PATHS[prompt.dialect]]
        dialect = dialect_for(serve, client.dialect, client.path, target.speaks)
        about = self._about(serve, dialect, target.system_turns)
        written = write_prompt(prompt, Losses(), about, self._signer)
        top = Top(model=prompt.model, stream=False, max_tokens=prompt.max_tokens, model_at=1)
        return Form(client, ENDPOINTS[PATHS[dialect]], top, written.body, (), written, about)

    def one_token(self, form: Form) -> Form:
        """The same request, for one token of answer."""
        assert form.written is not None
        assert form.about is not None
        asked = replace(form.written.asked, max_tokens=1, stream=False)
        written = write_prompt(asked, form.written.losses, form.about, self._signer)
        top = Top(model=asked.model, stream=False, max_tokens=1, model_at=1)
        return Form(form.client, form.endpoint, top, written.body, form.words, written, form.about)

    def again(self, form: Form, told: Iterable[str]) -> Form:
        """The same request once more, with what was wrong of the answer that nobody got."""
        assert form.written is not None
        assert form.about is not None
        text = f"Your last answer was not valid ({', '.join(told)}). Answer the same request again, correctly."
        turns = [*form.written.asked.turns, Turn(Role.USER, [Text(text)])]
        written = write_prompt(replace(form.written.asked, turns=turns), form.written.losses, form.about, self._signer)
        return Form(form.client, form.endpoint, form.top, written.body, form.words, written, form.about)

    def prompt(self, form: Form) -> Prompt | None:
        """What is asked, for whoever checks the answer; None: in its dialect no answer is read."""
        if form.written is not None:
            return form.written.asked
        if form.endpoint.dialect not in PATHS or not form.client.generates:
            return None
        try:
            return read_prompt(form.endpoint.dialect, form.body)[0]
        except ClientError:
            return None  # the serve may understand it all the same

    def needs_images(self, serve: Serve, target: Target | None, endpoint: Endpoint) -> bool:
        """Whether it has to be given the images that a request names by their address."""
        dialect = dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
        return not self._about(serve, dialect, None if target is None else target.system_turns).takes_image_urls

    def sending(
        self,
        form: Form,
        target: Target,
        given: list[tuple[bytes, bytes]],
        request_id: str,
        sequence: int | None = None,
        check: Check | None = None,
    ) -> Sending:
        """What goes to the serve, and whatever reads its answer. `given`: the client's headers. `check` may only hold
        back what was read; what passes through, it only watches.
        """
        body, changes, remove_usage = form.edited(target.served_name, sequence)
        if form.written is None:
            # Nothing of ours, no error and no ping, can be put into a compressed stream, and nothing of it is read.
            plain = bool(form.top.stream) or check is not None
            head = request_head(b"POST", form.endpoint.path, target, given, len(body), plain)
            watched = None if check is None else Watched(form.endpoint.dialect, remove_usage, check, self._words)
            return Sending(head, body, remove_usage, form.words + changes, watched)
        headers = [header for header in given if header[0] in _GO_ALONG]
        headers.append((b"content-type", b"application/json"))
        if form.endpoint.dialect is Dialect.MESSAGES:
            headers.append((b"anthropic-version", _VERSION))
        head = request_head(b"POST", form.endpoint.path, target, headers, len(body), plain=True)
        asked = Asked(
            prompt=form.written.asked,
            request_id=request_id,
            created=int(self._wall()),
            signer=self._signer,
            model=target.served_name,
            input_tokens=form.tokens,
        )
        words = form.words + changes
        answer = AnswerTranslator(form.endpoint.dialect, form.written, asked, words, check, self._words)
        return Sending(head, body, remove_usage, words, answer)

    def _about(self, serve: Serve, dialect: Dialect, system_turns: str | None) -> Traits:
        """What the serve is like, made once per configuration of it, and of what its engine was found to be."""
        key = serve.name, dialect, system_turns
        known = self._traits.get(key)
        if known is None or known[0] is not serve:
            translation = serve.translation
            found = {} if system_turns is None else {"system_turns": system_turns}
            given = {**found, **translation.traits, "strict": translation.strict}
            known = self._traits[key] = serve, traits(serve.engine, dialect, translation.cloud, given)
        return known[1]

"""The errors that Stoker reports, by who has to act. Each has an HTTP status; the codec writes it in the caller's
dialect.
"""

from __future__ import annotations

from collections.abc import Mapping


class StokerError(Exception):
    """Any error that Stoker reports to a client.

    status       HTTP status, 400-599
    code         a stable snake_case word for programs (`queue_full`, `unknown_model`)
    message      one or two sentences: what, where, what to do next; no content, no secret
    retry_after  seconds; sent as Retry-After when given
    param        the request field at fault, if any
    headers      further headers of the reply: `Allow`, `Accept-Encoding`
    source       `stoker`; `upstream` if the message is a serve's own
    details      further fields of the error's body, JSON-able
    upstream_message  a serve's own error message, unchanged: neither for logs nor, until it is cleaned, for clients
    """

    status = 500
    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        source: str = "stoker",
        upstream_message: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.status = status or type(self).status
        self.retry_after = retry_after
        self.param = param
        self.headers = headers or {}
        self.source = source
        self.upstream_message = upstream_message
        self.details: Mapping[str, object] = {}


class ClientError(StokerError):
    """The caller's fault: it has to change the request."""

    status = 400
    code = "invalid_request"


class ContextExceeded(ClientError):
    """The prompt leaves no room for an answer in the context.

    Counts are tokens; those that are known are fields of the error's body: `prompt_tokens`, `output_tokens`, `context`.
    """

    code = "context_length_exceeded"

    def __init__(
        self,
        message: str,
        *,
        prompt: int | None = None,
        output: int | None = None,
        context: int | None = None,
        source: str = "stoker",
        param: str | None = None,
    ) -> None:
        super().__init__(message, source=source, param=param)
        counts = {"prompt_tokens": prompt, "output_tokens": output, "context": context}
        self.details = {name: count for name, count in counts.items() if count is not None}


class OutputLimitTooHigh(ClientError):
    """The prompt fits, but a serve refuses the output that is asked for beside it. Its message is Stoker's own: clients
    take an engine's words for a prompt that is too long, and shorten that.
    """

    code = "output_limit_too_high"

    def __init__(self, prompt: int, context: int, output: int | None = None) -> None:
        self.room = context - prompt
        """Tokens that the prompt leaves."""
        super().__init__(
            f"the prompt has {prompt} tokens and leaves {self.room} of the serve's {context} for the answer: ask for at"
            f" most {self.room} output tokens",
            source="upstream",
            param="max_tokens",
        )
        self.details = {"prompt_tokens": prompt, "context": context}
        if output is not None:
            self.details["output_tokens"] = output


class UnsupportedInput(ClientError):
    """The model takes no such input. `kind`: `image`, `audio`, `video`, or `media` if the engine does not say which."""

    code = "unsupported_input"

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._plural = {"image": "images", "media": "images, audio or video"}.get(kind, kind)
        super().__init__(f"this model takes no {self._plural}: ask a model that does", param="messages")

    def name(self, model: str, takes: tuple[str, ...]) -> None:
        """Say which model it is, and what it takes: the modalities of its serve."""
        others = ", ".join(one for one in takes if one != self.kind)
        text = f"model '{model}' takes {f'{others} and ' if others else ''}no {self._plural}"
        if self.kind in takes:
            self.message = (
                f"{text}, although the `modalities` of its serve have it: llama.cpp needs the model's projector, "
                "`--mmproj FILE` in `extra_args`; else correct `modalities`"
            )
        else:
            self.message = f"{text}: ask a model that takes {'them' if self.kind == 'media' else self._plural}"


class CapacityError(StokerError):
    """There is no capacity now: the caller may try again. Always has `retry_after`."""

    status = 503
    code = "no_capacity"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retry_after: float = 1.0,
        source: str = "stoker",
        upstream_message: str = "",
    ) -> None:
        super().__init__(message, code=code, retry_after=retry_after, source=source, upstream_message=upstream_message)


class UnreadableModel(StokerError):
    """The files are no model that can be judged; the message says which, why, and what to do."""

    status = 400
    code = "unreadable_model"


class StartFailed(StokerError):
    """A serve did not become ready. `message` may include what the engine printed last, shortened; `remedy`, what to do
    and where its log is, is Stoker's own words alone.
    """

    status = 503
    code = "start_failed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message, code=code, status=status, retry_after=retry_after)
        self.remedy = remedy


def forwarded_twice(name: str) -> StokerError:
    text = (
        f"serve '{name}' is only elsewhere for this Stoker too, and a request that another Stoker forwarded is not "
        "forwarded again: remove one `also` or slot of a box, or give the serve a place here"
    )
    return ClientError(text, code="forwarded_twice", status=508)


def did_not_start(name: str) -> str:
    """How the message about a failed start begins, where the reason is known."""
    return f"serve '{name}' did not start: "


BEYOND_THE_DEVICE = frozenset(
    ("out_of_memory", "startup_memory", "device_lost", "driver_mismatch", "unsupported_quantization")
)
"""Codes of StartFailed that mean: the model does not fit on its device, or there is none that it can use. Its
`fallback` is used instead.
"""


LASTING_HERE = frozenset(("unsupported_backend", "unsupported_quantization", "missing_dependency"))
"""Those of LASTING that another device or machine may not have."""
LASTING = LASTING_HERE | {
    "bad_weights", "unsupported_architecture", "context_too_long", "bad_option", "missing_weights", "bad_parallel",
}  # fmt: skip
"""Codes of StartFailed for lasting failures: the serve's files or its configuration have to change."""
CANNOT_LOAD = "cannot_load"
"""Code of StartFailed: it failed so, or a check found such a reason, and it is not started again."""


class UpstreamError(StokerError):
    """The serve failed, or its reply is not an answer."""

    status = 502
    code = "upstream_error"


UNREACHABLE = "unreachable"
"""Code of an UpstreamError: no connection came about, so nothing was sent."""
REJECTED = "failed_verification"
"""Code of an UpstreamError: the answer was proved wrong."""
EMPTY_ANSWER = "empty_answer"
"""Code of an UpstreamError: a routed request got an answer without text, call or refusal, and one was expected."""
FIRST_BYTE = "first_byte_timeout"
"""Code of an UpstreamError: no byte of an answer came in time."""


class ConfigError(StokerError):
    """The configuration cannot be used. `problems`: all of them, not only the first."""

    status = 500
    code = "config_error"

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class OurBug(StokerError):
    """A bug in Stoker. The message is generic; the detail goes to the log under the request id."""


class ClientLeft(Exception):
    """The client closed the connection. Not a StokerError: no client is left to receive one."""

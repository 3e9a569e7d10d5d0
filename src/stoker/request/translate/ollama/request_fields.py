"""What /api/chat and /api/generate ask alike: options, the form of the answer, how much to think.

Ollama ignores options that it does not know. So does this, and names the loss.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import AnswerFormat, Prompt, Reasoning, Role, Tool, Turn
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, is_there, loose, shaped


class OllamaRequest(msgspec.Struct):
    """Fields of both requests. null is as good as absent."""

    model: str
    stream: bool | None = None
    """Unlike everywhere else, absent means yes."""
    options: dict[str, Any] | None = None
    format: Raw = Raw()  # `Raw | None` would take null alone
    think: bool | str | None = None
    keep_alive: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


SETTINGS = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "seed": "seed",
    "repeat_penalty": "repetition_penalty", "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}  # fmt: skip
"""Names of options -> names of settings."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_WHOLE = ("top_k", "seed", "num_predict")
_fields = msgspec.json.Decoder(dict[str, Raw])


def note_unknown(body: bytes, shape: type[OllamaRequest], losses: Losses) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    if any(name not in known for name in shaped(_fields, body, "")):
        losses.add("unknown_field")


def prompt_of(request: OllamaRequest, dialect: Dialect, turns: list[Turn], tools: list[Tool], losses: Losses) -> Prompt:
    """Raises ClientError 400 for options and formats that cannot be read."""
    if request.keep_alive is not None:
        losses.add("keep_alive")
    options = {name: value for name, value in (request.options or {}).items() if value is not None}
    limit = _number(options, "num_predict")
    stop = _stop(options.pop("stop", None))
    settings = {ours: value for theirs, ours in SETTINGS.items() if (value := _number(options, theirs)) is not None}
    if request.logprobs:
        settings["logprobs"] = True
        if request.top_logprobs:
            settings["top_logprobs"] = request.top_logprobs
    if settings.get("seed", 0) < 0:  # Ollama's word for any seed; to others it is a seed like any other
        del settings["seed"]
    if options:
        losses.add("unknown_field")
    return Prompt(
        dialect=dialect,
        model=request.model,
        turns=turns,
        tools=tools,
        max_tokens=limit if limit is not None and limit > 0 else None,  # -1 and -2: until the end, or the context's
        stop=stop,
        stream=request.stream is not False,
        format=_format(request.format),
        reasoning=_reasoning(request.think, losses),
        continues=bool(turns) and turns[-1].role is Role.ASSISTANT,
        settings=settings,
    )


def wants_unload(body: bytes) -> bool:
    """Whether a request without anything to answer is to unload the model: `keep_alive` is 0, `"0"`, `"0s"`.

    For a body that was read already; raises nothing.
    """
    found = loose(body)
    value = found.get("keep_alive") if isinstance(found, dict) else None
    if isinstance(value, str):
        return "0" in value and not any(digit in value for digit in "123456789")
    return type(value) in (int, float) and value == 0


def _number(options: dict[str, Any], name: str) -> Any:
    """An option, taken out; whole ones may be written with a point."""
    value = options.pop(name, None)
    if value is not None and type(value) not in (int, float):
        raise _error(f"options.{name}", "must be a number")
    return int(value) if value is not None and name in _WHOLE else value


def _stop(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _error("options.stop", "must be a string, or a list of strings")
    return texts


def _format(given: Raw) -> AnswerFormat | None:
    """1. nothing, null, an empty string; 2. `"json"`; 3. a schema, as the client wrote it; 4. refused."""
    if not is_there(given) or bytes(given) == b'""':
        return None  # 1
    if bytes(given) == b'"json"':
        return AnswerFormat()  # 2
    if bytes(given).startswith(b"{"):
        return AnswerFormat(schema=given, strict=True)  # 3
    raise _error("format", 'must be "json" or a JSON schema')  # 4


def _reasoning(think: bool | str | None, losses: Losses) -> Reasoning | None:
    if think is None:
        return None
    if isinstance(think, bool):
        return Reasoning(enabled=think)
    if think in EFFORTS:
        return Reasoning(effort=think)
    losses.add("reasoning")  # a level of some model's own: Ollama goes on with the model's default
    return None


def _error(where: str, text: str) -> ClientError:
    return ClientError(f"'{where}' {text}", code="bad_field", param=where)

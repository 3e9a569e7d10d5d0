"""An /api/generate request as a Prompt: the system's text, then what the user says, images first."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import Prompt, Role, Text, Turn
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import shaped
from stoker.request.translate.ollama.read_prompt import pictures
from stoker.request.translate.ollama.request_fields import OllamaRequest, note_unknown, prompt_of


class _Request(OllamaRequest):
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    images: list[str] | None = None
    template: str | None = None
    raw: bool | None = None
    context: Any = None


_request = msgspec.json.Decoder(_Request)
_REFUSED = {
    "suffix": "needs a serve that speaks completions: this model answers in chat turns",
    "raw": "cannot be true: the model's own template is always applied; ask /v1/completions of a serve that speaks it",
    "template": "cannot be given: the model's own template is always applied",
}


def read_generate(body: bytes, losses: Losses) -> Prompt:
    """Raises ClientError 400.

    A request without a prompt only loads the model, or unloads it, as in `read_prompt`: its Prompt has no turns.
    """
    request = shaped(_request, body, "")
    note_unknown(body, _Request, losses)
    for name, text in _REFUSED.items():
        if getattr(request, name):
            raise ClientError(f"'{name}' {text}", code="bad_field", param=name)
    if request.context:
        losses.add("context")
    turns: list[Turn] = []
    if request.prompt:
        if request.system:
            turns.append(Turn(Role.SYSTEM, [Text(request.system)]))
        turns.append(Turn(Role.USER, [*pictures(request.images, "images"), Text(request.prompt)]))
    return prompt_of(request, Dialect.OLLAMA_GENERATE, turns, [], losses)

"""Images, audio or video for a model that takes none: how engines say so, each with a status of its own."""

from __future__ import annotations

import re

from stoker.domain.errors import UnsupportedInput

_MEDIA = "(image|audio|video)"
_SAID = re.compile(
    rf"{_MEDIA} input is not (?:supported|enabled)"  # llama.cpp, Mistral
    rf"|\bAt most 0 {_MEDIA}\(s\) may be provided|is not a multimodal model"  # vLLM
    rf"|missing data required for {_MEDIA} input|\bdoes not support {_MEDIA}"  # Ollama, LM Studio
    rf"|\bNo endpoints found that support (?:input )?{_MEDIA}"  # OpenRouter
    rf"|\b{_MEDIA}_url is only supported by certain models|unknown variant `{_MEDIA}_url`"  # OpenAI, DeepSeek
    r"|\bOnly 'text' content type is supported",  # mlx-lm
    re.IGNORECASE,
)
_MOST_READ = 4096


def refused_input(message: str) -> UnsupportedInput | None:
    """The error for an engine's message that its model takes no such input; None: it is about something else."""
    found = _SAID.search(message[:_MOST_READ])
    if found is None:
        return None
    return UnsupportedInput(next((kind.lower() for kind in found.groups() if kind), "media"))

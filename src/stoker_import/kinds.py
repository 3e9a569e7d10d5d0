"""What a model answers, guessed from its name: the dialects of models that are not for conversation. Pure.

The words are those that publishers give such models in their names.
"""

from __future__ import annotations

import re

_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("rerank", re.compile(r"rerank|colbert|cross-?encoder", re.IGNORECASE)),
    (
        "embeddings",
        re.compile(r"embed|(^|[/_-])(bge|gte|e5|minilm|mpnet|jina-clip|arctic-embed|nomic)([/_.-]|$)", re.IGNORECASE),
    ),
    ("transcription", re.compile(r"whisper|transcribe|parakeet|canary-|(^|[/_-])(stt|asr)([/_.-]|$)", re.IGNORECASE)),
    ("speech", re.compile(r"kokoro|orpheus|piper|chatterbox|bark|(^|[/_-])(tts|xtts)([/_.-]|$|\d)", re.IGNORECASE)),
    (
        "image",
        re.compile(
            r"dall-?e|stable-diffusion|(^|[/_-])(sdxl|sd3|sd1|flux|gpt-image|qwen-image|z-image)([/_.-]|$|\d)",
            re.IGNORECASE,
        ),
    ),
)


def dialects_of_name(name: str) -> tuple[str, ...]:
    """The dialects of a model with this name; empty: the name does not tell, so it is a model for conversation."""
    return next(((dialect,) for dialect, words in _WORDS if words.search(name)), ())

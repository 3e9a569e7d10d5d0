"""What clouds charge for cached tokens of a prompt, in comparison with fresh ones: the defaults of a tier's `cost`.

Prices of November 2026 per family of models, from secondary pages. `read`: tokens that came from the cache.
`write`: tokens that were written to it; Anthropic's for five minutes (one hour costs twice the input). They were not
compared with the vendors' own pages, which are right where they differ:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
https://developers.openai.com/api/docs/guides/prompt-caching and https://developers.openai.com/api/docs/pricing
https://ai.google.dev/gemini-api/docs/pricing
https://api-docs.deepseek.com/quick_start/pricing
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stoker.domain.tier import Cost


class CacheRate(NamedTuple):
    """Multiples of the price of fresh tokens."""

    read: float
    write: float = 1.0


_NAME: Final = r"(?:^|[/.:])"
"""A name may have its vendor before it: `anthropic/`, `us.anthropic.`, `models/`."""
FAMILIES: Final = (
    (r"claude", CacheRate(0.1, 1.25)),
    (r"gpt-6\.1", CacheRate(0.05, 1.25)),
    (r"gpt-(?:5\.[6-9]|6(?![\d.]))", CacheRate(0.1, 1.25)),
    (r"gpt-5(?:\.[0-5])?(?![\d.])", CacheRate(0.1)),
    (r"(?:gpt-4\.1|o3(?!-mini)|o4-mini)", CacheRate(0.25)),
    (r"(?:gpt-4o|o1|o3-mini)", CacheRate(0.5)),
    (r"gemini-(?:2\.5|3)", CacheRate(0.1)),
    (r"gemini-2\.0", CacheRate(0.25)),
    (r"deepseek", CacheRate(0.1)),
)
"""The first that the name of a model begins with."""
_COMPILED: Final = tuple((re.compile(_NAME + pattern), rate) for pattern, rate in FAMILIES)
FRESH: Final = CacheRate(1.0)


def cache_rate(model: str) -> CacheRate:
    """Of the model with this name at its cloud; FRESH for one that is not listed."""
    name = model.lower()
    return next((rate for pattern, rate in _COMPILED if pattern.search(name)), FRESH)


def cost_with_cache(
    input: float, output: float, cached_input: float | None, cache_write: float | None, rate: CacheRate
) -> Cost:
    """The prices, with what is not given by `rate`; None: as fresh tokens."""
    if cached_input is None and rate.read != 1:
        cached_input = round(input * rate.read, 9)
    if cache_write is None and rate.write != 1:
        cache_write = round(input * rate.write, 9)
    return Cost(input, output, cached_input, cache_write)

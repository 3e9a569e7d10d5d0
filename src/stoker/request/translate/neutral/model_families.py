"""What the models of Anthropic and OpenAI take, as dated data: a request that says more is refused by them.

Facts of November 2026. Sources: the vendors' pages on effort, adaptive and extended thinking, prefill and limits
(platform.claude.com/docs/en/build-with-claude, platform.openai.com/docs/guides/reasoning); the model lists of the SDKs
anthropic 2.12 and openai 3.54; errors quoted in public issues (github.com/anomalyco/opencode/issues/4451,
github.com/openai/openai-agents-python/issues/2089). A model that is not listed is taken for a new one, and the request
is left as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stoker.domain.dialect import Dialect

SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs")
"""What models of OpenAI that think do not take."""
LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every effort, rising."""


class ClaudeFamily(NamedTuple):
    """What a Claude takes at `/v1/messages`."""

    names: str
    """A pattern for the model's name, without its date."""
    budget: bool = False
    """`thinking: enabled` with a budget."""
    adaptive: bool = False
    efforts: tuple[str, ...] = ()
    thinking_off: str = "disabled"
    """The `thinking.type` that switches it off; empty: it always thinks."""
    sampling: bool = False
    """temperature, top_p and top_k."""
    prefill: bool = False
    """A last turn of the assistant, which it continues."""
    most_output: int = 128_000
    """Tokens."""


_TO_HIGH = ("low", "medium", "high")
_TO_MAX = (*_TO_HIGH, "max")
_ALL = (*_TO_HIGH, "xhigh", "max")

CLAUDE = (
    ClaudeFamily(r"3-opus|3-sonnet|3-haiku", sampling=True, prefill=True, most_output=4096),
    ClaudeFamily(r"3-5-(?:sonnet|haiku)", sampling=True, prefill=True, most_output=8192),
    ClaudeFamily(r"3-7-sonnet", budget=True, sampling=True, prefill=True, most_output=64_000),
    ClaudeFamily(r"opus-4(?:-[01])?", budget=True, sampling=True, prefill=True, most_output=32_000),
    ClaudeFamily(r"sonnet-4(?:-0)?", budget=True, sampling=True, prefill=True, most_output=64_000),
    ClaudeFamily(r"(?:haiku|sonnet)-4-5", budget=True, sampling=True, prefill=True, most_output=64_000),
    ClaudeFamily(r"opus-4-5", budget=True, efforts=_TO_HIGH, sampling=True, prefill=True, most_output=64_000),
    ClaudeFamily(r"(?:opus|sonnet)-4-6", budget=True, adaptive=True, efforts=_TO_MAX, sampling=True),
    ClaudeFamily(r"opus-4-[78]", adaptive=True, efforts=_ALL),
    ClaudeFamily(r"(?:opus|sonnet)-5", adaptive=True, efforts=_ALL),
    ClaudeFamily(r"sonnet-5-5", adaptive=True, efforts=_ALL, thinking_off="between_tools"),
    ClaudeFamily(r"opus-5-5|(?:fable|mythos)-(?:5(?:-[12])?|preview)", adaptive=True, efforts=_ALL, thinking_off=""),
)


class GptFamily(NamedTuple):
    """What a model of OpenAI takes. Those that think take no sampling; some do while they do not think."""

    names: str
    efforts: tuple[str, ...] = ()
    sampling: str = "never"
    """`always`, `never`, or `none`: only with the effort `none`."""
    limit_field: str = "max_completion_tokens"


GPT = (
    GptFamily(r"gpt-3\.5.*|gpt-4(?:|-turbo.*|o.*|\.1.*)|chatgpt-4o.*", sampling="always", limit_field=""),
    GptFamily(r"gpt-5(?:\.\d)?-chat.*", sampling="always"),
    GptFamily(r"o1(?:-preview|-mini)?|o1-pro|o3(?:-mini|-pro)?|o4-mini", _TO_HIGH),
    GptFamily(r"gpt-5-pro", ("high",)),
    GptFamily(r"gpt-5-codex(?:-mini)?|gpt-5\.1-codex(?:-mini)?", _TO_HIGH),
    GptFamily(r"gpt-5(?:-mini|-nano)?", ("minimal", *_TO_HIGH)),
    GptFamily(r"gpt-5\.1", ("none", *_TO_HIGH), "none"),
    GptFamily(r"gpt-5\.[1-9]-codex(?:-max|-mini|-spark)?", (*_TO_HIGH, "xhigh")),
    GptFamily(r"gpt-5\.[2-9]-pro", ("medium", "high", "xhigh")),
    GptFamily(r"gpt-5\.[2-9](?:-mini|-nano|-sol|-terra|-luna)?", ("none", *_TO_HIGH, "xhigh"), "none"),
)
_DATE = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest)$")
_BEDROCK = re.compile(r"-v\d+(?::\d+)?$")
_CLAUDE = tuple((re.compile(rf"claude-(?:{family.names})\Z"), family) for family in CLAUDE)
_GPT = tuple((re.compile(rf"(?:{family.names})\Z"), family) for family in GPT)


def claude_family(model: str) -> ClaudeFamily | None:
    """By a model's name as Anthropic, Bedrock, Vertex or OpenRouter spell it; None: it is not known."""
    name = model.lower().rpartition("/")[2].rpartition("anthropic.")[2].partition("@")[0]
    name = _DATE.sub("", _BEDROCK.sub("", name)).replace(".", "-")
    return next((family for pattern, family in _CLAUDE if pattern.match(name)), None)


def gpt_family(model: str) -> GptFamily | None:
    """By a model's name as OpenAI, Azure or OpenRouter spell it; None: it is not known."""
    name = _DATE.sub("", model.lower().rpartition("/")[2])
    return next((family for pattern, family in _GPT if pattern.match(name)), None)


def traits_of(model: str, dialect: Dialect) -> dict[str, object]:
    """What `Capabilities` says of a vendor's model; empty: the model is not known."""
    if dialect is Dialect.MESSAGES:
        claude = claude_family(model)
        return {} if claude is None else {
            "is_known": True, "budget": claude.budget, "adaptive": claude.adaptive, "efforts": claude.efforts,
            "thinking_off": claude.thinking_off, "sampling": claude.sampling, "most_output": claude.most_output,
            "prefill": "native" if claude.prefill else "refuse", "default_limit": min(32_000, claude.most_output),
        }  # fmt: skip
    gpt = gpt_family(model)
    if gpt is None:
        return {}
    found: dict[str, object] = {"is_known": True, "efforts": gpt.efforts, "sampling_with": gpt.sampling}
    if not gpt.efforts:
        found["thinking_switch"] = "none"
    if dialect is Dialect.CHAT and gpt.limit_field:
        found["limit_field"] = gpt.limit_field
    return found


def nearest_effort(effort: str, efforts: tuple[str, ...] | None) -> str | None:
    """The effort that comes nearest to the one that was asked for. `efforts`: those that the model takes; None: any.
    None: the model takes none. What is to be a little stays a little; but thinking is not switched off by it.
    """
    if efforts is None or effort in efforts or effort not in LEVELS:
        return effort
    if not efforts:
        return None
    wanted = LEVELS.index(effort)
    below = [one for one in efforts if one != "none" and LEVELS.index(one) < wanted]
    return below[-1] if below else next(one for one in efforts if one != "none")


def takes_sampling(when: str, effort: str | None) -> bool:
    """Whether a model of OpenAI takes SAMPLING with this effort. `when`: `Capabilities.sampling_with`."""
    return when == "always" or (when == "none" and effort in (None, "none"))

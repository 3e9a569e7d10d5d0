"""What a serve is like where dialects leave room: how it is told to think, which names and ids it takes, what its
template allows. A record with one default per kind of serve; a serve's `translation` table overrides any of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.model_families import traits_of

ERROR_PREFIX = "[tool error] "
"""What the text of a failed tool call begins with, in dialects that have no mark of their own for it."""


class Capabilities(msgspec.Struct, frozen=True):
    """How to write for one serve in one dialect."""

    dialect: Dialect
    local: bool = True
    """Its engine is run by its user: vendor settings are understood, nothing is billed."""
    limit_field: str = "max_tokens"
    """Chat: how the output limit is called; OpenAI's own reasoning models want `max_completion_tokens`."""
    system_turns: str = "append"
    """`keep`: system turns in mid-conversation stay turns; `append`: they join the user's text in their place."""
    tool_images: bool = False
    """Chat: a tool message may hold images."""
    takes_images: bool = True
    takes_image_urls: bool = False
    """Whether it may be given the address of an image instead of the image."""
    error_prefix: str = ERROR_PREFIX
    repetition_field: str = "repetition_penalty"
    """Chat: how that setting is called."""
    thinking_switch: str = "template"
    """Chat: `template` = chat_template_kwargs, `effort` = reasoning_effort, `none`."""
    thinking_field: str = "reasoning_content"
    """Chat: where past thinking goes: `reasoning_content`, `reasoning`, or empty for nowhere."""
    prefill: str = "native"
    """A last turn that begins the answer: `native` = as it is, `continue` = vLLM's flags, `refuse`."""
    early_usage: str = ""
    """Chat: the engine's own field that brings prompt tokens with the first chunk: `return_progress` (llama.cpp) or
    `continuous_usage_stats` (vLLM, SGLang)."""
    tool_ids: str = "any"
    """`any`; `short`: nine letters and digits (Mistral)."""
    id_length: int = 0
    """Most letters of a call's id; 0: any number."""
    server_tools: bool = False
    """It runs the tools of its dialect's vendor, such as web search: a cloud of that vendor does, a local engine does
    not."""
    custom_tools: bool = False
    """Chat, Responses: takes tools without a schema."""
    stop_strings: int = 0
    """How many it takes at most; 0: any number."""
    default_limit: int = 4096
    """Messages: the output limit where the client gave none."""
    sampling: bool = True
    """Messages: takes temperature, top_p and top_k; Anthropic's own models do not any more (its SDK 2.12 has none)."""
    sampling_with: str = "always"
    """OpenAI's: when it takes temperature, top_p and the like: `always`, `never`, or only with the effort `none`."""
    checks_signatures: bool = False
    """Messages: refuses thinking that it did not sign."""
    is_known: bool = False
    """The model is in the table of `model_families`, which is where the following come from."""
    efforts: tuple[str, ...] | None = None
    """Those that it takes; None: any."""
    budget: bool = True
    """Messages: takes `thinking: enabled` with a budget."""
    adaptive: bool = True
    """Messages: takes `thinking: adaptive`."""
    thinking_off: str = "disabled"
    """Messages: the `thinking.type` that switches thinking off; empty: it always thinks."""
    most_output: int = 0
    """Messages: the highest `max_tokens` that it takes; 0: any."""
    name_length: int = 64
    strict: bool = False
    """What a translation would lose is refused instead."""


def capabilities_of(
    traits: Mapping[str, object],
    dialect: Dialect,
    cloud: bool,
    given: Mapping[str, object] | None = None,
    model: str = "",
) -> Capabilities:
    """The record of a serve. `traits`: its engine's, `given`: what its configuration says, both by the names of
    `Capabilities`. `model`: its name at a cloud.
    """
    usual: dict[str, object] = {"dialect": dialect, **traits}
    if cloud:
        usual |= {
            "local": False, "limit_field": "max_completion_tokens", "system_turns": "keep", "takes_image_urls": True,
            "thinking_switch": "effort", "thinking_field": "", "stop_strings": 4, "custom_tools": True,
            "server_tools": True,
            "id_length": 40 if dialect is Dialect.CHAT else 64,
        }  # fmt: skip
    if dialect is Dialect.MESSAGES:
        usual |= {
            "name_length": 128,
            "stop_strings": 0,
            "checks_signatures": cloud,
            "sampling": not cloud,
            "default_limit": 32_000 if cloud else 4096,
            "system_turns": "keep",
        }
    if cloud:
        usual |= traits_of(model, dialect)
    return Capabilities(**{**usual, **(given or {})})  # type: ignore[arg-type]

"""`[serve.translation]`: how requests in other dialects are written for a serve."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.config.local_address import is_local
from stoker.domain.dialect import Dialect
from stoker.domain.kinds import (
    Count,
    DialectWord,
    LimitWord,
    PrefillWord,
    SwitchWord,
    SystemTurnsWord,
    ThinkingWord,
    ToolIdsWord,
    setting,
)
from stoker.domain.serve import Translation
from stoker.engines.registry import engine_of


class TranslationTable(msgspec.Struct, frozen=True):
    """How requests in other dialects are translated for a serve. Defaults depend on its engine."""

    strict: Annotated[
        bool, setting("Whether to refuse a request if translation would lose a part of it (400 `would_lose`).")
    ] = False
    always: Annotated[
        tuple[DialectWord, ...] | None,
        setting(
            "Dialects that it speaks badly, so that requests in them are translated nevertheless. Default: llama.cpp "
            "`responses`, else none."
        ),
    ] = None
    cloud: Annotated[
        bool | None,
        setting(
            "Whether somebody else runs it: it gets no settings of local engines, and only thinking that its vendor "
            "signed. Default: an external serve on https whose host is not a private address."
        ),
    ] = None
    system_turns: Annotated[
        SystemTurnsWord | None,
        setting(
            "System turns in mid-conversation: `keep` them as turns if the template can, or `append` them to the "
            "user's text. Default: llama.cpp's template is asked; else `append`, cloud `keep`."
        ),
    ] = None
    tool_images: Annotated[
        bool | None, setting("Whether a chat tool message may hold images. Default: llama.cpp true.")
    ] = None
    image_urls: Annotated[
        bool | None, setting("Whether it gets the URLs of images and fetches them itself. Default: cloud true.")
    ] = None
    error_prefix: Annotated[
        str | None, setting("Prefix of the text of a failed tool call. Default: `[tool error] `.")
    ] = None
    thinking_switch: Annotated[
        SwitchWord | None,
        setting("How thinking is switched: `template` (chat_template_kwargs), `effort` (reasoning_effort), `none`."),
    ] = None
    thinking_field: Annotated[
        ThinkingWord | None,
        setting(
            "The field for past thinking: `reasoning_content`, `reasoning`, or `none`. Default: the first; cloud: none."
        ),
    ] = None
    prefill: Annotated[
        PrefillWord | None,
        setting(
            "The beginning of an answer that the request gives: sent unchanged (`native`), with vLLM's flags "
            "(`continue`), or refused (`refuse`)."
        ),
    ] = None
    tool_ids: Annotated[
        ToolIdsWord | None, setting("Ids of tool calls: `any`, or `short` (nine letters and digits, as Mistral needs).")
    ] = None
    custom_tools: Annotated[bool | None, setting("Whether it takes tools without a schema. Default: cloud true.")] = (
        None
    )
    server_tools: Annotated[
        bool | None,
        setting(
            "Whether it runs the tools of its dialect's vendor (web search, code interpreter, MCP). If not, they are "
            "left out and named `lossy:server_tools`. Default: cloud true."
        ),
    ] = None
    output_limit: Annotated[
        Count | None,
        setting(
            "Messages: `max_tokens` for a request without one, since Anthropic requires it. Default: 4096, cloud 32000."
        ),
    ] = None
    limit_field: Annotated[
        LimitWord | None,
        setting(
            "Chat: the field for the output limit, `max_tokens`, or `max_completion_tokens` for OpenAI's newer models "
            "(default for cloud)."
        ),
    ] = None


_TRAITS = (
    ("system_turns", "system_turns"), ("tool_images", "tool_images"), ("image_urls", "takes_image_urls"),
    ("error_prefix", "error_prefix"), ("thinking_switch", "thinking_switch"), ("thinking_field", "thinking_field"),
    ("prefill", "prefill"), ("tool_ids", "tool_ids"), ("custom_tools", "custom_tools"),
    ("server_tools", "server_tools"),
    ("output_limit", "default_limit"), ("limit_field", "limit_field"),
)  # fmt: skip
"""Keys of the table, and what the translation calls them."""


def build_translation(given: TranslationTable, engine: str, base_url: str | None) -> Translation:
    """`base_url`: where an external serve answers."""
    traits = {name: value for key, name in _TRAITS if (value := getattr(given, key)) is not None}
    if given.thinking_field == "none":
        traits["thinking_field"] = ""
    always = engine_of(engine).poor_dialects if given.always is None else frozenset(map(Dialect, given.always))
    cloud = _is_cloud(base_url) if given.cloud is None else given.cloud
    return Translation(given.strict, always, cloud, traits)


def _is_cloud(base_url: str | None) -> bool:
    """On https, and no private address or name of this machine."""
    return (base_url or "").startswith("https://") and not is_local(base_url or "")


def show_translation(translation: Translation) -> dict[str, object]:
    """As the table would say it; only what was given, beside the three that everybody has."""
    named = {name: key for key, name in _TRAITS}
    given = {named[name]: value or "none" if name == "thinking_field" else value
             for name, value in translation.traits.items()}  # fmt: skip
    always = sorted(dialect.value for dialect in translation.always)
    return {"strict": translation.strict, "always": always, "cloud": translation.cloud, **given}

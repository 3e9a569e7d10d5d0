"""All fields and blocks, as the official SDKs list them (anthropic 2.12, openai 3.54).

`temperature`, `top_k` and `top_p` are the API's, though the SDK names them no more."""

from __future__ import annotations


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


COUNT = _names(
    "cache_control messages model output_config speed system thinking tool_choice tools user_profile_id workspace_id"
)
MESSAGES = COUNT | _names(
    "container diagnostics inference_geo max_tokens metadata service_tier stop_sequences stream temperature top_k top_p"
)
BETA = _names("billing_policy compaction context_management fallback_credit_token fallbacks mcp_servers thread")
"""Top-level fields that exist only with a header `anthropic-beta`."""

ROLES = ("user", "assistant", "system")

_CACHED = "cache_control"
BLOCKS: dict[str, tuple[str, str]] = {
    "text": ("text", f"{_CACHED} citations"),
    "image": ("source", f"{_CACHED} transformations"),
    "document": ("source", f"{_CACHED} citations context title"),
    "search_result": ("content source title", f"{_CACHED} citations"),
    "thinking": ("signature thinking", ""),
    "redacted_thinking": ("data", ""),
    "tool_use": ("id input name", f"{_CACHED} caller toolset_name"),
    "tool_result": ("tool_use_id", f"{_CACHED} content is_error toolset_name"),
    "server_tool_use": ("id input name", f"{_CACHED} caller"),
    "web_search_tool_result": ("content tool_use_id", f"{_CACHED} caller"),
    "web_fetch_tool_result": ("content tool_use_id", f"{_CACHED} caller"),
    "code_execution_tool_result": ("content tool_use_id", _CACHED),
    "bash_code_execution_tool_result": ("content tool_use_id", _CACHED),
    "text_editor_code_execution_tool_result": ("content tool_use_id", _CACHED),
    "tool_search_tool_result": ("content tool_use_id", _CACHED),
    "container_upload": ("file_id", _CACHED),
}
"""Content blocks: fields that each must have, and may have, besides its type."""
BETA_BLOCKS = _names(
    "advisor_tool_result mcp_tool_use mcp_tool_result compaction tool_addition tool_removal mcp_tool_listing fallback"
)
"""Blocks that exist only with a header `anthropic-beta`; their fields are not checked."""
ONLY_IN = {"tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant", "tool_result": "user"}
IN_RESULTS = ("text", "image", "search_result", "document", "tool_reference")
IN_SYSTEM = ("text",)

TOOL = (
    "input_schema name",
    f"allowed_callers {_CACHED} defer_loading description eager_input_streaming input_examples strict type",
)
"""A tool of the client's own."""

CHAT = _names(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages"
    " metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier"
    " stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity"
    " web_search_options"
)

"""Where each field of the SDKs' requests goes on the way to another dialect and back; see `sdk_fields`."""

from __future__ import annotations

from tests.request.translate.properties.sdk_fields import Table

_SERVER = "lost:server_tools"
_FOREIGN = "lost:foreign_block"
_NO_CACHE = "lost:cache_control"
_ITEM_ID = "aside: the item's own id or state; nothing is stored that it could name"
_PADDING = "aside: padding of OpenAI's own streams"
_OLD = "aside: the old spelling; it comes back as the new one"

MESSAGES: Table = {
    "MessageCreateParamsStreaming": {
        "max_tokens": "same", "messages": "same", "model": "same", "cache_control": _NO_CACHE, "container": _SERVER,
        "diagnostics": "lost:unknown_field", "inference_geo": "lost:unknown_field", "metadata": "same",
        "output_config": "same", "service_tier": "lost:service_tier", "speed": "lost:unknown_field",
        "stop_sequences": "same", "system": "same", "thinking": "same", "tool_choice": "same", "tools": "same",
        "user_profile_id": "lost:unknown_field", "workspace_id": "lost:unknown_field", "stream": "same",
    },
    "UserMessageParam": {"content": "same", "role": "same"},
    "AssistantMessageParam": {"content": "same", "role": "same"},
    "SystemMessageParam": {"content": "same", "role": "same"},
    "MetadataParam": {"user_id": "same"},
    "OutputConfigParam": {"effort": "same", "format": "same"},
    "JSONOutputFormatParam": {"schema": "same", "type": "same"},
    "TextBlockParam": {"text": "same", "type": "same", "cache_control": _NO_CACHE, "citations": "lost:citations"},
    "ImageBlockParam": {
        "source": "same", "type": "same", "cache_control": _NO_CACHE, "transformations": "lost:unknown_field",
    },
    "Base64ImageSourceParam": {"data": "same", "media_type": "same", "type": "same"},
    "URLImageSourceParam": {"type": "same", "url": "same"},
    "FileImageSourceParam": "refused:bad_image",
    "DocumentBlockParam": {
        "source": "same", "type": "same", "cache_control": _NO_CACHE, "citations": "lost:citations",
        "context": "lost:document_title", "title": "same",
    },
    "Base64PDFSourceParam": {"data": "same", "media_type": "same", "type": "same"},
    "PlainTextSourceParam": "lost:document",
    "ContentBlockSourceParam": "lost:document",
    "URLPDFSourceParam": "refused:bad_field",
    "FileDocumentSourceParam": "refused:bad_field",
    "SearchResultBlockParam": "lost:search_result",
    "ThinkingBlockParam": {"signature": "same", "thinking": "same", "type": "same"},
    "RedactedThinkingBlockParam": "lost:thinking_redacted",
    "ToolUseBlockParam": {
        "id": "same", "input": "same", "name": "same", "type": "same", "cache_control": _NO_CACHE,
        "caller": "lost:tool_fields", "toolset_name": "lost:tool_fields",
    },
    "ToolResultBlockParam": {
        "tool_use_id": "same", "type": "same", "cache_control": _NO_CACHE, "content": "same",
        "is_error": "lost:result_error", "toolset_name": "lost:tool_fields",
    },
    "ToolReferenceBlockParam": "lost:tool_reference",
    "ThinkingConfigEnabledParam": {"budget_tokens": "lost:budget", "type": "lost:budget", "display": "lost:display"},
    "ThinkingConfigDisabledParam": {"type": "same"},
    "ThinkingConfigBetweenToolsParam": "lost:reasoning",
    "ThinkingConfigAdaptiveParam": {"type": "same", "display": "lost:display"},
    "ToolChoiceAutoParam": {"type": "same", "disable_parallel_tool_use": "same"},
    "ToolChoiceAnyParam": {"type": "same", "disable_parallel_tool_use": "same"},
    "ToolChoiceToolParam": {"name": "same", "type": "same", "disable_parallel_tool_use": "same"},
    "ToolChoiceNoneParam": {"type": "same"},
    "ToolParam": {
        "input_schema": "same", "name": "same", "allowed_callers": "lost:tool_fields", "cache_control": _NO_CACHE,
        "defer_loading": "lost:tool_fields", "description": "same", "eager_input_streaming": "lost:tool_fields",
        "input_examples": "lost:tool_fields", "strict": "same", "type": "same",
    },
    "InputSchemaTyped": {"type": "same", "properties": "same", "required": "same"},
    **dict.fromkeys((
        "BrowserStateBlockParam", "ServerToolUseBlockParam", "WebSearchToolResultBlockParam",
        "WebFetchToolResultBlockParam", "CodeExecutionToolResultBlockParam", "BashCodeExecutionToolResultBlockParam",
        "TextEditorCodeExecutionToolResultBlockParam", "ToolSearchToolResultBlockParam", "ContainerUploadBlockParam",
    ), _FOREIGN),
    **dict.fromkeys((
        "ToolBash20250124Param", "CodeExecutionTool20250522Param", "CodeExecutionTool20250825Param",
        "CodeExecutionTool20260120Param", "CodeExecutionTool20260521Param", "BrowserToolset20260801Param",
        "MemoryTool20250818Param", "ComputerToolset20260801Param", "ToolTextEditor20250124Param",
        "ToolTextEditor20250429Param", "ToolTextEditor20250728Param", "WebSearchTool20250305Param",
        "WebFetchTool20250910Param", "WebSearchTool20260209Param", "WebFetchTool20260209Param",
        "WebFetchTool20260309Param", "WebSearchTool20260318Param", "WebFetchTool20260318Param",
        "ToolSearchToolBm25_20251119Param", "ToolSearchToolRegex20251119Param",
    ), _SERVER),
}  # fmt: skip
"""To chat and back."""

_MESSAGE = {"content": "same", "role": "same", "name": "lost:name"}
_HARMLESS = "aside: the answer is the same without it"

CHAT: Table = {
    "CompletionCreateParamsStreaming": {
        "messages": "same", "model": "same", "audio": "lost:audio", "frequency_penalty": "lost:frequency_penalty",
        "function_call": _OLD, "functions": _OLD, "logit_bias": "lost:logit_bias", "logprobs": "lost:logprobs",
        "max_completion_tokens": "same", "max_tokens": "same", "metadata": "lost:metadata", "modalities": "lost:audio",
        "moderation": "lost:unknown_field", "n": "refused:bad_field", "parallel_tool_calls": "same",
        "prediction": "lost:prediction", "presence_penalty": "lost:presence_penalty", "prompt_cache_key": _HARMLESS,
        "prompt_cache_options": "lost:unknown_field", "prompt_cache_retention": "lost:unknown_field",
        "reasoning_effort": "same", "response_format": "same", "safety_identifier": _HARMLESS, "seed": "lost:seed",
        "service_tier": "lost:service_tier", "stop": "same", "store": _HARMLESS, "stream_options": "same",
        "temperature": "same", "tool_choice": "same", "tools": "same", "top_logprobs": "lost:top_logprobs",
        "top_p": "same", "user": "same", "verbosity": "lost:verbosity", "web_search_options": _SERVER, "stream": "same",
    },
    "ChatCompletionDeveloperMessageParam": _MESSAGE,
    "ChatCompletionSystemMessageParam": _MESSAGE,
    "ChatCompletionUserMessageParam": _MESSAGE,
    "ChatCompletionAssistantMessageParam": {
        "role": "same", "audio": "lost:audio", "content": "same", "function_call": _OLD, "name": "lost:name",
        "refusal": "lost:refusal", "tool_calls": "same",
    },
    "ChatCompletionToolMessageParam": {"content": "same", "role": "same", "tool_call_id": "same"},
    "ChatCompletionFunctionMessageParam": _OLD,
    "ChatCompletionContentPartTextParam": {"text": "same", "type": "same", "prompt_cache_breakpoint": _NO_CACHE},
    "ChatCompletionContentPartImageParam": {"image_url": "same", "type": "same", "prompt_cache_breakpoint": _NO_CACHE},
    "ImageURL": {"url": "same", "detail": "lost:detail"},
    "ChatCompletionContentPartInputAudioParam": "lost:audio",
    "File": {"file": "same", "type": "same", "prompt_cache_breakpoint": _NO_CACHE},
    "FileFile": {"file_data": "same", "file_id": "refused:bad_field", "filename": "same"},
    "ChatCompletionContentPartRefusalParam": "lost:refusal",
    "ChatCompletionMessageFunctionToolCallParam": {"id": "same", "function": "same", "type": "same"},
    "chat_completion_message_function_tool_call_param:Function": {"arguments": "same", "name": "same"},
    "ChatCompletionMessageCustomToolCallParam": "lost:custom_tool",
    "ResponseFormatText": "aside: what is so without it",
    "ResponseFormatJSONSchema": {"json_schema": "same", "type": "same"},
    "JSONSchema": {
        "name": "aside: a name for nobody; it comes back as `answer`", "description": "lost:format_fields",
        "schema": "same", "strict": "same",
    },
    "ResponseFormatJSONObject": "lost:json_object",
    "ChatCompletionStreamOptionsParam": {
        "include_obfuscation": _PADDING, "include_usage": "same",
    },
    "ChatCompletionAllowedToolChoiceParam": "lost:allowed_tools",
    "ChatCompletionNamedToolChoiceParam": {"function": "same", "type": "same"},
    "Function": {"name": "same"},
    "ChatCompletionNamedToolChoiceCustomParam": "aside: as its tool, which names the loss",
    "ChatCompletionFunctionToolParam": {"function": "same", "type": "same"},
    "FunctionDefinition": {"name": "same", "description": "same", "parameters": "same", "strict": "same"},
    "ChatCompletionCustomToolParam": "lost:custom_tool",
}  # fmt: skip
"""To Messages and back."""

_STATEFUL = "refused:stateful"
_CALLER = "aside: who called: the model, since nobody else's calls are passed on"
_NAMESPACE = "aside: stands before the names of its tools, and is taken off again in the answer"
_CALL = {
    "async": "aside: as its tool, which names the loss", "call_id": "same", "name": "same", "type": "same",
    "id": _ITEM_ID, "caller": _CALLER, "namespace": _NAMESPACE,
}  # fmt: skip
_TEXT = {"text": "same", "type": "same", "prompt_cache_breakpoint": _NO_CACHE}
_IMAGE = {
    "detail": "same", "type": "same", "file_id": "refused:bad_field", "image_url": "same",
    "prompt_cache_breakpoint": _NO_CACHE,
}  # fmt: skip
_FILE = {
    "type": "same", "detail": "lost:detail", "file_data": "same", "file_id": "refused:bad_field",
    "file_url": "refused:bad_field", "filename": "same", "prompt_cache_breakpoint": _NO_CACHE,
}  # fmt: skip
_TOOL_FIELD = "lost:tool_fields"
_FUNCTION = {
    "async": _TOOL_FIELD, "name": "same", "parameters": "same", "strict": "same", "type": "same",
    "allowed_callers": _TOOL_FIELD, "defer_loading": _TOOL_FIELD, "description": "same", "output_schema": _TOOL_FIELD,
}  # fmt: skip

RESPONSES: Table = {
    "ResponseCreateParamsStreaming": {
        "access_programs": "lost:unknown_field", "background": _STATEFUL, "background_options": "lost:unknown_field",
        "context_management": "lost:unknown_field", "conversation": _STATEFUL, "image": "lost:unknown_field",
        "include": "lost:include", "input": "same", "instructions": "same", "max_output_tokens": "same",
        "max_tool_calls": "lost:unknown_field", "metadata": "same", "model": "same", "moderation": "lost:unknown_field",
        "parallel_tool_calls": "same", "previous_response_id": _STATEFUL, "prompt": _STATEFUL,
        "prompt_cache_key": "same", "prompt_cache_options": "lost:unknown_field",
        "prompt_cache_retention": "lost:unknown_field", "reasoning": "same", "safety_identifier": "same",
        "service_tier": "same", "store": "same", "stream_options": _PADDING,
        "temperature": "same", "text": "same",
        "tool_choice": "same", "tools": "same", "top_logprobs": "same", "top_p": "same",
        "truncation": "lost:unknown_field", "user": "same", "stream": "same",
    },
    "EasyInputMessageParam": {
        "content": "same", "role": "same", "phase": "aside: a label of OpenAI's own models", "type": "same",
    },
    "Message": {"content": "same", "role": "same", "status": _ITEM_ID, "type": "same"},
    "ResponseInputTextParam": _TEXT,
    "ResponseInputImageParam": _IMAGE,
    "ResponseInputFileParam": _FILE,
    "ResponseOutputMessageParam": {
        "id": _ITEM_ID, "content": "same", "role": "same", "status": _ITEM_ID, "type": "same",
        "phase": "aside: a label of OpenAI's own models",
    },
    "ResponseOutputTextParam": {
        "annotations": "lost:annotations", "text": "same", "type": "same", "logprobs": "aside: of an answer that was",
    },
    "ResponseOutputRefusalParam": {"refusal": "same", "type": "same"},
    "ResponseFunctionToolCallParam": {**_CALL, "arguments": "same", "status": _ITEM_ID},
    "FunctionCallOutput": {
        "output": "same", "type": "same", "id": _ITEM_ID, "call_id": "same", "caller": _CALLER,
        "name": "aside: the call's", "namespace": "aside: the call's", "status": _ITEM_ID,
    },
    "ResponseInputTextContentParam": _TEXT,
    "ResponseInputImageContentParam": _IMAGE,
    "ResponseInputFileContentParam": "lost:result_image",
    "ResponseCustomToolCallParam": {**_CALL, "input": "same"},
    "ResponseCustomToolCallOutputParam": {
        "call_id": "same", "output": "same", "type": "same", "id": _ITEM_ID, "caller": _CALLER,
    },
    "ResponseReasoningItemParam": {
        "id": _ITEM_ID, "summary": "aside: told where there is no text of its own", "type": "same", "content": "same",
        "encrypted_content": "lost:signature", "status": _ITEM_ID,
    },
    "Content": {"text": "same", "type": "same"},
    "Reasoning": {
        "context": "lost:unknown_field", "effort": "same", "generate_summary": "lost:display",
        "mode": "lost:unknown_field", "summary": "lost:display",
    },
    "ResponseTextConfigParam": {"format": "same", "verbosity": "same"},
    "ResponseFormatText": "aside: what is so without it",
    "ResponseFormatTextJSONSchemaConfigParam": {
        "name": "same", "schema": "same", "type": "same", "description": "same", "strict": "same",
    },
    "ResponseFormatJSONObject": {"type": "same"},
    "ToolChoiceAllowedParam": {"mode": "same", "tools": "same", "type": "same"},
    "ToolChoiceFunctionParam": {"name": "same", "type": "same"},
    "ToolChoiceCustomParam": {"name": "same", "type": "same"},
    **dict.fromkeys((
        "ToolChoiceTypesParam", "ToolChoiceMcpParam", "ToolChoiceSpecificProgrammaticToolCallingParam",
        "ToolChoiceApplyPatchParam", "ToolChoiceShellParam",
    ), _SERVER),
    "FunctionToolParam": _FUNCTION,
    "CustomToolParam": {
        "async": _TOOL_FIELD, "name": "same", "type": "same", "allowed_callers": _TOOL_FIELD,
        "defer_loading": _TOOL_FIELD, "description": "same", "format": "same",
    },
    "Text": {"type": "same"},
    "Grammar": {"definition": "same", "syntax": "same", "type": "same"},
    "NamespaceToolParam": _NAMESPACE,
    **dict.fromkeys((
        "FileSearchToolParam", "ComputerToolParam", "ComputerUsePreviewToolParam", "WebSearchToolParam", "Mcp",
        "CodeInterpreter", "ProgrammaticToolCalling", "ImageGeneration", "LocalShell", "FunctionShellToolParam",
        "ToolSearchToolParam", "WebSearchPreviewToolParam", "ApplyPatchToolParam",
    ), _SERVER),
    **dict.fromkeys((
        "ResponseFileSearchToolCallParam", "ResponseComputerToolCallParam", "ComputerCallOutput",
        "ResponseFunctionWebSearchParam", "ToolSearchCall",
        "ResponseConfigurationUpdateItemParamParam", "ResponseCompactionItemParamParam", "ImageGenerationCall",
        "ResponseCodeInterpreterToolCallParam", "LocalShellCall", "LocalShellCallOutput", "ShellCall",
        "ShellCallOutput", "ApplyPatchCall", "ApplyPatchCallOutput", "McpListTools", "McpApprovalRequest",
        "McpApprovalResponse", "McpCall", "CompactionTrigger", "ItemReference", "Program", "ProgramOutput",
    ), _FOREIGN),
    "AdditionalTools": "aside: as the request's own tools",
    "ResponseToolSearchOutputItemParamParam": "aside: as the request's own tools",
}  # fmt: skip
"""To chat and back."""

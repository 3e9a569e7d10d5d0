"""The rich reply of each endpoint. The older Completions have only tokens."""

from __future__ import annotations

from collections.abc import Callable

from stoker.testing.dialects.rich_chat import RichChat
from stoker.testing.dialects.rich_messages import RichMessages
from stoker.testing.dialects.rich_responses import RichResponses
from stoker.testing.dialects.telling import Telling
from stoker.testing.dialects.terms import StreamingVoice

RICH: dict[str, Callable[[Telling], StreamingVoice]] = {
    "/v1/chat/completions": RichChat,
    "/v1/responses": RichResponses,
    "/v1/messages": RichMessages,
}

"""The rich writer of each endpoint. The older Completions have only tokens."""

from __future__ import annotations

from collections.abc import Callable

from stoker_lab.testing.dialects.reply_facts import StreamingEndpointWriter
from stoker_lab.testing.dialects.rich_chat import RichChat
from stoker_lab.testing.dialects.rich_messages import RichMessages
from stoker_lab.testing.dialects.rich_reply import RichReply
from stoker_lab.testing.dialects.rich_responses import RichResponses

RICH: dict[str, Callable[[RichReply], StreamingEndpointWriter]] = {
    "/v1/chat/completions": RichChat,
    "/v1/responses": RichResponses,
    "/v1/messages": RichMessages,
}

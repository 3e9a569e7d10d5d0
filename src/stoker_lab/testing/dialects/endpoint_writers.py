"""The writer of each endpoint."""

from __future__ import annotations

from stoker_lab.testing.dialects.chat import Chat, Completions
from stoker_lab.testing.dialects.messages import Count, Messages
from stoker_lab.testing.dialects.reply_facts import EndpointWriter, StreamingEndpointWriter
from stoker_lab.testing.dialects.responses import Responses
from stoker_lab.testing.dialects.vectors import Embeddings, Rerank

STREAMING_WRITERS: dict[str, StreamingEndpointWriter] = {
    "/v1/chat/completions": Chat(),
    "/v1/completions": Completions(),
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
}
WRITERS: dict[str, EndpointWriter] = {
    **STREAMING_WRITERS,
    "/v1/embeddings": Embeddings(),
    "/v1/rerank": Rerank(),
    "/v1/messages/count_tokens": Count(),
}

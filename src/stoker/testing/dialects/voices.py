"""The dialect of each endpoint."""

from __future__ import annotations

from stoker.testing.dialects.chat import Chat, Completions
from stoker.testing.dialects.messages import Count, Messages
from stoker.testing.dialects.responses import Responses
from stoker.testing.dialects.terms import StreamingVoice, Voice
from stoker.testing.dialects.vectors import Embeddings, Rerank

STREAMING: dict[str, StreamingVoice] = {
    "/v1/chat/completions": Chat(),
    "/v1/completions": Completions(),
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
}
VOICES: dict[str, Voice] = {
    **STREAMING,
    "/v1/embeddings": Embeddings(),
    "/v1/rerank": Rerank(),
    "/v1/messages/count_tokens": Count(),
}

"""The names of spans' attributes and of metrics, all of them.

From OpenTelemetry's semantic conventions. Their part for generative models (schema gen-ai/1.42.0) is in development: a
name that changes there changes here. Names that begin with `stoker` are Stoker's own.
"""

from __future__ import annotations

from typing import Final

from stoker.domain.dialect import ENDPOINTS, Dialect

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"

ERROR_TYPE: Final = "error.type"
METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
STATUS_CODE: Final = "http.response.status_code"
URL_PATH: Final = "url.path"
URL_SCHEME: Final = "url.scheme"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

REQUEST_ID: Final = "stoker.request.id"
KEY: Final = "stoker.key"
SERVE: Final = "stoker.serve"
REPLICA: Final = "stoker.replica"
SLOT: Final = "stoker.slot"
TIER: Final = "stoker.tier"
CLASS: Final = "stoker.class"
OUTCOME: Final = "stoker.outcome"
FALLBACK: Final = "stoker.fallback"
ORCHESTRATOR: Final = "stoker.orchestrator"
VERIFY: Final = "stoker.verify"
FINDINGS: Final = "stoker.verify.findings"
SWAP_VICTIMS: Final = "stoker.swap.victims"
SWAP_START: Final = "stoker.swap.start"
"""What a serve was started from: `cold`, `warm`, `asleep`."""

REQUEST_DURATION: Final = "gen_ai.server.request.duration"
TIME_TO_FIRST_TOKEN: Final = "gen_ai.server.time_to_first_token"
TIME_PER_OUTPUT_TOKEN: Final = "gen_ai.server.time_per_output_token"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
QUEUE_DURATION: Final = "stoker.queue.duration"
SWAP_DURATION: Final = "stoker.swap.duration"
SWAPS: Final = "stoker.swaps"

OTHER: Final = "_OTHER"
_OPERATIONS = {
    Dialect.COMPLETIONS: "text_completion",
    Dialect.OLLAMA_GENERATE: "text_completion",
    Dialect.EMBEDDINGS: "embeddings",
    Dialect.OLLAMA_EMBED: "embeddings",
    Dialect.RERANK: "rerank",
    Dialect.SPEECH: "speech",
    Dialect.TRANSCRIPTION: "transcription",
    Dialect.IMAGE: "image",
}


def operation(path: str) -> str:
    """`gen_ai.operation.name` of an endpoint."""
    endpoint = ENDPOINTS.get(path)
    return OTHER if endpoint is None else _OPERATIONS.get(endpoint.dialect, "chat")

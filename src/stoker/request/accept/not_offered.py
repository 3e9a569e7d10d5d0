"""Paths of the OpenAI, Anthropic and Ollama APIs that Stoker does not offer, so that a client is not told they are
unknown. docs/reference/http.md lists them, and a test compares them with the SDKs.
"""

from __future__ import annotations

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError

OPENAI = (
    "/v1/agents", "/v1/assistants", "/v1/audio", "/v1/batches", "/v1/chat/completions", "/v1/chatkit", "/v1/containers",
    "/v1/content_provenance_checks", "/v1/decisions", "/v1/edits", "/v1/engines", "/v1/evals", "/v1/files",
    "/v1/fine_tuning", "/v1/fine-tunes", "/v1/images", "/v1/live", "/v1/moderations", "/v1/organization",
    "/v1/projects", "/v1/realtime/calls", "/v1/realtime/client_secrets", "/v1/realtime/sessions",
    "/v1/realtime/transcription_sessions", "/v1/realtime/translations", "/v1/safety", "/v1/skills", "/v1/threads",
    "/v1/uploads", "/v1/vaults",
    "/v1/vector_stores", "/v1/videos", "/v1/webhook_endpoints", "/v1/webhook_event_types",
)  # fmt: skip
ANTHROPIC = (
    "/v1/complete", "/v1/deployment_runs", "/v1/deployments", "/v1/dreams", "/v1/environments", "/v1/experimental",
    "/v1/memory_stores", "/v1/messages/batches", "/v1/organizations", "/v1/sessions", "/v1/tunnels",
    "/v1/user_profiles",
)  # fmt: skip
OLLAMA = (
    "/api/blobs", "/api/copy", "/api/create", "/api/delete", "/api/me", "/api/push", "/api/signout", "/api/web_fetch",
    "/api/web_search",
)  # fmt: skip
"""Each stands for itself and for everything below it."""

_OWNERS = (
    (OPENAI, "OpenAI's API", None), (ANTHROPIC, "Anthropic's API", Dialect.MESSAGES),
    (OLLAMA, "Ollama's API", Dialect.OLLAMA_CHAT),
)  # fmt: skip
"""Paths, the API that they belong to, and the dialect of their errors; None: as OpenAI's, unless the client says it
speaks Anthropic's API, which has some of these paths too.
"""
_BY_PATH: dict[str, tuple[str, Dialect | None]] = {
    path: (api, dialect) for paths, api, dialect in _OWNERS for path in paths
}


def refusal(path: str) -> ClientError | None:
    """The refusal of a path that one of the APIs has; None: it is a path of none of them."""
    found = _find(path)
    if found is None:
        return None
    text = f"Stoker does not offer {path[:200]!r} of {found[0]}; docs/reference/http.md lists the paths that it offers"
    return ClientError(text, code="not_offered", status=404)


def dialect_of(path: str) -> Dialect | None:
    """The dialect in which to refuse this path; None: OpenAI's, or the client's headers decide."""
    found = _find(path)
    return None if found is None else found[1]


def _find(path: str) -> tuple[str, Dialect | None] | None:
    parts = path.split("/", 4)
    return _BY_PATH.get("/".join(parts[:3])) or _BY_PATH.get("/".join(parts[:4]))

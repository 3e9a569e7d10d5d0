"""What a path means. Paths are matched as sent: a proxy in front of Stoker with rules for `/admin` or `/status` must
read the same path as Stoker. Only the API's own paths may have encoded letters, and the id after
`/v1/models/` is percent-decoded once.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote

from stoker.domain.dialect import ENDPOINTS, Dialect, Endpoint
from stoker.domain.errors import ClientError
from stoker.domain.nearest import nearest


class RouteKind(Enum):
    INFERENCE = "inference"
    MODELS = "models"
    UPSTREAM = "upstream"
    HEALTH = "healthz"
    READY = "readyz"
    STATUS = "status"
    EVENTS = "events"
    METRICS = "metrics"
    OPENAPI = "openapi"
    USAGE = "usage"
    ADMIN = "admin"
    OLLAMA = "ollama"
    RESPONSES = "responses"
    CONVERSATIONS = "conversations"
    COMPAT = "compat"
    REALTIME = "realtime"
    RESPONSE_SOCKET = "responses over WebSocket"
    IMAGE_OPTIONS = "image options"
    ROOT = "root"
    PAGE = "page"
    """A file of the web page."""
    SESSION = "session"
    """Signing in to the web page."""


class Route(NamedTuple):
    """`rest` is what follows the prefix: the model id of /v1/models/ID, SERVE/PATH of /upstream, the verb of /admin,
    the ids below /v1/responses and /v1/conversations.
    """

    kind: RouteKind
    endpoint: Endpoint | None = None
    rest: str = ""
    methods: tuple[str, ...] = ()
    """Empty: any."""
    has_side_effects: bool = False
    """It may load a model, take a place of a serve or change something: web pages of other sites may not request it."""


_API = (RouteKind.INFERENCE, RouteKind.MODELS, RouteKind.OLLAMA, RouteKind.CONVERSATIONS)
_UNRESERVED = re.compile(r"%(?:2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")
"""Letters, digits, `-._~`: encoded or not, they are the same (RFC 3986, 6.2.2.2). No slash is among them."""
_GET = ("GET", "HEAD")
_LONGEST_PATH_COMPARED = 60
HEALTH_PATHS = frozenset(("/healthz", "/health"))
"""Liveness, for anybody."""
_PLAIN = {
    **dict.fromkeys(HEALTH_PATHS, Route(RouteKind.HEALTH, methods=_GET)),
    "/readyz": Route(RouteKind.READY, methods=_GET),
    "/status": Route(RouteKind.STATUS, methods=_GET),
    "/events": Route(RouteKind.EVENTS, methods=("GET",)),
    "/openapi.json": Route(RouteKind.OPENAPI, methods=_GET),
    "/metrics": Route(RouteKind.METRICS, methods=_GET),
    "/v1/usage": Route(RouteKind.USAGE, methods=_GET),
    "/v1/models": Route(RouteKind.MODELS, methods=_GET),
    "/": Route(RouteKind.ROOT, methods=_GET),
    "/ui": Route(RouteKind.PAGE, methods=_GET),
    "/ui/session": Route(RouteKind.SESSION, methods=(*_GET, "POST", "DELETE"), has_side_effects=True),
    "/v1/conversations": Route(RouteKind.CONVERSATIONS, has_side_effects=True),
    "/api/tags": Route(RouteKind.OLLAMA, rest="/api/tags", methods=_GET),
    "/api/ps": Route(RouteKind.OLLAMA, rest="/api/ps", methods=_GET),
    "/api/version": Route(RouteKind.OLLAMA, rest="/api/version", methods=_GET),
    "/api/show": Route(RouteKind.OLLAMA, rest="/api/show", methods=("POST",)),
    "/api/pull": Route(RouteKind.OLLAMA, rest="/api/pull", methods=("POST",)),
    **{
        path: Route(RouteKind.OLLAMA, rest=path, methods=("POST",), has_side_effects=True)
        for path in (
            "/api/web_search",
            "/api/web_fetch",
            "/api/experimental/web_search",
            "/api/experimental/web_fetch",
        )
    },
    **{
        path: Route(RouteKind.COMPAT, rest=path, methods=_GET)
        for path in ("/running", "/logs", "/logs/stream", "/models", "/models/sse", "/props")
    },
    "/v1/realtime": Route(RouteKind.REALTIME, methods=_GET, has_side_effects=True),
    "/unload": Route(RouteKind.COMPAT, rest="/unload", methods=("GET",), has_side_effects=True),
    **{
        path: Route(RouteKind.COMPAT, rest=path, methods=("POST",), has_side_effects=True)
        for path in ("/api/models/unload", "/models/load", "/models/unload", "/infill", "/completion")
    },
    **{
        path: Route(RouteKind.INFERENCE, ENDPOINTS["/v1/rerank"], methods=("POST",), has_side_effects=True)
        for path in ("/rerank", "/reranking", "/v1/reranking")
    },
    **{
        path: Route(RouteKind.INFERENCE, endpoint, methods=(endpoint.method,), has_side_effects=True)
        for path, endpoint in ENDPOINTS.items()
    },
}
_TREES = {
    "/upstream/": Route(RouteKind.UPSTREAM, has_side_effects=True),
    "/admin/": Route(RouteKind.ADMIN, has_side_effects=True),
    "/api/models/unload/": Route(RouteKind.COMPAT, methods=("POST",), has_side_effects=True),
    "/logs/stream/": Route(RouteKind.COMPAT, methods=_GET),
    "/ui/": _PLAIN["/ui"],
    "/v1/models/": _PLAIN["/v1/models"],
    "/v1/responses/": Route(RouteKind.RESPONSES, has_side_effects=True),
    "/v1/conversations/": _PLAIN["/v1/conversations"],
}
_TREE_PATHS = tuple(_TREES)
_API_PATHS = ("/v1/", "/api/", "/sdapi/")
_READING = (RouteKind.HEALTH, RouteKind.READY, RouteKind.STATUS, RouteKind.EVENTS, RouteKind.OPENAPI,
            RouteKind.METRICS, RouteKind.ROOT, RouteKind.PAGE)  # fmt: skip
BEHIND_PROXIES = frozenset(path for path, route in _PLAIN.items() if route.kind in _READING)
"""The paths that only read, and are found below the prefix of a trusted proxy's `X-Forwarded-Prefix`."""
TREES_BEHIND_PROXIES = (*_API_PATHS, "/ui/")
"""What such paths begin with, too: the API and the page."""


_OTHER_METHODS = {
    ("POST", "/sdapi/v1/options"): Route(RouteKind.IMAGE_OPTIONS, methods=("POST",)),
    ("GET", "/v1/responses"): Route(RouteKind.RESPONSE_SOCKET, methods=("GET",), has_side_effects=True),
}
"""Inference paths that mean something else with another method."""

PUBLIC = {path: _PLAIN[path] for path in (*HEALTH_PATHS, "/readyz", "/", "/openapi.json")}
"""Answered without a key. Probes of containers have none, Claude Code probes `/`, and people open it in a browser. The
description of the paths is the same for every Stoker of a version.
"""


NOT_OFFERED = {
    "OpenAI's API": (
        "/v1/agents", "/v1/assistants", "/v1/audio", "/v1/batches", "/v1/chat/completions", "/v1/chatkit",
        "/v1/containers", "/v1/content_provenance_checks", "/v1/decisions", "/v1/edits", "/v1/engines", "/v1/evals",
        "/v1/files", "/v1/fine_tuning", "/v1/fine-tunes", "/v1/images", "/v1/live", "/v1/moderations",
        "/v1/organization", "/v1/projects", "/v1/realtime/calls", "/v1/realtime/client_secrets",
        "/v1/realtime/sessions", "/v1/realtime/transcription_sessions", "/v1/realtime/translations", "/v1/safety",
        "/v1/skills", "/v1/threads", "/v1/uploads", "/v1/vaults", "/v1/vector_stores", "/v1/videos",
        "/v1/webhook_endpoints", "/v1/webhook_event_types",
    ),
    "Anthropic's API": (
        "/v1/complete", "/v1/deployment_runs", "/v1/deployments", "/v1/dreams", "/v1/environments", "/v1/experimental",
        "/v1/memory_stores", "/v1/messages/batches", "/v1/organizations", "/v1/sessions", "/v1/tunnels",
        "/v1/user_profiles",
    ),
    "Ollama's API": (
        "/api/blobs", "/api/copy", "/api/create", "/api/delete", "/api/me", "/api/push", "/api/signout",
    ),
}  # fmt: skip
"""Paths of other APIs that Stoker does not offer, so that a client is not told they are unknown. Each stands for itself
and for everything below it. docs/reference/http.md lists them, and a test compares them with the SDKs.
"""
_DIALECTS = {"Anthropic's API": Dialect.MESSAGES, "Ollama's API": Dialect.OLLAMA_CHAT}
"""Of their errors. Others are refused as by OpenAI, unless the client says it speaks Anthropic's API, which has some of
these paths too.
"""
_APIS: dict[str, str] = {path: api for api, paths in NOT_OFFERED.items() for path in paths}


class Routes:
    """The table, and the configured prefixes below which all of it is found again."""

    def __init__(self, prefixes: tuple[str, ...] = ()) -> None:
        self._table = _PLAIN
        self._prefixes = sorted((prefix.rstrip("/") for prefix in prefixes), key=len, reverse=True)
        self.has_prefixes = bool(prefixes)

    def inside(self, path: str) -> str:
        """`path`, as it was sent, without the longest of the prefixes that it begins with.

        A prefix with encoded letters is one only before a path of the API: a proxy's rule for `/llm/admin` does not
        know `/%6Clm/admin`.
        """
        if path in self._table or path.startswith(_TREE_PATHS):
            return path
        for prefix in self._prefixes:
            if path == prefix:
                return "/"
            if path.startswith(prefix + "/"):
                return path[len(prefix) :]
            if "%" in path:
                parts = path.split("/", prefix.count("/") + 1)
                rest = "/" + parts.pop()
                if _decoded("/".join(parts)) == prefix and _decoded(rest).startswith(_API_PATHS):
                    return rest
        return path

    def methods(self) -> dict[str, dict[str, Route]]:
        """By path (of a tree: what it begins with, up to a slash) and method, what each route of the table means."""
        found = {path: dict.fromkeys(_named(route), route) for path, route in (*self._table.items(), *_TREES.items())}
        for (method, path), route in _OTHER_METHODS.items():
            found[path][method] = route
        return found

    def match(self, method: str, path: str) -> Route:
        """`path` as it was sent, `inside` a prefix. Raises ClientError 404, 405, or 400 for a path that hides
        something.

        1. in the table, spelt as there (the usual case)
        2. in the table without its trailing slash; a path of the API also with its letters decoded
        3. below /upstream/ or /admin/, or a path of the API
        """
        route = self._table.get(path)
        if route is None:
            route = self._respelt(path) or self._below(path)
        if route is None:
            api = _api_of(path)
            if api is not None:
                lists = "docs/reference/http.md lists the paths that it offers"
                text = f"Stoker does not offer {path[:200]!r} of {api}; {lists}"
                raise ClientError(text, code="not_offered", status=404)
            text = f"there is no path {path[:200]!r}; {self._path_hint(path)}"
            raise ClientError(text, code="no_route", status=404)
        if route.methods and method not in route.methods:
            if route.endpoint is not None and (other := _OTHER_METHODS.get((method, route.endpoint.path))) is not None:
                return other
            text = f"{path[:200]!r} does not accept {method}: use {route.methods[0]}"
            raise wrong_method(text, *route.methods)
        return route

    def _path_hint(self, path: str) -> str:
        """What to ask for instead: the base URL of a client often has `/v1` once too often, or not at all."""
        bare = path.rstrip("/")
        for meant, why in (
            (f"/v1{bare}", "the client's base URL has to end with /v1"),
            (bare.replace("/v1/v1/", "/v1/", 1), "the client adds /v1 itself, so its base URL has to end before it"),
        ):
            if meant != bare and meant in self._table:
                return f"did you mean {meant!r}? Then {why}"
        known = () if len(bare) > _LONGEST_PATH_COMPARED else (one for one in self._table if one.startswith("/v1/"))
        found = nearest(bare, known, 0.85)
        return f"did you mean {found!r}?" if found else "see /status and /v1/models"

    def dialect(self, path: str) -> Dialect | None:
        """The dialect in which to refuse a request for this path, `inside` a prefix."""
        route = self._respelt(path)
        if route is None:
            return _DIALECTS.get(_api_of(path) or "")
        if route.kind is RouteKind.OLLAMA:
            return Dialect.OLLAMA_CHAT
        return None if route.endpoint is None else route.endpoint.dialect

    def _respelt(self, path: str) -> Route | None:
        path = path.rstrip("/")
        if "%" not in path:
            return self._table.get(path)
        route = self._table.get(_decoded(path))
        return route if route is not None and route.kind in _API else None

    def _below(self, path: str) -> Route | None:
        for tree, route in _TREES.items():
            if path.startswith(tree):
                rest = path[len(tree) :].rstrip("/")
                if route.kind is RouteKind.MODELS:
                    return route._replace(rest=unquote(rest))
                if route.kind is RouteKind.COMPAT:
                    return route._replace(rest=f"{tree}{unquote(rest)}")
                if tree.startswith("/v1/"):
                    return route._replace(rest=rest)
                refuse_hidden(path)
                return route._replace(rest=rest)
        return None


def _decoded(path: str) -> str:
    return _UNRESERVED.sub(lambda found: unquote(found.group()), path)


def _named(route: Route) -> tuple[str, ...]:
    """Without HEAD, which is as GET. Of a route for any method those that its paths know most often."""
    return tuple(method for method in route.methods or ("GET", "POST") if method != "HEAD")


def wrong_method(text: str, *allowed: str) -> ClientError:
    return ClientError(text, code="wrong_method", status=405, headers={"allow": ", ".join(allowed)})


def refuse_hidden(path: str) -> None:
    """Raises ClientError 400 for a path that two readers could understand differently."""
    if "%" in path or "\\" in path or "//" in path or any(part in (".", "..") for part in path.split("/")):
        text = "paths below /admin and /upstream may not contain '..', '//', a backslash or a percent sign"
        raise ClientError(text, code="bad_path", status=400)


def _api_of(path: str) -> str | None:
    """Which API has this path; None: none of them."""
    parts = path.split("/", 4)
    return _APIS.get("/".join(parts[:3])) or _APIS.get("/".join(parts[:4]))

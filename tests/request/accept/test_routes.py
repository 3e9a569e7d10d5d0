"""A path means one thing, as it was sent; letters of the API's own paths, and a model's id, may be encoded, once."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from stoker.domain.dialect import ENDPOINTS, Dialect
from stoker.domain.errors import ClientError
from stoker.request.accept.routes import NOT_OFFERED, Route, RouteKind, Routes, refuse_hidden

ROUTES = Routes(("/llm", "/team/a/"))


def match(raw: str, method: str = "POST") -> Route:
    return ROUTES.match(method, ROUTES.inside(raw))


def refused(raw: str, method: str = "POST") -> ClientError:
    with pytest.raises(ClientError) as caught:
        match(raw, method)
    return caught.value


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("/chat/completions", "did you mean '/v1/chat/completions'? Then the client's base URL has to end with /v1"),
        ("/embeddings", "did you mean '/v1/embeddings'? Then the client's base URL has to end with /v1"),
        ("/v1/v1/messages", "did you mean '/v1/messages'? Then the client adds /v1 itself"),
        ("/v1/chat/completion", "did you mean '/v1/chat/completions'?"),
        ("/x", "see /status and /v1/models"),
        ("/x" * 100, "see /status and /v1/models"),
    ],
)
def test_a_path_that_is_nearly_right_is_answered_with_the_right_one(asked: str, hint: str) -> None:
    assert hint in refused(asked).message


@pytest.mark.parametrize("prefix", ["", "/llm", "/team/a"])
@pytest.mark.parametrize("path", ENDPOINTS)
def test_every_endpoint_is_found_under_every_prefix(path: str, prefix: str) -> None:
    whole = prefix + path
    for spelt in (whole, whole + "/", whole.replace("v1", "%76%31").replace("a", "%61").replace("_", "%5f")):
        route = match(spelt, ENDPOINTS[path].method)
        assert (route.kind, route.endpoint) == (RouteKind.INFERENCE, ENDPOINTS[path])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/healthz", RouteKind.HEALTH),
        ("/health", RouteKind.HEALTH),
        ("/readyz", RouteKind.READY),
        ("/status", RouteKind.STATUS),
        ("/metrics", RouteKind.METRICS),
        ("/v1/models", RouteKind.MODELS),
        ("/llm/v1/models/", RouteKind.MODELS),
        ("/", RouteKind.ROOT),
        ("/status/", RouteKind.STATUS),
        ("/llm", RouteKind.ROOT),
        ("/llm/", RouteKind.ROOT),
        ("/team/a/healthz", RouteKind.HEALTH),
        ("/team/a/ui/app.js", RouteKind.PAGE),
    ],
)
def test_what_is_only_looked_at_is_for_get_and_head(path: str, kind: RouteKind) -> None:
    assert match(path, "GET").kind is kind
    assert match(path, "HEAD").kind is kind
    error = refused(path, "POST")
    assert (error.status, error.code) == (405, "wrong_method")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post"])
def test_inference_is_for_post(method: str) -> None:
    assert refused("/v1/chat/completions", method).status == 405


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/chat", "/llmx", "/llm/llm/healthz", "//", "", "/V1/models",
             "//v1/chat/completions", "/llm//v1/chat/completions", "/upstream", "/admin", "/v1/chat/../models"],
)  # fmt: skip
def test_other_paths_are_404(path: str) -> None:
    assert refused(path).status == 404


@pytest.mark.parametrize(
    ("raw", "rest"),
    [("/v1/models/org/model", "org/model"), ("/v1/models/org%2Fmodel", "org/model"), ("/llm/v1/models/a/", "a"),
     ("/v1/models/a%2520b", "a%20b")],
)  # fmt: skip
def test_a_model_id_may_hold_slashes_and_is_decoded_once(raw: str, rest: str) -> None:
    route = match(raw, "GET")
    assert (route.kind, route.endpoint, route.rest) == (RouteKind.MODELS, None, rest)
    assert refused(raw, "POST").status == 405


def test_the_trees_hold_what_follows() -> None:
    assert match("/upstream/fast/v1/score") == Route(RouteKind.UPSTREAM, None, "fast/v1/score", has_side_effects=True)
    assert match("/admin/decisions/req_1", "GET") == Route(
        RouteKind.ADMIN, None, "decisions/req_1", has_side_effects=True
    )


@pytest.mark.parametrize(
    "raw",
    ["/upstream/fast/%2e%2e/slots/0", "/upstream/fast/../slots/0", "/upstream/fast/./health", "/upstream//health",
     "/upstream/fast//health", "/upstream/fast/a%2Fb", "/upstream/fast/a%2fb",
     "/upstream/fast/%252e%252e/slots", "/upstream/fast/a\\b", "/upstream/fast/a%5Cb", "/upstream/fast/a%00b",
     "/upstream/%2e%2e/x", "/upstream/fast/.%2e/slots/0"],
)  # fmt: skip
def test_a_path_that_hides_something_is_refused(raw: str) -> None:
    assert (refused(raw).status, refused(raw).code) == (400, "bad_path")


@pytest.mark.parametrize(
    "raw",
    ["/%61dmin/switch", "/admin%2fswitch", "/admin%2Fdecisions%2Freq_1", "/%73tatus", "/metric%73", "/read%79z",
     "/%75pstream/a/health", "/v1%2fmodels", "/v1%2Fchat/completions", "/v1/chat%2fcompletions", "/llm%2Fv1/messages",
     "/v1/chat/%2563ompletions", "/v1/%6dodels/a", "/v1/chat/completions%00", "/v1/chat/completions%2f", "/v1/./models",
     "/v1/%2e/models", "/v1/x/%2e%2e/models", "/%6Clm/admin/switch", "/%6Clm/status", "/%6Clm/ui/",
     "/llm/%61dmin/switch"],
)  # fmt: skip
def test_no_other_path_matches_that_has_to_be_decoded_first(raw: str) -> None:
    """A proxy in front of Stoker that denies `/admin` does not know `/%61dmin`."""
    assert refused(raw).status == 404
    assert refused(raw, "GET").status == 404


@pytest.mark.parametrize(
    "raw",
    ["/admin/%73witch", "/admin/decisions%2freq_1", "/admin/decisions/req%5f1", "/admin/../admin/switch",
     "/admin//switch",
     "/admin/./switch", "/upstream/%66ast/health", "/upstream/fast/%68ealth"],
)  # fmt: skip
def test_below_admin_and_upstream_nothing_is_decoded(raw: str) -> None:
    assert (refused(raw).status, refused(raw).code) == (400, "bad_path")


def test_what_acts_is_marked_as_such() -> None:
    """No page of another origin may make a browser ask for it."""
    acting = [match("/upstream/a/health", "GET"), match("/admin/decisions", "GET"), match("/admin/switch"),
              *(match(path, one.method) for path, one in ENDPOINTS.items())]  # fmt: skip
    looking = [match(path, "GET") for path in ("/", "/status", "/metrics", "/readyz", "/v1/models", "/v1/models/a",
                                               "/api/tags", "/api/ps", "/api/version")]  # fmt: skip
    assert all(route.has_side_effects for route in acting)
    assert not any(route.has_side_effects for route in looking)


@pytest.mark.parametrize(
    ("path", "method", "allow"),
    [("/v1/chat/completions", "GET", "POST"), ("/status", "POST", "GET, HEAD"), ("/v1/models/a", "POST", "GET, HEAD")],
)
def test_a_wrong_method_is_told_the_right_ones(path: str, method: str, allow: str) -> None:
    assert refused(path, method).headers == {"allow": allow}


def test_names_with_dots_hide_nothing() -> None:
    refuse_hidden("/upstream/qwen2.5/..x/y..")


@pytest.mark.parametrize(
    ("path", "dialect"),
    [("/v1/messages/", Dialect.MESSAGES), ("/llm/v1/messages/count_tokens", Dialect.MESSAGES), ("/", None),
     ("/v1/chat/completions", Dialect.CHAT), ("/status", None), ("/nowhere", None)],
)  # fmt: skip
def test_a_refusal_speaks_the_dialect_of_its_path(path: str, dialect: Dialect | None) -> None:
    assert ROUTES.dialect(ROUTES.inside(path)) is dialect


def test_an_error_shows_only_a_piece_of_a_long_path() -> None:
    assert len(refused("/" + "x" * 5000).message) < 300
    assert len(refused("/v1/models" + "/" * 5000).message) < 300


@pytest.mark.parametrize(
    ("path", "api", "dialect"),
    [
        ("/v1/moderations", "OpenAI", None),
        ("/llm/v1/audio/voice_consents", "OpenAI", None),
        ("/v1/chat/completions/chatcmpl-1", "OpenAI", None),
        ("/v1/vector_stores/vs_1/files/", "OpenAI", None),
        ("/v1/messages/batches", "Anthropic", Dialect.MESSAGES),
        ("/team/a/v1/messages/batches/b_1/results", "Anthropic", Dialect.MESSAGES),
        ("/v1/organizations/users", "Anthropic", Dialect.MESSAGES),
        ("/api/push", "Ollama", Dialect.OLLAMA_CHAT),
        ("/api/blobs/sha256:1", "Ollama", Dialect.OLLAMA_CHAT),
    ],
)
def test_a_path_that_one_of_the_apis_has_is_not_offered(path: str, api: str, dialect: Dialect | None) -> None:
    for method in ("GET", "POST", "DELETE"):
        error = refused(path, method)
        assert (error.status, error.code) == (404, "not_offered")
        assert f"of {api}'s API" in error.message
    assert ROUTES.dialect(ROUTES.inside(path)) is dialect


SDK_PATH = re.compile(r'"(?:/v1)?(/[a-z][a-z_-]*(?:/[^"?\s]*)?)(?:\?[^"]*)?"')
STATEFUL = ("/v1/responses/", "/v1/conversations")


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_no_path_of_an_sdk_is_unknown(sdk: str) -> None:
    """Each is offered, or refused as not offered."""
    pytest.importorskip(sdk)
    [root] = importlib.util.find_spec(sdk).submodule_search_locations  # type: ignore[union-attr, misc]
    sources = [file.read_text() for file in Path(root).glob("resources/**/*.py")]
    paths = {"/v1" + re.sub(r"\{[^}]*\}", "id", path) for text in sources for path in SDK_PATH.findall(text)}
    assert len(paths) > 50
    unknown = []
    for path in sorted(path for path in paths if not path.startswith(STATEFUL)):
        try:
            match(path)
        except ClientError as error:
            if error.code == "no_route":
                unknown.append(path)
    assert not unknown


def test_the_reference_lists_what_is_not_offered() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    section = page.partition("## What is not offered")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(/(?:v1|api)/[^`]+)`", section))
    assert listed == {path for paths in NOT_OFFERED.values() for path in paths}

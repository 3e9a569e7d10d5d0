"""A path means one thing, after exactly one percent-decode."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from stoker.domain.dialect import ENDPOINTS, Dialect
from stoker.domain.errors import ClientError
from stoker.request.accept.routes import Kind, Route, Routes, refuse_hidden

ROUTES = Routes(("/llm", "/team/a/"))


def match(raw: str, method: str = "POST") -> Route:
    return ROUTES.match(method, unquote(raw), raw.encode())


def refused(raw: str, method: str = "POST") -> ClientError:
    with pytest.raises(ClientError) as caught:
        match(raw, method)
    return caught.value


@pytest.mark.parametrize("prefix", ["", "/llm", "/team/a"])
@pytest.mark.parametrize("path", ENDPOINTS)
def test_every_endpoint_is_found_under_every_prefix(path: str, prefix: str) -> None:
    for spelt in (prefix + path, prefix + path + "/", (prefix + path).replace("v1", "%76%31")):
        route = match(spelt)
        assert (route.kind, route.endpoint) == (Kind.INFERENCE, ENDPOINTS[path])


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/healthz", Kind.HEALTH), ("/readyz", Kind.READY), ("/status", Kind.STATUS), ("/metrics", Kind.METRICS),
     ("/v1/models", Kind.MODELS), ("/llm/v1/models/", Kind.MODELS), ("/", Kind.ROOT), ("/status/", Kind.STATUS)],
)  # fmt: skip
def test_what_is_only_looked_at_is_for_get_and_head(path: str, kind: Kind) -> None:
    assert match(path, "GET").kind is kind
    assert match(path, "HEAD").kind is kind
    error = refused(path, "POST")
    assert (error.status, error.code) == (405, "wrong_method")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post"])
def test_inference_is_for_post(method: str) -> None:
    assert refused("/v1/chat/completions", method).status == 405


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/chat", "/llm", "/llm/healthz", "/v1/chat/completions/x", "//", "", "/V1/models",
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
    assert (route.kind, route.endpoint, route.rest) == (Kind.MODELS, None, rest)
    assert refused(raw, "POST").status == 405


def test_the_trees_hold_what_follows() -> None:
    assert match("/upstream/fast/v1/score") == Route(Kind.UPSTREAM, None, "fast/v1/score")
    assert match("/admin/decisions/req_1", "GET") == Route(Kind.ADMIN, None, "decisions/req_1")


@pytest.mark.parametrize(
    "raw",
    ["/upstream/fast/%2e%2e/slots/0", "/upstream/fast/../slots/0", "/upstream/fast/./health", "/upstream//health",
     "/upstream/fast//health", "/upstream/fast/a%2Fb", "/upstream/fast/a%2fb", "/upstream%2ffast/health",
     "/upstream/fast/%252e%252e/slots", "/upstream/fast/a\\b", "/upstream/fast/a%5Cb", "/upstream/fast/a%00b",
     "/upstream/%2e%2e/x", "/upstream/fast/.%2e/slots/0"],
)  # fmt: skip
def test_a_path_that_hides_something_is_refused(raw: str) -> None:
    assert (refused(raw).status, refused(raw).code) == (400, "bad_path")


def test_names_with_dots_hide_nothing() -> None:
    refuse_hidden("/upstream/qwen2.5/..x/y..", b"/upstream/qwen2.5/..x/y..")


@pytest.mark.parametrize(
    ("path", "dialect"),
    [("/v1/messages/", Dialect.MESSAGES), ("/llm/v1/messages/count_tokens", Dialect.MESSAGES), ("/", None),
     ("/v1/chat/completions", Dialect.CHAT), ("/status", None), ("/nowhere", None)],
)  # fmt: skip
def test_a_refusal_speaks_the_dialect_of_its_path(path: str, dialect: Dialect | None) -> None:
    assert ROUTES.dialect(path) is dialect


def test_an_error_shows_only_a_piece_of_a_long_path() -> None:
    assert len(refused("/" + "x" * 5000).message) < 300
    assert len(refused("/v1/models" + "/" * 5000).message) < 300

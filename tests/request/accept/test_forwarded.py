"""What trusted proxies may say, and that nobody else may."""

from __future__ import annotations

import pytest

from stoker.request.accept.connection import Forwarded
from stoker.request.accept.forwarded import TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8::/64"])


def read(path: str = "/v1/models", **headers: str) -> Forwarded:
    given = [(b"x-forwarded-" + name.encode(), value.encode()) for name, value in headers.items()]
    return PROXIES.read("10.0.0.1", path, given)


@pytest.mark.parametrize(
    ("header", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:4711", "192.0.2.1"),
        ("[2001:db9::1]:80", "2001:db9::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("6.6.6.6, 192.0.2.1", "192.0.2.1"),  # the client invented the first one
        ("6.6.6.6, 192.0.2.1, 10.0.0.2,2001:db8::9", "192.0.2.1"),  # a chain of our own proxies
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("6.6.6.6, unknown, 10.0.0.2", "10.0.0.2"),
        ("6.6.6.6, <script>", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_the_client_is_the_nearest_address_that_is_no_proxy(header: str, client: str) -> None:
    assert read(**{"for": header}).address == client


def test_repeated_headers_are_one_list() -> None:
    given = [(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"192.0.2.1"), (b"x-forwarded-for", b"10.9.9.9")]
    assert PROXIES.read("10.0.0.1", "/", given).address == "192.0.2.1"


def test_who_trusts_everybody_believes_one_hop_only() -> None:
    found = TrustedProxies(["*"]).read("127.0.0.1", "/", [(b"x-forwarded-for", b"6.6.6.6, 192.0.2.1")])
    assert found.address == "192.0.2.1"


def test_of_host_and_scheme_the_last_value_counts() -> None:
    assert read(host="evil.example, llm.example", proto="http, HTTPS") == Forwarded("10.0.0.1", "https", b"llm.example")
    assert read(proto="gopher").scheme == ""


@pytest.mark.parametrize(
    ("prefix", "path", "inside"),
    [
        ("/llm", "/llm/v1/models", "/v1/models"),
        ("/llm/", "/llm/api/tags", "/api/tags"),
        ("/a/b", "/a/b/v1/chat/completions", "/v1/chat/completions"),
        ("/llm", "/v1/models", ""),  # the proxy took it out already
        ("/llm", "/llm/status", "/status"),
        ("/llm", "/llm/ui/app.js", "/ui/app.js"),
        ("/llm", "/llm/", "/"),
        ("/llm", "/llm/admin/switch", ""),  # a client may have invented the header
        ("/llm", "/llm/uix", ""),
        ("/llm", "/llmx/v1/models", ""),
        ("/x/..", "/x/../v1/models", ""),
        ("llm", "llm/v1/models", ""),
        ("/", "//v1/models", ""),
    ],
)
def test_the_prefix_is_taken_from_the_api_and_from_what_only_reads(prefix: str, path: str, inside: str) -> None:
    assert read(path, prefix=prefix).path == inside

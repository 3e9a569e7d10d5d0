"""Requests that a proxy passes on: believed from a trusted one, and from nobody else."""

from __future__ import annotations

from tests.gateway.flow_stage import Stage, story

from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret
from stoker_lab.testing.client import RawReply

KEYS = (Key("all", Secret("sk-all", "env:A"), Scope.ADMIN),)
NAMES = ("llm.example",)


async def get(stage: Stage, path: str, key: str = "sk-all", **forwarded: str) -> RawReply:
    headers = {f"x_forwarded_{name.strip('_')}": value for name, value in forwarded.items() if name != "origin"}
    if "origin" in forwarded:
        headers["origin"] = forwarded["origin"]
    return await (await stage.client()).ask("GET", path, None, x_api_key=key, **headers)


@story(keys=KEYS, trusted_proxies=("127.0.0.0/8",), allowed_hosts=NAMES)
async def test_wrong_keys_count_for_the_client_behind_a_trusted_proxy(stage: Stage) -> None:
    assert (await get(stage, "/v1/models", "sk-wrong", for_="192.0.2.1, 8.8.8.8")).status == 401
    assert (await get(stage, "/v1/models", "sk-wrong")).status == 401
    assert stage.refused == {("wrong_key", "public"): 1, ("wrong_key", "loopback"): 1}


@story(keys=KEYS, trusted_proxies=("127.0.0.0/8",), allowed_hosts=NAMES)
async def test_the_host_that_a_trusted_proxy_names_has_to_be_allowed(stage: Stage) -> None:
    assert (await get(stage, "/v1/models", host="llm.example")).status == 200
    refused = await get(stage, "/v1/models", host="evil.example")
    assert (refused.status, refused.json()["error"]["code"]) == (403, "foreign_host")


@story(keys=KEYS, trusted_proxies=("127.0.0.0/8",), allowed_hosts=NAMES)
async def test_a_page_of_the_public_host_is_our_own_with_the_public_scheme_only(stage: Stage) -> None:
    page = "https://llm.example"
    assert (await get(stage, "/v1/models", host="llm.example", proto="https", origin=page)).status == 200
    refused = await get(stage, "/v1/models", host="llm.example", proto="http", origin=page)
    assert (refused.status, refused.json()["error"]["code"]) == (403, "foreign_origin")


@story(keys=KEYS, trusted_proxies=("127.0.0.0/8",))
async def test_below_the_prefix_that_a_proxy_names_is_what_only_reads(stage: Stage) -> None:
    """A client may have invented it, so that `/admin` is not found below a prefix of the client's choice."""
    for path in ("/v1/models", "/status", "/healthz", "/readyz", "/metrics", "/openapi.json", "/"):
        assert (await get(stage, f"/llm{path}", prefix="/llm")).status == 200, path
    assert (await get(stage, "/v1/models", prefix="/llm")).status == 200
    for path in ("/admin/decisions", "/upstream/a/health", "/unload"):
        assert (await get(stage, f"/llm{path}", prefix="/llm")).status == 404, path


@story(keys=KEYS, prefixes=("/llm", "/llm/team"), allowed_hosts=NAMES)
async def test_below_a_configured_prefix_is_everything(stage: Stage) -> None:
    for path in ("/v1/models", "/status", "/healthz", "/readyz", "/metrics", "/openapi.json", "/", ""):
        for prefix in ("/llm", "/llm/team"):
            assert (await get(stage, prefix + path)).status == 200, path
    assert (await get(stage, "/llm/admin/decisions")).json() == {"verb": "decisions"}
    assert (await get(stage, "/llm")).json()["status"] == "/llm/status"
    assert (await get(stage, "/llm/llm/status")).status == 404
    assert (await get(stage, "/llm/status", "sk-wrong")).status == 401


@story(keys=KEYS, trusted_proxies=("10.0.0.0/8",), allowed_hosts=NAMES)
async def test_from_anybody_else_the_headers_change_nothing(stage: Stage) -> None:
    assert (await get(stage, "/v1/models", host="evil.example", proto="https")).status == 200
    assert (await get(stage, "/llm/v1/models", prefix="/llm")).status == 404
    assert (await get(stage, "/v1/models", "sk-wrong", for_="8.8.8.8")).status == 401
    assert stage.refused["wrong_key", "loopback"] == 1


@story(keys=KEYS)
async def test_without_trusted_proxies_the_headers_change_nothing(stage: Stage) -> None:
    assert (await get(stage, "/v1/models", host="evil.example")).status == 200
    assert (await get(stage, "/v1/models", "sk-wrong", for_="8.8.8.8")).status == 401
    assert stage.refused == {("wrong_key", "loopback"): 1}

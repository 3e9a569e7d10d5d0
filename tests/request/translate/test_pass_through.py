"""A request that passes through loses what its serve must not see, and nothing else of its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.pass_through import adapt_body
from stoker.request.translate.prepare import BILLING

LOCAL = capabilities_of("vllm", Dialect.MESSAGES, cloud=False)
CLOUD = capabilities_of("openai", Dialect.MESSAGES, cloud=True)
LINE = f"{BILLING}: cc_version=2.1; cch=0a1b2;"
SIGNER = ThinkingSigner((b"key",))
OURS = {"type": "thinking", "thinking": "hm", "signature": SIGNER.sign("m", "hm")}
THEIRS = {"type": "thinking", "thinking": "hm", "signature": "EqQB"}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def tidied(serve: Capabilities, **fields: Any) -> tuple[Any, tuple[str, ...]]:
    body, words = adapt_body(json.dumps({"model": "m", **fields}).encode(), serve)
    found = json.loads(body)
    assert found.pop("model") == "m"
    return found, words


def unchanged(serve: Capabilities, body: bytes) -> bool:
    return adapt_body(body, serve) == (body, ())


# -- the billing line ---------------------------------------------------------------------------------------------


def test_a_local_model_does_not_see_the_block_that_differs_with_each_request() -> None:
    assert tidied(LOCAL, system=[text(LINE), text("be brief")], messages=[]) == (
        {"system": [text("be brief")], "messages": []},
        ("dropped:billing_header",),
    )
    assert tidied(LOCAL, system=[text(LINE)]) == ({}, ("dropped:billing_header",))


def test_what_follows_that_line_in_its_block_stays() -> None:
    block = {**text(f"{LINE}\n\nbe brief\nplease"), "cache_control": {"type": "ephemeral"}}
    found, _ = tidied(LOCAL, system=[block])
    assert found["system"] == [{**block, "text": "be brief\nplease"}]


@pytest.mark.parametrize(
    "system",
    [
        "about x-anthropic-billing-header",
        [text("about x-anthropic-billing-header")],
        [{"type": "x-anthropic-billing-header"}],
        ["x-anthropic-billing-header"],
        7,
    ],
)
def test_who_only_speaks_of_it_keeps_every_byte(system: Any) -> None:
    assert unchanged(LOCAL, json.dumps({"system": system, "messages": []}, indent=3).encode())


def test_a_user_who_quotes_it_keeps_it() -> None:
    assert unchanged(LOCAL, json.dumps({"messages": [{"role": "user", "content": LINE}]}).encode())


def test_anthropic_and_other_dialects_get_it_as_it_is() -> None:
    body = json.dumps({"system": [text(LINE)]}).encode()
    assert unchanged(CLOUD, body)
    assert unchanged(capabilities_of("vllm", Dialect.CHAT, cloud=False), body)


def test_other_fields_keep_their_bytes() -> None:
    body = b'{"n": 1.0, "system": [{"type":"text","text":"%b"}], "m": [ 1e2,"\\u00e9" ]}' % LINE.encode()
    assert adapt_body(body, LOCAL)[0] == b'{"n":1.0,"m":[ 1e2,"\\u00e9" ]}'


# -- thinking -----------------------------------------------------------------------------------------------------


def test_claude_code_71111_anthropic_gets_no_thinking_that_a_local_model_thought() -> None:
    found, words = tidied(CLOUD, messages=[
        {"role": "assistant", "content": [OURS, text("a")]},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [THEIRS, text("c")]},
        {"role": "assistant", "content": [OURS]},
    ])  # fmt: skip
    assert found["messages"] == [
        {"role": "assistant", "content": [text("a")]},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [THEIRS, text("c")]},
        {"role": "assistant", "content": "(no content)"},
    ]
    assert words == ("dropped:thinking",)


def test_openai_gets_no_reasoning_that_it_did_not_encrypt() -> None:
    cloud = capabilities_of("openai", Dialect.RESPONSES, cloud=True)
    ours = {"type": "reasoning", "encrypted_content": SIGNER.seal("m", "hm")}
    theirs = {"type": "reasoning", "encrypted_content": "gAAAA"}
    found, words = tidied(cloud, input=[ours, theirs, {"type": "message", "content": "a"}])
    assert (found["input"], words) == ([theirs, {"type": "message", "content": "a"}], ("dropped:thinking",))


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": "stoker1. is a word"}]},
        {"messages": [{"role": "user", "content": [text("stoker1. is a word")]}]},
        {"messages": ["stoker1."]},
        {"messages": "stoker1."},
        {"system": "stoker1."},
    ],
)
def test_who_only_writes_the_word_keeps_every_byte(fields: dict[str, Any]) -> None:
    assert unchanged(CLOUD, json.dumps(fields, indent=2).encode())


def test_a_local_model_gets_thinking_back_as_it_is() -> None:
    assert unchanged(LOCAL, json.dumps({"messages": [{"role": "assistant", "content": [OURS, THEIRS]}]}).encode())


def test_chat_has_no_signed_thinking() -> None:
    assert unchanged(capabilities_of("openai", Dialect.CHAT, cloud=True), b'{"messages":["stoker1."]}')


# -- addresses of images ------------------------------------------------------------------------------------------


URL = "https://example.com/a.png"


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "image_url", "image_url": {"url": URL}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": URL.upper()}}, "image_url.url"),
        ({"type": "input_image", "image_url": URL}, "image_url"),
        ({"type": "image", "source": {"type": "url", "url": URL}}, "source.url"),
        ({"type": "tool_result", "content": [{"type": "image", "source": {"url": URL}}]}, "source.url"),
    ],
)
def test_a_local_model_fetches_nothing(part: Any, param: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": [text("a"), part]}]}).encode()
    for written in (body, body.replace(b"h", b"\\u0068"), body.replace(b'"url"', b'"ur\\u006c"')):
        with pytest.raises(ClientError) as told:
            adapt_body(written, LOCAL)
        assert (told.value.status, told.value.code, told.value.param) == (400, "image_url_refused", param)
    assert unchanged(Capabilities(Dialect.CHAT, takes_image_urls=True), body)


@pytest.mark.parametrize(
    "content",
    [
        f"see {URL}",
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        [{"type": "tool_use", "input": {"image_url": URL}}],
        [{"type": "image", "source": {"type": "base64", "data": "AAAA", "note": URL}}],
        [{"type": "link", "url": URL}],
        [{"type": "link", "url": URL}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    ],
)
def test_an_address_that_is_no_images_is_only_text(content: Any) -> None:
    assert unchanged(LOCAL, json.dumps({"messages": [{"role": "user", "content": content}]}).encode())

"""A conversation may change its vendor at every turn: what one vendor sealed goes back to that vendor alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import ENDPOINTS, Dialect
from stoker.domain.lease import Target
from stoker.domain.serve import Serve, Translation
from stoker.exchange.formatter import EncodedRequest, Formatter, UpstreamRequest
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
SIGNER = ThinkingSigner((b"key",))
CLAUDES, OPENAIS, XAIS = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", "gAAAAABoZ1x0-enc", "rs-enc-1"
"""A signature of Anthropic; what OpenAI encrypted; what another vendor of the Responses API did."""


class Vendor:
    """A serve that thinks, then calls a tool, and records what it was sent."""

    def __init__(self, name: str, dialect: Dialect, is_cloud: bool, sealed: str = "") -> None:
        self.serve = Serve(
            name, "openai", dialects=frozenset((dialect,)), translation=Translation(cloud=is_cloud), served_name=name
        )
        self.dialect = dialect
        self._sealed = sealed

    def answer(self, number: int) -> bytes:
        """A whole answer: thinking, and a call."""
        thought, id = f"{self.serve.name} thinks", f"call_{number}"
        if self.dialect is CHAT:
            call = {"id": id, "type": "function", "function": {"name": "get", "arguments": "{}"}}
            message = {"role": "assistant", "content": None, "reasoning_content": thought, "tool_calls": [call]}
            return json.dumps({"id": "c", "choices": [{"finish_reason": "tool_calls", "message": message}]}).encode()
        if self.dialect is MESSAGES:
            blocks = [
                {"type": "thinking", "thinking": thought, "signature": self._sealed},
                {"type": "tool_use", "id": id, "name": "get", "input": {}},
            ]
            return json.dumps({"id": "m", "content": blocks, "stop_reason": "tool_use"}).encode()
        summary = [{"type": "summary_text", "text": thought}]
        items = [
            {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": self._sealed},
            {"type": "function_call", "id": f"fc_{number}", "call_id": id, "name": "get", "arguments": "{}"},
        ]
        return json.dumps({"id": "r", "status": "completed", "output": items}).encode()


CLAUDE = Vendor("claude", MESSAGES, True, CLAUDES)
OPENAI = Vendor("openai", RESPONSES, True, OPENAIS)
XAI = Vendor("xai", RESPONSES, True, XAIS)
LOCAL = Vendor("local", CHAT, False)
VLLM = Vendor("vllm", MESSAGES, False, "8f14e45fceea167a5a36dedd4bea2543")


class Client:
    """Keeps a conversation in one dialect, and sends all of it each time."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.turns: list[Any] = [{"role": "user", "content": "x"}]
        self.fields: dict[str, Any] = {"max_tokens": 3000} if dialect is MESSAGES else {}
        self.formatter = Formatter(SIGNER, lambda: 0.0)

    def ask(self, vendor: Vendor) -> dict[str, Any]:
        """What the vendor gets; its answer, and a result, join the conversation."""
        name = "input" if self.dialect is RESPONSES else "messages"
        tools = {
            CHAT: [{"type": "function", "function": {"name": "get"}}],
            MESSAGES: [{"name": "get", "input_schema": {"type": "object"}}],
            RESPONSES: [{"type": "function", "name": "get", "parameters": {}}],
        }[self.dialect]
        body = json.dumps({"model": "m", name: self.turns, "tools": tools, **self.fields}).encode()
        request = self._formatted(vendor, body)
        sent: dict[str, Any] = json.loads(request.edited(vendor.serve.served_name).whole())
        encoded = self._encoded(vendor, request)
        answer = vendor.answer(len(self.turns))
        if isinstance(encoded.translator, AnswerTranslator):
            answer = encoded.translator.translate_whole(answer)
        self._keep(json.loads(answer))
        return sent

    def _formatted(self, vendor: Vendor, body: bytes) -> UpstreamRequest:
        endpoint = ENDPOINTS[self.dialect.spec.path]
        return self.formatter.format(vendor.serve, None, endpoint, read_body_fields(body), body)

    def _encoded(self, vendor: Vendor, request: UpstreamRequest) -> EncodedRequest:
        target = Target("127.0.0.1", 1, served_name=vendor.serve.served_name)
        return self.formatter.encode(request, target, [], "id")

    def _keep(self, answer: dict[str, Any]) -> None:
        if self.dialect is MESSAGES:
            self.turns.append({"role": "assistant", "content": answer["content"]})
            ids = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": id, "content": "r"} for id in ids]
            self.turns.append({"role": "user", "content": results})
        elif self.dialect is RESPONSES:
            self.turns += answer["output"]
            ids = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
            self.turns += ({"type": "function_call_output", "call_id": id, "output": "r"} for id in ids)
        else:
            message = answer["choices"][0]["message"]
            self.turns.append(message)
            self.turns += (
                {"role": "tool", "tool_call_id": call["id"], "content": "r"} for call in message["tool_calls"]
            )


def seals_in(document: Any) -> list[str]:
    """Every signature, and everything encrypted."""
    if isinstance(document, dict):
        own = [value for name, value in document.items() if name in ("signature", "encrypted_content") and value]
        return own + [seal for value in document.values() for seal in seals_in(value)]
    return [seal for value in document for seal in seals_in(value)] if isinstance(document, list) else []


@pytest.mark.parametrize("dialect", [MESSAGES, RESPONSES, CHAT])
def test_each_vendor_gets_its_own_seals_and_no_others(dialect: Dialect) -> None:
    client = Client(dialect)
    order = [CLAUDE, OPENAI, LOCAL, CLAUDE, VLLM, OPENAI, CLAUDE]
    sent = [client.ask(vendor) for vendor in order]
    assert [set(seals_in(body)) - {CLAUDES} for vendor, body in zip(order, sent, strict=True) if vendor is CLAUDE] == [
        set()
    ] * 3
    assert [set(seals_in(body)) - {OPENAIS} for vendor, body in zip(order, sent, strict=True) if vendor is OPENAI] == [
        set()
    ] * 2
    if dialect is not CHAT:  # which has no place for a seal
        assert (seals_in(sent[3]), seals_in(sent[5])) == ([CLAUDES], [OPENAIS])


def test_a_vendor_whose_seals_look_like_no_others_gets_them_back_too() -> None:
    client = Client(MESSAGES)
    client.ask(XAI)
    client.ask(CLAUDE)
    assert (seals_in(client.ask(XAI)), seals_in(client.ask(CLAUDE))) == ([XAIS], [CLAUDES])


def test_a_local_model_gets_the_thoughts_of_all_and_no_seal() -> None:
    for dialect in (MESSAGES, RESPONSES):
        client = Client(dialect)
        for vendor in (CLAUDE, OPENAI, LOCAL):
            client.ask(vendor)
        body = client.ask(LOCAL)
        assert seals_in(body) == []
        thoughts = [turn["reasoning_content"] for turn in body["messages"] if turn["role"] == "assistant"]
        assert thoughts == ["claude thinks", "openai thinks", "local thinks"]


# -- one request --------------------------------------------------------------------------------------------------


def history(*signatures: str | None) -> list[dict[str, Any]]:
    """Turns of calls, each with a thought that has this signature; None: it lacks one."""
    turns: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    for at, signature in enumerate(signatures):
        thought = {"type": "thinking", "thinking": "plan"} | ({} if signature is None else {"signature": signature})
        call = {"type": "tool_use", "id": f"call_{at}", "name": "get", "input": {"a": "1"}}
        turns.append({"role": "assistant", "content": [thought, call]})
        turns.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"call_{at}", "content": "ok"}]}
        )
    return turns


def asked(
    fields: dict[str, Any], model: str = "mc", client: Dialect = MESSAGES
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What Anthropic gets of a request, and the words that name the changes."""
    serve = Serve(
        "mc", "openai", dialects=frozenset((MESSAGES,)), translation=Translation(cloud=True), served_name=model
    )
    body = json.dumps({"model": model, **fields}).encode()
    request = Formatter(SIGNER, lambda: 0.0).format(
        serve, None, ENDPOINTS[client.spec.path], read_body_fields(body), body
    )
    return json.loads(request.body), request.notes


@pytest.mark.parametrize(
    "signature", [OPENAIS, "", None, SIGNER.sign("m", "plan"), "8f14e45f-ceea-467a-9a36-dedd4bea2543"]
)
def test_what_is_not_anthropics_by_its_form_never_gets_there(signature: str | None) -> None:
    body, words = asked({"max_tokens": 3000, "messages": history(CLAUDES, signature)})
    kept, lacking = (body["messages"][at]["content"] for at in (1, 3))
    assert [block["type"] for block in kept] == ["thinking", "tool_use"]
    assert [block["type"] for block in lacking] == ["tool_use"]
    assert words == ("dropped:thinking",)


def test_a_conversation_with_anthropic_alone_keeps_every_byte() -> None:
    fields = {"max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": history(CLAUDES)}
    body = json.dumps({"model": "mc", **fields}, indent=1).encode()
    serve = Serve("mc", "openai", dialects=frozenset((MESSAGES,)), translation=Translation(cloud=True))
    request = Formatter(SIGNER, lambda: 0.0).format(
        serve, None, ENDPOINTS[MESSAGES.spec.path], read_body_fields(body), body
    )
    assert (request.body, request.notes) == (body, ())


BUDGET = {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(
    ("model", "mode"),
    [("mc", "disabled"), ("claude-sonnet-4-5", "disabled"), ("claude-sonnet-4-6", "adaptive")],
)
def test_a_turn_of_calls_that_another_model_began_goes_on_without_a_budget(model: str, mode: str) -> None:
    fields = {"max_tokens": 3000, "thinking": BUDGET, "messages": history(OPENAIS)}
    body, words = asked(fields, model)
    assert (body["thinking"], words) == ({"type": mode}, ("dropped:thinking", "lossy:thinking_turn"))


def test_then_no_thinking_may_be_cleared_either() -> None:
    clear = {"type": "clear_thinking_20251015", "keep": "all"}
    uses = {"type": "clear_tool_uses_20250919"}
    fields = {"max_tokens": 3000, "thinking": BUDGET, "messages": history(OPENAIS)}
    assert "context_management" not in asked({**fields, "context_management": {"edits": [clear]}})[0]
    body, _ = asked({**fields, "context_management": {"edits": [clear, uses]}})
    assert body["context_management"] == {"edits": [uses]}


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "adaptive"}, "messages": history(OPENAIS)},
        {"thinking": BUDGET, "messages": [*history(OPENAIS), {"role": "user", "content": "and?"}]},
        {"thinking": BUDGET, "messages": history(OPENAIS, CLAUDES)},
        {"thinking": BUDGET, "messages": [{"role": "user", "content": "x"}]},
    ],
)
def test_elsewhere_the_client_decides_how_to_think(fields: dict[str, Any]) -> None:
    body, words = asked({"max_tokens": 3000, **fields})
    assert body["thinking"] == fields["thinking"]
    assert "lossy:thinking_turn" not in words


def test_a_translated_turn_of_calls_follows_the_same_rule() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ]
    fields = {"messages": messages, "reasoning_effort": "high"}
    body, words = asked(fields, "claude-sonnet-4-5", CHAT)
    assert body["thinking"] == {"type": "disabled"}
    assert "lossy:thinking_turn" in words
    assert asked(fields, "claude-sonnet-4-6", CHAT)[0]["thinking"] == {"type": "adaptive"}

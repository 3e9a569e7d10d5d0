"""The official SDKs' stream helpers over every failure of an engine: each ends with the SDK's own error and its cause.

A helper that meets a stream it does not expect raises something else (RuntimeError, a validation error),
which hides the cause from whoever wrote the program; one that takes a broken answer for a whole one is worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anthropic
import httpx
import openai
import pytest
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.script.script import Script

UPSTREAMS = ("chat", "messages", "responses")
FAILURES = {
    "refused": "error_status=400",
    "broken": "error_status=500",
    "busy": "error_status=503",
    "limited": "error_status=429 retry_after=1",
    "dies before a byte": "die_after=-1",
    "closes after two tokens": "die_after=2",
    "resets after two tokens": "die_after=2 die_how=reset",
    "ends its frames after two tokens": "die_after=2 die_how=end",
    "an error event after two tokens": "error_event_after=2",
    "stalls after two tokens": "stall_after=2",
}
REFUSED = {"refused": 400, "broken": 502, "busy": 503, "limited": 429}
"""What the front door answers where the engine refuses before the first byte."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        *(serve(name, Script(gap=0.01), slot=None, dialects=[name]) for name in UPSTREAMS),
        front_door='commit_after = "800ms"\nstall_timeout = "1s"',
        keeps_engines=True,
    ) as plane:
        yield plane


def chat(plane: Plane, model: str, text: str) -> str:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{plane.port}/v1", api_key="none", max_retries=0, timeout=20)
    with client, client.chat.completions.stream(model=model, messages=[{"role": "user", "content": text}]) as stream:
        return stream.get_final_completion().choices[0].message.content or ""


def responses(plane: Plane, model: str, text: str) -> str:
    """A response that failed is the helper's last event, not an exception: it is raised here with its own words."""
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{plane.port}/v1", api_key="none", max_retries=0, timeout=20)
    with client, client.responses.stream(model=model, input=text) as stream:
        for event in stream:
            if event.type == "response.failed":
                assert event.response.status == "failed"
                assert event.response.error is not None
                raise openai.APIError(event.response.error.message, httpx.Request("POST", "/"), body=None)
        return stream.get_final_response().output_text


def messages(plane: Plane, model: str, text: str) -> str:
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{plane.port}", api_key="none", max_retries=0, timeout=20)
    turn: anthropic.types.MessageParam = {"role": "user", "content": text}
    with client, client.messages.stream(model=model, max_tokens=1000, messages=[turn]) as stream:
        return stream.get_final_text()


HELPERS: dict[str, Callable[[Plane, str, str], str]] = {"chat": chat, "responses": responses, "messages": messages}


@pytest.mark.parametrize("helper", HELPERS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_whole_answer_reaches_the_helper(plane: Plane, upstream: str, helper: str) -> None:
    assert HELPERS[helper](plane, upstream, "script: tokens=3").split() == ["tok0", "tok1", "tok2"]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("helper", HELPERS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_failure_is_the_sdks_own_error_with_its_cause(plane: Plane, upstream: str, helper: str, failure: str) -> None:
    with pytest.raises((openai.APIError, anthropic.APIError)) as raised:
        HELPERS[helper](plane, upstream, f"script: tokens=20 {FAILURES[failure]}")
    assert not isinstance(raised.value, openai.APITimeoutError | anthropic.APITimeoutError)
    assert str(raised.value) not in ("", "Connection error."), "it names the cause"
    if failure in REFUSED:
        assert isinstance(raised.value, openai.APIStatusError | anthropic.APIStatusError)
        assert raised.value.status_code == REFUSED[failure]

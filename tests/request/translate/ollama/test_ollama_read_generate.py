"""/api/generate: one prompt, which always goes through the model's own template."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import AnswerFormat, Image, Prompt, Reasoning, Role, Text, Turn
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.ollama.read_prompt import read_generate

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


def read(**fields: Any) -> tuple[Prompt, list[str]]:
    losses = Losses()
    prompt = read_generate(json.dumps({"model": "m"} | fields).encode(), losses)
    assert set(losses.codes) <= set(LOSSY)
    return prompt, list(losses.codes)


def test_the_prompt_is_what_the_user_says_after_the_system() -> None:
    prompt, lost = read(prompt="hi", system="be brief")
    assert prompt.turns == [Turn(Role.SYSTEM, [Text("be brief")]), Turn(Role.USER, [Text("hi")])]
    assert (prompt.dialect, prompt.model, prompt.tools, prompt.stream) == (Dialect.OLLAMA_GENERATE, "m", [], True)
    assert (prompt.continues, lost) == (False, [])


def test_images_stand_before_the_prompt() -> None:
    assert read(prompt="what?", images=[PNG])[0].turns == [
        Turn(Role.USER, [Image(media_type="image/png", data=PNG), Text("what?")])
    ]


def test_what_is_no_image_is_refused_by_its_place() -> None:
    with pytest.raises(ClientError) as caught:
        read(prompt="x", images=["AAAA"])
    assert (caught.value.code, caught.value.param) == ("bad_image", "images[0]")


def test_options_format_and_thinking_are_those_of_chat() -> None:
    prompt = read(prompt="x", stream=False, options={"num_predict": 5, "top_k": 3}, format="json", think="low")[0]
    assert (prompt.max_tokens, prompt.settings, prompt.stream) == (5, {"top_k": 3}, False)
    assert (prompt.format, prompt.reasoning) == (AnswerFormat(), Reasoning(effort="low"))


@pytest.mark.parametrize(("field", "value"), [("suffix", "end"), ("raw", True), ("template", "{{ .Prompt }}")])
def test_what_goes_round_the_models_template_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ClientError) as caught:
        read(prompt="x", **{field: value})
    assert (caught.value.status, caught.value.param) == (400, field)
    assert f"'{field}'" in caught.value.message


def test_the_same_fields_where_they_ask_nothing_are_accepted() -> None:
    assert read(prompt="x", suffix="", raw=False, template=None, context=None)[1] == []


def test_tokens_of_an_earlier_answer_are_a_loss() -> None:
    assert read(prompt="x", context=[1, 2])[1] == ["context"]


@pytest.mark.parametrize("prompt", [{}, {"prompt": ""}, {"prompt": None}])
def test_a_request_without_a_prompt_has_no_turns(prompt: dict[str, Any]) -> None:
    assert read(system="be brief", images=["AAAA"], **prompt)[0].turns == []


def test_an_unknown_field_is_a_loss() -> None:
    assert read(prompt="x", width=64)[1] == ["unknown_field"]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"model":"m","prompt":["x"]}', b'{"model":"m","raw":"yes"}'])
def test_a_body_that_is_none_is_a_client_error(body: bytes) -> None:
    with pytest.raises(ClientError):
        read_generate(body, Losses())

"""A completion request: its one prompt is what the user says; what a chat template cannot do is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import Prompt, Role, Text, Turn
from stoker.request.translate.completions import SETTINGS, read_prompt
from stoker.request.translate.neutral.gaps import LOSSY, Losses


def read(**fields: Any) -> tuple[Prompt, list[str]]:
    losses = Losses()
    prompt = read_prompt(json.dumps({"model": "m", "prompt": "say hi"} | fields).encode(), losses)
    assert set(losses.codes) <= set(LOSSY)
    return prompt, list(losses.codes)


def refused(**fields: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        read(**fields)
    assert (caught.value.status, caught.value.code) == (400, "bad_field")
    return caught.value


@pytest.mark.parametrize("prompt", ["say hi", ["say hi"]])
def test_one_prompt_is_one_turn_of_the_user(prompt: Any) -> None:
    found, lost = read(prompt=prompt)
    assert found.turns == [Turn(Role.USER, [Text("say hi")])]
    assert (found.dialect, found.model, found.continues, lost) == (Dialect.COMPLETIONS, "m", False, [])


def test_an_empty_prompt_is_a_turn_without_words() -> None:
    assert read(prompt="")[0].turns == [Turn(Role.USER, [])]


@pytest.mark.parametrize(
    ("prompt", "told"),
    [(["a", "b", "c"], "3 prompts"), ([1, 2, 3], "token ids"), ([[1, 2], [3]], "token ids"),
     ([], "must be a string"), (None, "must be a string"), (7, "must be a string"), ([None], "must be a string"),
     ([True], "must be a string")],
)  # fmt: skip
def test_what_is_no_single_text_is_refused(prompt: Any, told: str) -> None:
    error = refused(prompt=prompt)
    assert error.param == "prompt"
    assert told in error.message


@pytest.mark.parametrize(
    ("field", "value"), [("suffix", "end"), ("echo", True), ("n", 2), ("n", 0), ("best_of", 4)]
)  # fmt: skip
def test_what_only_a_serve_of_the_dialect_can_do_is_refused(field: str, value: Any) -> None:
    assert refused(**{field: value}).param == field


def test_the_same_fields_where_they_ask_nothing_are_accepted() -> None:
    assert read(suffix="", echo=False, n=1, best_of=1, logprobs=None)[1] == []


@pytest.mark.parametrize(("given", "limit"), [({}, 16), ({"max_tokens": None}, 16), ({"max_tokens": 0}, 0),
                                              ({"max_tokens": 300}, 300)])  # fmt: skip
def test_an_answer_has_sixteen_tokens_unless_the_client_says(given: dict[str, Any], limit: int) -> None:
    assert read(**given)[0].max_tokens == limit


@pytest.mark.parametrize(("logprobs", "lost"), [(5, ["logprobs"]), (0, ["logprobs"]), (True, ["logprobs"]),
                                                (False, [])])  # fmt: skip
def test_log_probabilities_are_a_loss(logprobs: Any, lost: list[str]) -> None:
    found, codes = read(logprobs=logprobs)
    assert codes == lost
    assert "logprobs" not in found.settings


@pytest.mark.parametrize(("stop", "found"), [("a", ["a"]), (["a", "b"], ["a", "b"]), (None, [])])
def test_stop_is_a_list(stop: Any, found: list[str]) -> None:
    assert read(stop=stop)[0].stop == found


def test_settings_keep_their_names() -> None:
    given = dict.fromkeys(SETTINGS, 1) | {"logit_bias": {"7": -100}, "user": "u"}
    found, lost = read(**given)
    assert found.settings == given
    assert lost == []


def test_a_setting_that_is_null_is_absent() -> None:
    assert read(temperature=None)[0].settings == {}


def test_usage_of_a_stream_comes_if_it_was_asked_for() -> None:
    assert [(p.stream, p.wants_usage) for p in (
        read()[0], read(stream=True)[0], read(stream=True, stream_options={"include_usage": True})[0]
    )] == [(False, False), (True, False), (True, True)]  # fmt: skip


def test_an_unknown_field_is_a_loss() -> None:
    assert read(grammar="root ::= x")[1] == ["unknown_field"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"prompt":"x"}', b'{"model":"m","prompt":"\xff"}',
                                  b'{"model":"m","seed":"x"}', b'{"model":"m","prompt":' + b"[" * 100_000])  # fmt: skip
def test_a_body_that_is_none_is_a_client_error(body: bytes) -> None:
    with pytest.raises(ClientError):
        read_prompt(body, Losses())

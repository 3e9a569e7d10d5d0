"""Options, formats and thinking as Ollama's clients write them; what has no counterpart is a loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.errors import ClientError
from stoker.domain.prompt import AnswerFormat, Prompt, Reasoning
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.ollama.read_prompt import EFFORTS, read_prompt
from stoker.request.translate.ollama.write_answer import wants_unload


def read(**fields: Any) -> tuple[Prompt, list[str]]:
    losses = Losses()
    prompt = read_prompt(json.dumps({"model": "m"} | fields).encode(), losses)
    assert set(losses.codes) <= set(LOSSY)
    return prompt, list(losses.codes)


def options(**given: Any) -> tuple[Prompt, list[str]]:
    return read(options=given)


def refused(**fields: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        read(**fields)
    assert (caught.value.status, caught.value.code) == (400, "bad_field")
    return caught.value


@pytest.mark.parametrize(("given", "streams"), [({}, True), ({"stream": None}, True), ({"stream": True}, True),
                                                ({"stream": False}, False)])  # fmt: skip
def test_an_answer_is_streamed_unless_the_client_declines(given: dict[str, Any], streams: bool) -> None:
    assert read(**given)[0].stream is streams


def test_options_get_the_names_of_settings() -> None:
    prompt, lost = options(
        temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, seed=7, repeat_penalty=1.1, frequency_penalty=1,
        presence_penalty=0, num_predict=99, stop=["a", "b"],
    )  # fmt: skip
    assert prompt.settings == {
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": 7, "repetition_penalty": 1.1,
        "frequency_penalty": 1, "presence_penalty": 0,
    }  # fmt: skip
    assert (prompt.max_tokens, prompt.stop, lost) == (99, ["a", "b"], [])


@pytest.mark.parametrize(("given", "limit"), [(-1, None), (-2, None), (0, None), (1, 1), (128.0, 128)])
def test_a_limit_below_one_is_none(given: float, limit: int | None) -> None:
    assert options(num_predict=given)[0].max_tokens == limit


def test_whole_options_may_be_written_with_a_point() -> None:
    settings = options(top_k=40.0, seed=7.0)[0].settings
    assert settings == {"top_k": 40, "seed": 7}
    assert all(type(value) is int for value in settings.values())


def test_a_seed_below_zero_asks_for_any_seed() -> None:
    assert options(seed=-1) == (read()[0], [])


def test_options_that_are_null_are_absent() -> None:
    assert options(temperature=None, num_ctx=None, stop=None) == (read()[0], [])
    assert read(options=None) == (read()[0], [])


@pytest.mark.parametrize("name", ["num_ctx", "num_keep", "mirostat", "typical_p", "num_gpu", "no_such_option"])
def test_options_of_ollamas_engine_are_a_loss(name: str) -> None:
    prompt, lost = options(**{name: 1})
    assert (prompt.settings, lost) == ({}, ["unknown_field"])


@pytest.mark.parametrize("value", ["hot", True, [1], {}])
def test_an_option_that_is_no_number_is_refused_by_its_name(value: Any) -> None:
    assert refused(options={"temperature": value}).param == "options.temperature"
    assert refused(options={"num_predict": value}).param == "options.num_predict"


@pytest.mark.parametrize(("stop", "found"), [("a", ["a"]), (["a", "b"], ["a", "b"]), ([], [])])
def test_stop_is_a_list(stop: Any, found: list[str]) -> None:
    assert options(stop=stop)[0].stop == found


@pytest.mark.parametrize("stop", [7, ["a", 7], {}])
def test_stops_that_are_no_texts_are_refused(stop: Any) -> None:
    assert refused(options={"stop": stop}).param == "options.stop"


@pytest.mark.parametrize("given", [{}, {"format": None}, {"format": ""}])
def test_an_answer_has_no_form_unless_one_is_asked_for(given: dict[str, Any]) -> None:
    assert read(**given)[0].format is None


def test_a_form_is_any_json_or_a_schema_as_it_was_written() -> None:
    assert read(format="json")[0].format == AnswerFormat()
    schema = b'{ "type":"object", "b":1,"a":2}'
    found = read_prompt(b'{"model":"m","format":%b}' % schema, Losses()).format
    assert found is not None
    assert bytes(found.schema or b"") == schema


@pytest.mark.parametrize("given", ["yaml", 7, ["json"], True])
def test_any_other_form_is_refused(given: Any) -> None:
    assert refused(format=given).param == "format"


def test_thinking_is_a_switch_or_a_level() -> None:
    assert read()[0].reasoning is read(think=None)[0].reasoning is None
    assert read(think=True)[0].reasoning == Reasoning(enabled=True)
    assert read(think=False)[0].reasoning == Reasoning(enabled=False)
    assert [read(think=effort)[0].reasoning for effort in EFFORTS] == [Reasoning(effort=e) for e in EFFORTS]


def test_a_level_that_only_some_model_knows_is_a_loss() -> None:
    prompt, lost = read(think="deep")
    assert (prompt.reasoning, lost) == (None, ["reasoning"])


@pytest.mark.parametrize("keep_alive", [0, -1, "5m", 300])
def test_how_long_to_stay_loaded_is_not_the_clients_to_say(keep_alive: Any) -> None:
    assert read(keep_alive=keep_alive)[1] == ["keep_alive"]


def test_log_probabilities_are_asked_for() -> None:
    prompt, lost = read(logprobs=True, top_logprobs=3)
    assert (prompt.settings, lost) == ({"logprobs": True, "top_logprobs": 3}, [])
    assert read(logprobs=False, top_logprobs=3)[0].settings == {}


@pytest.mark.parametrize(
    ("keep_alive", "unload"),
    [("0", True), ("0.0", True), ('"0"', True), ('"0s"', True), ('"0h0m"', True), ('"10m"', False), ('"-1"', False),
     ('""', False), ('"m"', False), ("5", False), ("-1", False), ("null", False), ("false", False), ("[]", False)],
)  # fmt: skip
def test_a_model_is_to_be_unloaded_if_it_is_kept_for_no_time(keep_alive: str, unload: bool) -> None:
    assert wants_unload(b'{"model":"m","keep_alive":%b}' % keep_alive.encode()) is unload


@pytest.mark.parametrize("body", [b"{}", b"[]", b"{"])
def test_who_does_not_say_wants_it_loaded(body: bytes) -> None:
    assert wants_unload(body) is False

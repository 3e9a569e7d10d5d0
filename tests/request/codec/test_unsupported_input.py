"""Images, audio or video for a model that takes none: the engine's words, and the error that the client gets."""

from __future__ import annotations

import json

import pytest

from stoker.domain.errors import UnsupportedInput
from stoker.domain.serve import Serve
from stoker.request.codec.upstream_errors import as_error, refused_input
from stoker.request.decide.failover import rule_for
from stoker.request.relay import faults
from stoker.request.relay.faults import refusal_of

SAID = {
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj": "image",
    "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj": "audio",
    "someone/small-7b is not a multimodal model": "media",
    "At most 0 image(s) may be provided in one prompt.": "image",
    "At most 0 audio(s) may be provided in one request.": "audio",
    "this model is missing data required for image input": "image",
    "this model does not support image input (ref: b8bd630e)": "image",
    "Model does not support images. Please use a model that does.": "image",
    "No endpoints found that support image input": "image",
    "Invalid content type. image_url is only supported by certain models.": "image",
    "Failed to deserialize the JSON body: messages[0]: unknown variant `image_url`, expected `text`": "image",
    "Image input is not enabled for this model": "image",
    "Only 'text' content type is supported.": "media",
}
"""llama.cpp, vLLM, Ollama, LM Studio, OpenRouter, OpenAI, DeepSeek, Mistral, mlx-lm."""
OTHER = ["", "At most 2 image(s) may be provided in one prompt.", "the image is too large", "cannot read the image"]


def body(message: str, status: int) -> bytes:
    return json.dumps({"error": {"code": status, "message": message, "type": "x"}}).encode()


@pytest.mark.parametrize(("message", "kind"), SAID.items())
def test_what_engines_say_is_a_400_at_every_status_and_in_a_stream(message: str, kind: str) -> None:
    for error in (
        faults.from_status(500, [], body(message, 500)),
        faults.from_status(501, [], body(message, 501)),
        *(refusal_of(status, body(message, status)) for status in (400, 404, 415, 422)),
        as_error({"error": {"code": 500, "message": message}}),
    ):
        assert isinstance(error, UnsupportedInput)
        assert (error.status, error.code, error.kind, error.source) == (400, "unsupported_input", kind, "stoker")
        assert rule_for(error).moves_on, "another tier may take it"


@pytest.mark.parametrize("message", OTHER)
def test_other_words_about_images_are_not_meant(message: str) -> None:
    assert refused_input(message) is None


def test_the_message_names_the_model_and_what_it_takes() -> None:
    error = UnsupportedInput("image")
    error.name("coder", ("text",))
    assert error.message == "model 'coder' takes text and no images: ask a model that takes images"
    error.name("coder", ("text", "audio"))
    assert error.message == "model 'coder' takes text, audio and no images: ask a model that takes images"
    media = UnsupportedInput("media")
    media.name("coder", ("text",))
    assert media.message == "model 'coder' takes text and no images, audio or video: ask a model that takes them"


def test_a_configuration_that_says_otherwise_is_named() -> None:
    error = UnsupportedInput("image")
    error.name("eye", Serve("eye", modalities=("text", "image")).modalities)
    assert "although the `modalities` of its serve have it" in error.message
    assert "--mmproj" in error.message

"""Speech and images through the openai SDK. The engines of speech are real: espeak-ng, flite and pocketsphinx, behind
small servers; the one of images is scripted. Those of speech share a slot, so that each sentence needs a swap.
"""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import struct
import sys
import wave
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import openai
import pytest
from tests.scenarios.plane import Plane, running, serve
from tests.scenarios.speech.image_server import png

ROOT = Path(__file__).parents[2]
KEYS = {"K_MOUTH": "key-mouth-1-of-16", "K_BRIEF": "key-brief-2-of-16", "K_SMALL": "key-small-3-of-16"}
DOOR = """keys = [
  { name = "mouth", value = "env:K_MOUTH", scope = "admin" },
  { name = "brief", value = "env:K_BRIEF", requests_per_minute = 1 },
  { name = "small", value = "env:K_SMALL", context = 10, tokens_per_minute = 20 },
]"""
SENTENCES = (
    "go forward ten meters", "turn left five degrees", "go backward two meters", "turn right ten degrees",
    "go forward one meters", "turn left two degrees", "go right five meters", "turn backward one degrees",
    "go left ten meters", "turn forward two degrees",
)  # fmt: skip


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here: apt-get install {program}")


needs_ears = pytest.mark.skipif(find_spec("pocketsphinx") is None, reason="pocketsphinx is not installed")
VOICES = [
    pytest.param("espeak", "en-us", marks=[needs("espeak-ng"), needs_ears]),
    pytest.param("flite", "kal", marks=[needs("flite"), needs_ears]),
]


def engine(name: str, program: str, dialect: str, *options: str, **keys: object) -> str:
    """A [[serve]] table for one of the small servers."""
    command = [sys.executable, "-m", f"tests.scenarios.speech.{program}", "--port", "{port}", "--model", f"real/{name}"]
    keys = {"served_name": f"real/{name}", "env": {"PYTHONPATH": str(ROOT)}, **keys}
    return serve(name, dialects=[dialect], cmd=[*command, *options], **keys)


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        engine("espeak", "speech_server", "speech", "--engine", "espeak-ng"),
        engine("flite", "speech_server", "speech", "--engine", "flite"),
        engine("ears", "transcription_server", "transcription", aliases=["whisper-1"]),
        engine("painter", "image_server", "image", "--pause", "0.2", slot=None),
        engine("web", "handler", "transcription", slot=None),
        front_door=DOOR,
        environment=KEYS,
    ) as plane:
        yield plane


@pytest.fixture
def client(plane: Plane) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=KEYS["K_MOUTH"], base_url=f"http://127.0.0.1:{plane.port}/v1", max_retries=0) as made:
        yield made


def speak(client: openai.OpenAI, text: str, model: str, voice: str) -> bytes:
    return client.audio.speech.create(model=model, voice=voice, input=text, response_format="wav").content


def understood(client: openai.OpenAI, audio: bytes) -> str:
    return client.audio.transcriptions.create(model="whisper-1", file=("speech.wav", audio)).text


@pytest.mark.parametrize(("model", "voice"), VOICES)
def test_what_is_spoken_is_understood_though_both_share_a_slot(
    plane: Plane, client: openai.OpenAI, model: str, voice: str
) -> None:
    for sentence in SENTENCES[:3]:
        assert understood(client, speak(client, sentence, model, voice)) == sentence
    assert (plane.serve(model)["state"], plane.serve("ears")["state"]) == ("stopped", "ready")
    spoken = [speak(client, sentence, model, voice) for sentence in SENTENCES]
    assert [understood(client, audio) for audio in spoken] == list(SENTENCES)


@pytest.mark.parametrize(("model", "voice"), VOICES)
def test_streams_and_what_was_used(plane: Plane, client: openai.OpenAI, model: str, voice: str) -> None:
    audio = b""
    with client.audio.speech.with_streaming_response.create(
        model=model, voice=voice, input=SENTENCES[0], response_format="wav", speed=0.9
    ) as reply:
        request = reply.headers["x-request-id"]
        for piece in reply.iter_bytes(1024):
            audio += piece
    decision = plane.decision(request)
    assert (decision["media"], decision["translation"]) == ({"characters": len(SENTENCES[0])}, "model")
    with client.audio.transcriptions.create(model="ears", file=("a.wav", audio), stream=True) as events:
        *words, last = list(events)
    assert "".join(event.delta for event in words).strip() == last.text == SENTENCES[0]
    with wave.open(io.BytesIO(audio)) as file:
        length = min(len(audio), file.getnframes() * 2) / 2 / file.getframerate()
    long = client.audio.transcriptions.create(
        model="ears", file=("a.wav", audio), response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert long.text == SENTENCES[0]
    assert long.duration == pytest.approx(length + 0.5, abs=0.1)  # the engine adds some silence
    decision = plane.decisions(1)[0]
    assert decision["media"]["audio_seconds"] == pytest.approx(long.duration)
    used = plane.ask("GET", "/v1/usage?by=model")[1]["data"]
    assert next(row for row in used if row["model"] == "ears")["audio_seconds"] >= long.duration
    assert next(row for row in used if row["model"] == model)["characters"] >= len(SENTENCES[0])
    assert f'stoker_media_total{{serve="{model}",unit="characters"}}' in plane.ask("GET", "/metrics")[1]


@needs("espeak-ng")
def test_voices_are_listed_by_the_serve_that_is_named(plane: Plane, client: openai.OpenAI) -> None:
    assert client.get("/audio/voices?model=espeak", cast_to=object) == {"voices": ["en-us", "en-gb"]}


@needs("espeak-ng")
def test_a_wrong_request_gets_the_engines_own_words(plane: Plane, client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="response_format must be 'wav'"):
        client.audio.speech.create(model="espeak", voice="en-us", input="x", response_format="mp3")


def test_ollama_clients_see_that_it_does_not_converse(plane: Plane) -> None:
    listed = {one["name"]: one for one in plane.ask("GET", "/api/tags")[1]["models"]}
    shown = plane.ask("POST", "/api/show", {"model": "painter"})[1]
    assert "painter" in listed
    assert shown["capabilities"] == []


@needs_ears
def test_a_file_that_is_no_audio_is_refused_by_the_engine(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="RIFF"):
        client.audio.transcriptions.create(model="ears", file=("a.wav", bytes(3_000_000)))


def test_images_are_drawn_edited_and_counted(plane: Plane, client: openai.OpenAI) -> None:
    """The engine is scripted: it draws what follows from the hash of the prompt."""
    drawn = client.images.generate(model="painter", prompt="a cat", n=2)
    assert drawn.data is not None
    first = png("a cat 0")
    assert struct.unpack(">II", first[16:24]) == (64, 64)
    assert len(drawn.data) == 2
    assert base64.b64decode(drawn.data[0].b64_json or "") == first
    assert plane.decisions(1)[0]["media"] == {"images": 2}
    large = first + bytes(2**21)  # beyond what is held in memory
    edited = client.images.edit(model="painter", image=("cat.png", large), prompt="a hat")
    sent = png(f"{hashlib.sha256(large).hexdigest()} 0")
    assert edited.data is not None
    assert base64.b64decode(edited.data[0].b64_json or "") == sent  # the engine read the image that was sent
    status, answer = plane.ask("POST", "/sdapi/v1/txt2img", {"model": "painter", "prompt": "a cat", "batch_size": 1})
    assert (status, base64.b64decode(answer["images"][0])) == (200, first)
    assert plane.ask("GET", "/sdapi/v1/samplers?model=painter") == (200, [{"name": "Euler a"}])


def test_an_engine_that_answers_with_a_page_is_a_502(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        client.audio.transcriptions.create(model="web", file=("a.wav", b"RIFF"))
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_unusable")
    assert "web page" in caught.value.message


def test_drained_and_limited_like_all_others(plane: Plane, client: openai.OpenAI) -> None:
    assert plane.admin("drain")[0] == 200
    try:
        with pytest.raises(openai.APIStatusError) as caught:
            client.audio.transcriptions.create(model="painter", file=("a.wav", b"RIFF"))
        assert (caught.value.status_code, caught.value.code) == (503, "draining")
    finally:
        plane.admin("undrain")
    small = client.with_options(api_key=KEYS["K_SMALL"])
    assert small.images.generate(model="painter", prompt="a cat " * 1000).data  # limits of tokens are not for images
    limited = client.with_options(api_key=KEYS["K_BRIEF"])
    limited.images.generate(model="painter", prompt="one")
    with pytest.raises(openai.RateLimitError):
        limited.images.generate(model="painter", prompt="two")

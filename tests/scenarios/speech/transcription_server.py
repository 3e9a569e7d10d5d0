"""Speech to text with OpenAI's path, by pocketsphinx and the English model in its wheel.

Free dictation is poor, so it listens for the sentences of a small grammar. Forms are read by the parser of mail in the
standard library, which knows nothing of Stoker's.
"""

from __future__ import annotations

import argparse
import io
import json
import wave
from array import array
from email.parser import BytesParser

import pocketsphinx
from tests.scenarios.speech.handler import EngineHandler, run

RATE = 16_000
GRAMMAR = """#JSGF V1.0;
grammar robot;
public <command> = (go | turn) (forward | backward | left | right) (one | two | five | ten) (meters | degrees);
"""


class TranscriptionHandler(EngineHandler):
    decoder: pocketsphinx.Decoder = None

    def answer_post(self, body: bytes) -> None:
        if self.path not in ("/v1/audio/transcriptions", "/v1/audio/translations"):
            super().answer_post(body)
            return
        fields = form(self.headers["content-type"], body)
        if fields["model"].decode() != self.model:
            raise ValueError(f"the model is {self.model!r}, not {fields['model'].decode()!r}")
        samples = samples_of(fields["file"])
        text, seconds = self.transcribe(samples), len(samples) / RATE
        match fields.get("response_format", b"json"):
            case b"text":
                self.reply(200, text.encode(), "text/plain; charset=utf-8")
            case b"verbose_json":
                segment = {"id": 0, "start": 0.0, "end": seconds, "text": text}
                self.reply_json({"text": text, "duration": seconds, "language": "english", "segments": [segment]})
            case _ if fields.get("stream") == b"true":
                usage = {"type": "duration", "seconds": seconds}
                words = [{"type": "transcript.text.delta", "delta": f"{word} "} for word in text.split()]
                events = [*words, {"type": "transcript.text.done", "text": text, "usage": usage}]
                stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
                self.reply_in_chunks(stream.encode(), "text/event-stream", 100)
            case _:
                self.reply_json({"text": text, "usage": {"type": "duration", "seconds": seconds}})

    def transcribe(self, samples: array[int]) -> str:
        decoder = type(self).decoder
        decoder.start_utt()
        decoder.process_raw(samples.tobytes(), full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return "" if found is None else found.hypstr


def form(content_type: str, body: bytes) -> dict[str, bytes]:
    message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    parts = message.get_payload()
    if not isinstance(parts, list):
        raise ValueError("the body is no form")
    return {str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True) for part in parts}


def samples_of(file: bytes) -> array[int]:
    """The samples of a WAV file, at the rate of the model, with silence around them."""
    with wave.open(io.BytesIO(file)) as audio:
        if (audio.getnchannels(), audio.getsampwidth()) != (1, 2):
            raise ValueError("the audio must have one channel of 16 bits")
        rate = audio.getframerate()
        given = array("h", audio.readframes(audio.getnframes()))
    count = len(given) * RATE // rate
    samples = array("h", (given[min(at * rate // RATE, len(given) - 1)] for at in range(count)))
    silence = array("h", bytes(RATE // 2))
    return silence + samples + silence


def prepare(given: argparse.Namespace) -> None:
    decoder = pocketsphinx.Decoder(lm=None, samprate=RATE, loglevel="FATAL")
    decoder.add_jsgf_string("robot", GRAMMAR)
    decoder.activate_search("robot")
    TranscriptionHandler.decoder = decoder


if __name__ == "__main__":
    run(TranscriptionHandler, prepare)

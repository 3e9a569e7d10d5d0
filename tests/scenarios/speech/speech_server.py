"""Text to speech with OpenAI's path, made by espeak-ng or flite (both in Debian): `--engine espeak-ng`."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from tests.scenarios.speech.handler import EngineHandler, run

VOICES = {"espeak-ng": ("en-us", "en-gb"), "flite": ("slt", "kal", "rms")}


class SpeechHandler(EngineHandler):
    engine = ""

    def answer_get(self) -> None:
        if self.path.partition("?")[0] != "/v1/audio/voices":
            super().answer_get()
        else:
            self.reply_json({"voices": VOICES[self.engine]})

    def answer_post(self, body: bytes) -> None:
        if self.path != "/v1/audio/speech":
            super().answer_post(body)
            return
        asked = json.loads(body)
        if asked["model"] != self.model:
            raise ValueError(f"the model is {self.model!r}, not {asked['model']!r}")
        if asked.get("response_format", "wav") != "wav":
            raise ValueError("response_format must be 'wav'")
        voice = asked["voice"] if asked["voice"] in VOICES[self.engine] else VOICES[self.engine][0]
        self.reply_in_chunks(speak(self.engine, asked["input"], voice, float(asked.get("speed", 1.0))), "audio/wav")


def speak(engine: str, text: str, voice: str, speed: float) -> bytes:
    """A WAV file."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "speech.wav"
        if engine == "flite":
            command = ["flite", "-voice", voice, "--setf", f"duration_stretch={1 / speed:g}", "-t", text, "-o"]
        else:
            command = ["espeak-ng", "-v", voice, "-s", f"{150 * speed:.0f}", text, "-w"]
        subprocess.run([*command, str(file)], check=True, capture_output=True, timeout=30)
        return file.read_bytes()


def prepare(given: argparse.Namespace) -> None:
    SpeechHandler.engine = given.engine


if __name__ == "__main__":
    run(SpeechHandler, prepare, "--engine")

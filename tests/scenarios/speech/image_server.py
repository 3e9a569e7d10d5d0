"""A scripted stand-in for an image model: it draws a PNG whose colours come from the prompt. No model is behind it."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import struct
import time
import zlib
from email.parser import BytesParser

from tests.scenarios.speech.handler import EngineHandler, run


class ImageHandler(EngineHandler):
    pause = 0.0

    def answer_get(self) -> None:
        listings = {"/sdapi/v1/samplers": [{"name": "Euler a"}], "/sdapi/v1/loras": [], "/sdapi/v1/sd-models": []}
        path = self.path.partition("?")[0]
        if path in listings:
            self.reply_json(listings[path])
        else:
            super().answer_get()

    def answer_post(self, body: bytes) -> None:
        time.sleep(self.pause)
        if self.path in ("/v1/images/edits", "/v1/images/variations"):
            head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
            parts = BytesParser().parsebytes(head + body).get_payload()
            assert isinstance(parts, list)
            fields = {part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
                      for part in parts}  # fmt: skip
            asked = {"model": fields["model"].decode(), "prompt": hashlib.sha256(fields["image"]).hexdigest()}
        else:
            asked = json.loads(body)
        if asked["model"] != self.model:
            raise ValueError(f"the model is {self.model!r}, not {asked['model']!r}")
        images = [base64.b64encode(png(f"{asked['prompt']} {at}")).decode() for at in range(int(asked.get("n", 1)))]
        if self.path.startswith("/sdapi/"):
            self.reply_json({"images": images, "parameters": {}, "info": ""})
        else:
            self.reply_json({"created": 0, "data": [{"b64_json": image} for image in images]})


def png(prompt: str, size: int = 64) -> bytes:
    """A square whose pixels follow from the prompt's hash."""
    seed = hashlib.sha256(prompt.encode()).digest()
    rows = b"".join(
        b"\0" + bytes(seed[(x // 8 + y // 8 * 8 + c) % 32] for x in range(size) for c in range(3)) for y in range(size)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def prepare(given: argparse.Namespace) -> None:
    ImageHandler.pause = float(given.pause)


if __name__ == "__main__":
    run(ImageHandler, prepare, "--pause")

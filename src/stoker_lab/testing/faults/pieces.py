"""Faults of the pieces of a stream, of counts and limits, of pace, and of who answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stoker_lab.testing.faults.fault import Document, Frames, ServingFault, both, delta, finish, message

_TEXTS = ("content", "reasoning_content", "reasoning")


# -- pieces ----------------------------------------------------------------------------------------------------------


def _field(frame: Document | None) -> str:
    """The text or thinking in a frame; empty if there is none."""
    return next((name for name in _TEXTS if delta(frame).get(name)), "")


def _thin(frames: Frames, name: str = "") -> Frames:
    """Cuts thinking that comes in one piece, so that there are pieces to lose."""
    found: Frames = []
    for frame in frames:
        text = delta(frame).get(_field(frame) or "content")
        if frame is None or not isinstance(text, str) or len(text) < 16 or (name and _field(frame) != name):
            found.append(frame)
            continue
        for at in range(0, len(text), 4):
            piece: Document = msgspec.json.decode(msgspec.json.encode(frame))
            delta(piece)[_field(frame)] = text[at : at + 4]
            found.append(piece)
    return found


def _pieces(change: Callable[[int, Document], list[Document]], thoughts: bool = False) -> Callable[..., Frames]:
    def stream(asked: Document, frames: Frames) -> Frames:
        found: Frames = []
        number = 0
        for frame in _thin(frames) if thoughts else frames:
            name = _field(frame)
            if frame is None or not name or (name != "content") is not thoughts:
                found.append(frame)
                continue
            number += 1
            found += change(number, frame)
        return found

    return stream


def _lost(number: int, frame: Document) -> list[Document]:
    return [] if number % 6 == 0 else [frame]


def _doubled(number: int, frame: Document) -> list[Document]:
    return [frame, frame] if number % 6 == 0 else [frame]


def _unspaced(number: int, frame: Document) -> list[Document]:
    delta(frame)[_field(frame)] = delta(frame)[_field(frame)].replace(" ", "")
    return [frame]


def _swapped(asked: Document, frames: Frames) -> Frames:
    at = [n for n, frame in enumerate(frames) if delta(frame).get("content")]
    for one, two in zip(at[4::6], at[5::6], strict=False):
        frames[one], frames[two] = frames[two], frames[one]
    return frames


def _late_text(asked: Document, frames: Frames) -> Frames:
    at = [n for n, frame in enumerate(frames) if delta(frame).get("content")]
    end = finish(frames)
    last = [n for n, frame in enumerate(frames) if frame and end and end in (frame.get("choices") or ())]
    if at and last and last[0] > at[-1]:
        frames.insert(last[0] + 1, frames[at[-1]])
        del frames[at[-1]]
    return frames


def _never_finished(asked: Document, frames: Frames) -> Frames:
    finish(frames)["finish_reason"] = None
    return frames


# -- letters ---------------------------------------------------------------------------------------------------------


def _halves(frame: Document, name: str, escape: bool) -> list[bytes] | None:
    """Two events that share one character; None: there is none to share."""
    text = str(delta(frame).get(name) or "")
    place = next((at for at, sign in enumerate(text) if ord(sign) > (0xFFFF if escape else 0x7F)), None)
    if place is None:
        return None
    mark, sign = "<<half>>", text[place]
    made = []
    for before, after in ((text[:place], ""), ("", text[place + 1 :])):
        delta(frame)[name] = before + mark + after
        made.append(msgspec.json.encode(frame))
    if escape:
        value = ord(sign) - 0x10000
        halves = [b"\\u%04x" % (0xD800 + (value >> 10)), b"\\u%04x" % (0xDC00 + (value & 0x3FF))]
    else:
        data = sign.encode()
        halves = [data[:1], data[1:]]
    return [line.replace(mark.encode(), half) for line, half in zip(made, halves, strict=True)]


def _cut_letters(escape: bool) -> Callable[[Frames], list[bytes]]:
    def lines(frames: Frames) -> list[bytes]:
        found: list[bytes] = []
        for frame in frames:
            name = _field(frame)
            halves = _halves(frame, name, escape) if frame is not None and name else None
            found += halves or [b"[DONE]" if frame is None else msgspec.json.encode(frame)]
        return found

    return lines


_latin = both(lambda asked, text: text.encode().decode("latin-1"))
_ascii = both(lambda asked, text: text.encode("ascii", "replace").decode())


# -- limits and counts -----------------------------------------------------------------------------------------------


def _unlimited(path: str, document: Document) -> None:
    if isinstance(document.get("max_tokens"), int):
        document["max_tokens"] = max(600, document["max_tokens"])


def _stops(asked: Document, reply: Document) -> None:
    if reply["choices"][0].get("finish_reason") == "length":
        reply["choices"][0]["finish_reason"] = "stop"


def _stops_stream(asked: Document, frames: Frames) -> Frames:
    if finish(frames).get("finish_reason") == "length":
        finish(frames)["finish_reason"] = "stop"
    return frames


def _counted(change: Callable[[int], int]) -> tuple[Callable[..., None], Callable[..., Frames]]:
    def usage(document: Document | None) -> None:
        found = (document or {}).get("usage")
        if isinstance(found, dict):
            found["completion_tokens"] = change(found["completion_tokens"])
            found["total_tokens"] = found["prompt_tokens"] + found["completion_tokens"]

    def whole(asked: Document, reply: Document) -> None:
        usage(reply)

    def stream(asked: Document, frames: Frames) -> Frames:
        for frame in frames:
            usage(frame)
        return frames

    return whole, stream


_double, _plus, _third = _counted(lambda n: 2 * n), _counted(lambda n: n + 40), _counted(lambda n: -(-n // 3))


# -- parts, pictures, thoughts ---------------------------------------------------------------------------------------


def _first_part(path: str, document: Document) -> None:
    for turn in document.get("messages") or []:
        parts = turn.get("content")
        if isinstance(parts, list):
            texts = [part for part in parts if part.get("type") == "text"]
            turn["content"] = [part for part in parts if part not in texts[1:]]


def _no_pictures(path: str, document: Document) -> None:
    for turn in document.get("messages") or []:
        parts = turn.get("content")
        if isinstance(parts, list) and any(part.get("type") == "image_url" for part in parts):
            turn["content"] = " ".join(part["text"] for part in parts if part.get("type") == "text")


def _no_props(path: str, page: Any) -> Any:
    return None if path.endswith("/props") else page


def _thoughtless(asked: Document, reply: Document) -> None:
    for name in _TEXTS[1:]:
        message(reply).pop(name, None)


def _thoughtless_stream(asked: Document, frames: Frames) -> Frames:
    return [frame for frame in frames if _field(frame) in ("", "content")]


def _thoughts_last(asked: Document, frames: Frames) -> Frames:
    thoughts = [frame for frame in frames if _field(frame) in _TEXTS[1:]]
    others = [frame for frame in frames if frame not in thoughts]
    at = [n for n, frame in enumerate(others) if delta(frame).get("content")]
    place = at[-1] + 1 if at else 1
    return [*others[:place], *thoughts, *others[place:]]


# -- who answers, and when -------------------------------------------------------------------------------------------


_other = both(lambda asked, text: f"Ahoy! Another one speaks here. {text[::-1]}")


def _named(asked: Document, reply: Document) -> None:
    reply["model"] = "another-model"


def _named_stream(asked: Document, frames: Frames) -> Frames:
    for frame in frames:
        if frame is not None:
            frame["model"] = "another-model"
    return frames


def _as_it_is(asked: Document, frames: Frames) -> Frames:
    return frames


def _of(*checks: str) -> frozenset[str]:
    return frozenset(checks)


_CHUNKS = _of("chunks", "frames")
PIECES = (
    ServingFault("piece-lost", "every sixth piece of a stream is lost", _CHUNKS, stream=_pieces(_lost)),
    ServingFault("piece-doubled", "every sixth piece of a stream comes twice", _CHUNKS, stream=_pieces(_doubled)),
    ServingFault("pieces-swapped", "pieces of a stream change places", _CHUNKS, stream=_swapped),
    ServingFault("spaces-eaten", "pieces of a stream have no spaces", _CHUNKS, stream=_pieces(_unspaced)),
    ServingFault("thought-lost", "every sixth piece of streamed thoughts is lost", _CHUNKS,
          stream=_pieces(_lost, thoughts=True), needed_abilities=("thinking",)),
    ServingFault("thought-doubled", "every sixth piece of streamed thoughts comes twice", _CHUNKS,
          stream=_pieces(_doubled, thoughts=True), needed_abilities=("thinking",)),
    ServingFault("thought-spaces-eaten", "streamed thoughts have no spaces", _CHUNKS,
          stream=_pieces(_unspaced, thoughts=True), needed_abilities=("thinking",)),
    ServingFault("text-after-finish", "text comes after the finish reason", _CHUNKS, stream=_late_text),
    ServingFault("never-finished", "a stream has no finish reason", _of("frames"), stream=_never_finished),
    ServingFault("letters-cut", "UTF-8 is cut inside a character between events", _of("unicode"),
                 lines=_cut_letters(False)),
    ServingFault("surrogates-cut", "half a character as \\u escape in each of two events", _of("unicode"),
          lines=_cut_letters(True)),
    ServingFault("latin-1", "UTF-8 is read as Latin-1", _of("unicode"), whole=_latin[0], stream=_latin[1]),
    ServingFault("ascii-only", "letters beyond ASCII become ?", _of("unicode"), whole=_ascii[0], stream=_ascii[1]),
    ServingFault("limit-ignored", "max_tokens is not heeded", _of("max-tokens"), request=_unlimited),
    ServingFault("stop-for-length", "finish reason stop where length is right", _of("max-tokens"), whole=_stops,
          stream=_stops_stream),
    ServingFault("counts-doubled", "twice the completion tokens", _of("usage", "max-tokens"), whole=_double[0],
          stream=_double[1]),
    ServingFault("counts-plus", "forty completion tokens more", _of("usage", "max-tokens"), whole=_plus[0],
                 stream=_plus[1]),
    ServingFault("counts-third", "a third of the completion tokens", _of("usage", "max-tokens"), whole=_third[0],
          stream=_third[1]),
    ServingFault("part-dropped", "only the first text part of a message is read", _of("parts"), request=_first_part),
    ServingFault("image-ignored", "pictures are ignored, and no page tells", _of("image"), request=_no_pictures,
          page=_no_props, needed_abilities=("blind",)),
    ServingFault("thoughts-dropped", "thoughts are counted and never sent", _of("thinking", "usage"),
                 whole=_thoughtless,
          stream=_thoughtless_stream, needed_abilities=("thinking",)),
    ServingFault("thoughts-dropped-stream", "streams have no thoughts", _of("thinking"), stream=_thoughtless_stream,
          needed_abilities=("thinking",)),
    ServingFault("thoughts-last", "thoughts come after the text", _of("thinking", "chunks"), stream=_thoughts_last,
          needed_abilities=("thinking",)),
    ServingFault("held-back", "a stream comes in one burst", _of("pace"), stream=_as_it_is),
    ServingFault("other-model", "another model answers, and says so", _of("model"), whole=_named, stream=_named_stream),
    ServingFault("other-model-fifth", "another model answers every fifth request", _of("same-model"), whole=_other[0],
          stream=_other[1], every=5),
    ServingFault("other-name-fifth", "every fifth answer bears another model's name", _of("same-model"), whole=_named,
          stream=_named_stream, every=5),
    ServingFault("slow-fifth", "every fifth request takes half a second longer", _of("even-times"), delay=0.5, every=5),
    ServingFault("slow-often", "one in four requests takes half a second longer, without a period", _of("even-times"),
          delay=0.5, share=0.25),
)  # fmt: skip

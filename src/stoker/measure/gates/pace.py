"""Does a stream come as it is written, or is it held back until it is whole?"""

from __future__ import annotations

from stoker.measure.gates.gate import About, Gate, Seen, absent, failed, passed, say
from stoker.measure.talk import Heard, Talk

FEW, MANY = 8, 128
"""Tokens of two answers to one question."""
TRIES = 9
LEAST = 0.02
"""Seconds that the longer answer has to take more: below that nobody could tell."""
HELD = 0.25
"""The share of its writing time over which an answer comes at least, unless it was held back."""


async def _pace(talk: Talk, about: About) -> Seen:
    """A short answer says how long it takes to begin. A long one that is written in `t` more arrives over `t`, unless
    its first piece waits for its last. One that does is proof enough: a busy machine makes bursts, too.
    """
    await _timed(talk, about, FEW)  # the first one may be slow
    few: list[Heard] = []
    many: list[Heard] = []
    for _ in range(TRIES):
        few.append(await _timed(talk, about, FEW))
        many.append(await _timed(talk, about, MANY))
        began = min(one.timed.ttft or 0.0 for one in few)
        written = (many[-1].timed.e2e or 0.0) - began
        if _span(many[-1]) >= HELD * written and written >= LEAST:
            return passed(f"the first piece comes after {(many[-1].timed.ttft or 0.0) * 1000:.0f} ms, the last after "
                          f"{(many[-1].timed.e2e or 0.0) * 1000:.0f} ms", seconds=round(began, 4))  # fmt: skip
    longer = min(one.timed.e2e or 0.0 for one in many) - min(one.timed.e2e or 0.0 for one in few)
    if longer < LEAST:
        return absent(f"too fast to tell: {MANY} tokens take {longer * 1000:.0f} ms longer than {FEW}")
    one = min(many, key=_span)
    rate = f"{one.timed.tokens.output or one.timed.chunks} tokens within {_span(one) * 1000:.1f} ms"
    text = f"each of {TRIES} streams begins {longer * 1000:.0f} ms later when it is long, then comes in a burst: {rate}"
    return failed("held", text, seconds=round(longer, 4))


async def _timed(talk: Talk, about: About, tokens: int) -> Heard:
    return await say(talk, about, about.wording.long, stream=True, max_tokens=tokens, is_cut=True)


def _span(heard: Heard) -> float:
    """Seconds from the first piece to the last."""
    return (heard.timed.last or 0.0) - (heard.timed.first or 0.0)


PACE = (
    Gate(
        "pace",
        "a stream comes as it is written, not in one burst at its end",
        "a buffer that holds back less than three quarters of 128 tokens; a server that writes them within 20 ms",
        _pace,
    ),
)

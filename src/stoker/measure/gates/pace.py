"""Does a stream come as it is written, or is it held back until it is whole?"""

from __future__ import annotations

from statistics import median

from stoker.measure.gates.gate import About, Gate, Seen, absent, failed, passed, say
from stoker.measure.talk import Heard, Talk

FEW, MANY = 8, 128
"""Tokens of two answers to one question."""
ROUNDS = 3
LEAST = 0.02
"""Seconds that the longer answer has to take more: below that nobody could tell."""
_ROUNDS_TO_BE_SURE = 3
_HELD = 0.5
"""Of that time, the share by which its first piece may not be later."""


async def _pace(talk: Talk, about: About) -> Seen:
    """The first piece of a long answer comes as soon as that of a short one, unless it waits for the last piece. Seen
    three times, or it is noise."""
    await _timed(talk, about, FEW)  # the first one may be slow
    for _ in range(_ROUNDS_TO_BE_SURE):
        few = [await _timed(talk, about, FEW) for _ in range(ROUNDS)]
        many = [await _timed(talk, about, MANY) for _ in range(ROUNDS)]
        longer = _ended(many) - _ended(few)
        if longer < LEAST:
            return absent(f"too fast to tell: {MANY} tokens take {longer * 1000:.0f} ms longer than {FEW}")
        later = _began(many) - _began(few)
        if later < _HELD * longer:
            return passed(f"the first piece comes after {_began(many) * 1000:.0f} ms, the last after "
                          f"{_ended(many) * 1000:.0f} ms", seconds=round(_began(many), 4))  # fmt: skip
    one = many[-1].timed
    span = (one.last or 0.0) - (one.first or 0.0)
    rate = f"{one.tokens.output or one.chunks} tokens within {span * 1000:.1f} ms"
    text = f"the first piece comes after {_began(many) * 1000:.0f} ms, as late as the answer is long; then {rate}"
    return failed("held", text, seconds=round(_began(many), 4))


async def _timed(talk: Talk, about: About, tokens: int) -> Heard:
    return await say(talk, about, about.wording.long, stream=True, max_tokens=tokens, is_cut=True)


def _began(heard: list[Heard]) -> float:
    return median(one.timed.ttft or 0.0 for one in heard)


def _ended(heard: list[Heard]) -> float:
    return median(one.timed.e2e or 0.0 for one in heard)


PACE = (
    Gate(
        "pace",
        "a stream comes as it is written, not in one burst at its end",
        "a buffer that holds back less than half of 128 tokens; a server that writes them within 20 ms",
        _pace,
    ),
)

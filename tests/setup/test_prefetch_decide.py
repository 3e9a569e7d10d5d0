"""Is it there, is there room: one answer, with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker_setup.prefetch import PrefetchAnswer, PrefetchSituation, decide, over_quota

FREE = PrefetchSituation("m", is_there=False, is_same=None, size=100, kept=0, used=0, quota=None, room=1000)


@pytest.mark.parametrize(
    ("situation", "answer", "code", "why"),
    [
        (replace(FREE, is_there=True, is_same=True, room=0), PrefetchAnswer.NOTHING, "", "is the same"),
        (replace(FREE, is_there=True, is_same=False), PrefetchAnswer.REFUSE, "name_taken", "and differs"),
        (
            replace(FREE, is_there=True, is_same=None),
            PrefetchAnswer.REFUSE,
            "name_taken",
            "`--sha256` of `stoker stage` would",
        ),
        (replace(FREE, used=50, quota=149), PrefetchAnswer.REFUSE, "over_quota", "150 bytes, 1 more"),
        (replace(FREE, used=50, quota=150), PrefetchAnswer.FETCH, "", ""),
        (replace(FREE, used=100, kept=100, quota=100), PrefetchAnswer.FETCH, "", ""),
        (replace(FREE, size=None, used=200, quota=100), PrefetchAnswer.REFUSE, "over_quota", "200 bytes, 100 more"),
        (replace(FREE, room=99), PrefetchAnswer.REFUSE, "disk_full", "may take only 99: make room for 1 more"),
        (replace(FREE, room=-5), PrefetchAnswer.REFUSE, "disk_full", "may take only 0: make room for 105 more"),
        (replace(FREE, room=60, kept=40), PrefetchAnswer.FETCH, "", ""),
        (replace(FREE, size=None), PrefetchAnswer.FETCH, "", ""),
    ],
)
def test_every_case_has_its_answer(situation: PrefetchSituation, answer: PrefetchAnswer, code: str, why: str) -> None:
    found = decide(situation)
    assert (found.answer, found.code) == (answer, code)
    assert why in found.why


def test_no_quota_is_never_over() -> None:
    assert over_quota(10**18, None) == over_quota(5, 5) == ""

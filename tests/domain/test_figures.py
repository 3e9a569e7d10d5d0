"""Numbers as people read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stoker
from stoker.domain.figures import counted
from stoker.domain.serve import Serve
from stoker.request.lease.refusals import no_place, queue_full


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 requests"), (1, "1 request"), (2, "2 requests"), (1.0, "1 request"), (1.5, "1.5 requests"),
     (1_000_000, "1000000 requests"), (None, "- requests")],
)  # fmt: skip
def test_a_count_has_its_noun_in_the_right_number(amount: float | None, text: str) -> None:
    assert counted(amount, "request") == text


def test_one_request_is_not_spoken_of_as_several() -> None:
    serve = Serve("fast", max_active=1)
    assert no_place(serve).message == "serve 'fast' already runs 1 request, its max_active"
    assert queue_full(serve, 1).message == "the queue of serve 'fast' is full: 1 request waits"
    assert queue_full(serve, 2).message == "the queue of serve 'fast' is full: 2 requests wait"


def test_nobody_writes_the_rule_anew() -> None:
    """`{n} request{'' if n == 1 else 's'}` is `counted(n, "request")`."""
    folder = Path(stoker.__file__).parents[1]
    own = re.compile(r"""\{['"]{2} if .{1,40} == 1 else ['"]s['"]\}""")
    found = [path.name for path in folder.rglob("*.py") if own.search(path.read_text()) and path.name != "figures.py"]
    assert found == []


def test_nobody_writes_sizes_anew() -> None:
    """`{n / 2**30:.1f} GiB` is `size(n)`. Limits that the program itself sets are round: they may stand as they are."""
    folder = Path(stoker.__file__).parents[1]
    own = re.compile(r"/ ?2 ?\*\* ?[234]0:|/ 1e[69]:\.\d+f\} ?[MG]i?B\b|free // 2\*\*20")
    found = [path.name for path in folder.rglob("*.py") if own.search(path.read_text())]
    assert {*found} <= {"this_machine.py"}, "there it is part of the name of a machine, by which results are compared"

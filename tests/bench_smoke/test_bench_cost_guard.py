"""The guard counts exactly, finds what grew, and names the functions."""

from __future__ import annotations

from bench.cost_guard import guard
from bench.cost_guard.__main__ import python_instructions
from bench.cost_guard.guard import Counts
from bench.cost_guard.work import KINDS


def test_the_same_work_costs_the_same_number_of_instructions() -> None:
    work = KINDS["request of 2 KB"]
    first, second = (python_instructions(work) for _ in range(2))
    assert abs(sum(first.values()) / sum(second.values()) - 1) < 0.01
    name = "domain/serve:Serve.has_replicas"  # Python in the compiled build, too
    assert first[name] == second[name] > 0


def test_a_rise_of_more_than_three_percent_names_what_grew() -> None:
    before = {"request": Counts({"a:f": 100.0, "b:g": 100.0}, 1000.0)}
    assert guard.rises(before, {"request": Counts({"a:f": 100.0, "b:g": 105.0}, 1020.0)}) == []
    (rise,) = guard.rises(before, {"request": Counts({"a:f": 100.0, "b:g": 110.0}, 1020.0)})
    assert (rise.what, rise.grown) == ("Python instructions", (("b:g", 10.0),))
    (rise,) = guard.rises(before, {"request": Counts({"a:f": 100.0, "b:g": 100.0}, 1040.0)})
    assert rise.what == "machine instructions"
    assert str(rise) == "request: machine instructions 1,000 -> 1,040 (+4.0 %)"


def test_what_is_not_kept_or_not_counted_is_no_rise() -> None:
    assert guard.rises({}, {"request": Counts({"a:f": 1.0})}) == []
    assert guard.rises({"request": Counts({"a:f": 1.0}, 5.0)}, {"request": Counts({"a:f": 1.0})}) == []

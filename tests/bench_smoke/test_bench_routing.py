"""The figures of routing are what their definitions say, told on tables small enough to reckon by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import msgspec
import pytest
from bench import machine
from bench.routing import __main__ as command
from bench.routing import answers, cloud, curve, figures, page, paired, picture, policies, report, resample
from bench.routing.asking import Cell
from bench.routing.curve import Point
from bench.routing.policies import Pair
from bench.swap import calls

from stoker.domain.dialect import Dialect
from stoker.domain.tier import ProfileRow, Verdict
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.translate import answer_reader
from stoker_lab.reports import plots
from stoker_lab.suites.grading import check_in_sandbox

TIERS = ("spark", "cloud")
SVG = "{http://www.w3.org/2000/svg}"


def cell(tier: str, passed: bool, task_class: str = "chat", found: str = "chat") -> Cell:
    return Cell("one", task_class, tier, passed, {"spark": 1.0, "cloud": 9.0}[tier], 0.1, routed_class=found)


def pair(task_class: str, spark: bool, sky: bool, routed: str, found: str = "") -> Pair:
    cells = {"spark": cell("spark", spark, task_class), "cloud": cell("cloud", sky, task_class)}
    served = cell(routed, cells[routed].passed, task_class, found or task_class)
    return Pair(task_class, cells, dict.fromkeys(figures.WAYS, served))


def row(task_class: str, passed: int, n: int, tier: str = "spark") -> ProfileRow:
    return ProfileRow(tier, task_class, "", "", n, passed, Verdict.VERIFY)


EASY = [pair("chat", True, True, "spark"), pair("chat", True, False, "spark")]
HARD = [pair("planning", False, True, "cloud"), pair("planning", False, True, "cloud")]
ROWS = [row("chat", 27, 27), row("planning", 0, 3), row("chat", 26, 27, "cloud"), row("planning", 27, 27, "cloud")]


# -- the curve -------------------------------------------------------------------------------------------------------


def test_a_random_router_recovers_half_of_the_gap_on_average() -> None:
    assert curve.apgr([Point(0.0, 0.2), Point(1.0, 0.8)], 0.2, 0.8) == pytest.approx(0.5)


def test_a_router_that_needs_no_strong_call_recovers_all() -> None:
    assert curve.apgr([Point(0.0, 0.2), Point(0.0, 0.8), Point(1.0, 0.8)], 0.2, 0.8) == pytest.approx(1.0)


def test_the_area_counts_what_lies_between_two_settings_as_their_mix() -> None:
    points = [Point(0.0, 0.0), Point(0.5, 1.0), Point(1.0, 1.0)]
    assert curve.apgr(points, 0.0, 1.0) == pytest.approx(0.75)


def test_without_a_gap_nothing_is_recovered_and_nothing_claimed() -> None:
    points = [Point(0.0, 0.9), Point(1.0, 0.9)]
    assert curve.apgr(points, 0.9, 0.9) is None
    assert curve.recovered(0.9, 0.9, 0.8) is None
    assert curve.cpt(points, 0.9, 0.9, 0.5) is None
    assert curve.recovered(0.5, 0.2, 0.8) == pytest.approx(0.5)


def test_the_threshold_of_calls_is_where_the_curve_first_recovers_so_much() -> None:
    points = [Point(0.0, 0.0), Point(0.4, 0.8), Point(1.0, 1.0)]
    assert curve.cpt(points, 0.0, 1.0, 0.5) == pytest.approx(0.25)
    assert curve.cpt(points, 0.0, 1.0, 0.9) == pytest.approx(0.7)
    assert curve.cpt(points, 0.0, 1.0, 0.0) == 0.0
    assert curve.cpt(points[:2], 0.0, 1.0, 0.9) is None


def test_a_hull_leaves_out_what_is_dearer_and_no_better_or_below_a_mix() -> None:
    best, dull, dear = Point(0, 0.9, 3.0), Point(0, 0.55, 2.0), Point(0, 0.9, 9.0)
    cheap = Point(0, 0.5, 1.0)
    assert curve.hull([dear, dull, best, cheap]) == [cheap, best]


def test_the_mean_height_of_a_hull_is_its_area_by_its_width() -> None:
    points = [Point(0, 0.0, 0.0), Point(0, 1.0, 1.0), Point(0, 0.5, 4.0)]
    assert curve.aiq(points, 0.0, 2.0) == pytest.approx((0.5 + 1.0) / 2)
    assert curve.at_cost(curve.hull(points), 0.25) == pytest.approx(0.25)


# -- policies --------------------------------------------------------------------------------------------------------


def test_the_oracle_takes_the_cheapest_that_passes_and_else_the_cheapest() -> None:
    oracle = policies.oracle(TIERS)
    chosen = [oracle(one).tier for one in [*EASY, *HARD, pair("chat", False, False, "spark")]]
    assert chosen == ["spark", "spark", "cloud", "cloud", "spark"]


def test_the_best_tier_of_a_class_is_the_cheaper_of_two_that_passed_alike() -> None:
    rows = [*ROWS, row("math-short", 9, 10), row("math-short", 90, 100, "cloud"), row("math-short", 1, 1, "ember")]
    assert policies.measured_best(rows, TIERS) == {"chat": "spark", "planning": "cloud", "math-short": "spark"}
    assert policies.hindsight_best([*EASY, *HARD], TIERS) == {"chat": "spark", "planning": "cloud"}


def test_a_threshold_sends_to_the_cloud_what_was_not_measured_so_good_by_the_class_that_was_found() -> None:
    lows = policies.bounds(ROWS[:2])
    seen = [*EASY, *HARD, pair("planning", False, True, "spark", found="chat")]
    steps = policies.thresholds(lows, ["spark"])
    chosen = [[policies.threshold(step, lows, ["spark"], "auto")(one).tier for one in seen] for step in (0.0, 0.5, 2.0)]
    assert steps == [0.0, pytest.approx(0.8754, abs=1e-4), 2.0]
    assert chosen == [["spark"] * 5, ["spark", "spark", "cloud", "cloud", "spark"], ["cloud"] * 5]


# -- intervals -------------------------------------------------------------------------------------------------------


def test_an_interval_of_a_coin_is_as_wide_as_the_normal_distribution_says() -> None:
    seen = resample.figure([[0, 1] * 200], lambda drawn: sum(drawn) / len(drawn), Random(1))
    assert seen.value == 0.5
    assert seen.low == pytest.approx(0.451, abs=0.01)
    assert seen.high == pytest.approx(0.549, abs=0.01)


def test_each_class_is_drawn_from_itself() -> None:
    groups = [[0] * 5, [1] * 7]
    assert all(sum(resample.redrawn(groups, Random(seed))) == 7 for seed in range(20))


def test_what_is_mostly_not_defined_has_no_interval() -> None:
    seen = resample.figure([[0, 1]], lambda drawn: 1.0 if sum(drawn) else None, Random(1), 200)
    assert seen == resample.Figure(1.0, None, None)


# -- the whole -------------------------------------------------------------------------------------------------------


def test_the_figures_of_four_fixtures_are_what_one_reckons() -> None:
    found = figures.routing_figures([*EASY, *HARD], ROWS, TIERS, seed=1, times=50)
    lines = {line.name: line for line in found.lines}
    right = {name: line.quality.value for name, line in lines.items()}
    assert (right["always spark"], right["always cloud"], right["oracle"]) == (0.5, 0.75, 1.0)
    routed = lines["routed: auto"]
    assert (routed.quality.value, routed.beside.value, routed.local, routed.cost) == (1.0, 0.25, 0.5, 5000.0)
    assert lines["spark or cloud by chance, at the cost of auto"].quality.value == pytest.approx(0.625)
    assert found.beside_static["auto"].value == 0.0
    [along, _] = found.curves
    assert along.points == [Point(0.0, 0.5, 1000.0), Point(0.5, 1.0, 5000.0), Point(1.0, 0.75, 9000.0)]
    assert along.apgr.value == pytest.approx((0.375 + 0.4375 - 0.5) / 0.25)
    reached = {what: is_so for what, _, _, is_so in report.reached(found)}
    assert [what for what, is_so in reached.items() if not is_so] == ["fixtures"]


def test_the_page_keeps_what_stands_around_the_marks() -> None:
    assert page.put("a\n<!-- bench.routing -->\nold\n<!-- /bench.routing -->\nb\n", "new\n") == (
        "a\n<!-- bench.routing -->\nnew\n<!-- /bench.routing -->\nb\n"
    )
    with pytest.raises(ValueError, match="marks"):
        page.put("nothing", "new")


# -- fixtures and the cloud --------------------------------------------------------------------------------------------


def saved(tmp_path: Path) -> Path:
    """The JSON of a run of four fixtures."""
    found = figures.routing_figures(EASY + HARD, ROWS, TIERS, seed=1, times=50)
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(command.Document(machine.facts(), [found])))
    return path


def drawn(path: Path) -> ElementTree.Element:
    return ElementTree.fromstring(path.read_text())


def test_the_page_and_its_picture_are_made_again_from_a_saved_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.md"
    assert command.main(["--from", str(saved(tmp_path)), "--page", str(target)]) == 1, "four fixtures are too few"
    text = target.read_text()
    assert "![Quality over cost: the curve, and where each policy lies](page.svg)" in text
    assert "always spark" in capsys.readouterr().out
    assert drawn(target.with_suffix(".svg")).tag == f"{SVG}svg"
    first = target.with_suffix(".svg").read_text()
    command.main(["--from", str(saved(tmp_path)), "--page", str(target)])
    assert (target.read_text(), target.with_suffix(".svg").read_text()) == (text, first), "twice is the same"


def test_the_picture_has_each_policy_at_its_cost_and_quality(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    command.main(["--from", str(saved(tmp_path)), "--page", str(target)])
    told = {title.text for title in drawn(target.with_suffix(".svg")).iter(f"{SVG}title")}
    assert told == {
        "always spark: 50 at 1000", "always cloud: 75 at 9000", "oracle: 100 at 5000",
        "best per class, by the suites: 100 at 5000", "routed: auto: 100 at 5000", "routed: auto:CLASS: 100 at 5000",
        "spark or cloud by chance, at the cost of auto: 62.5 at 5000",
        "spark or cloud by chance, at the cost of auto:CLASS: 62.5 at 5000",
    }  # fmt: skip


def test_dearer_is_further_right_and_better_is_higher_in_the_picture() -> None:
    marks = [plots.PlotMark("cheap", 1.0, 50.0, "square", 0), plots.PlotMark("dear", 8.0, 75.0, "square", 1)]
    text = plots.curve_plot(
        [(plots.PlotLine("", [plots.PlotPoint(1.0, 50.0), plots.PlotPoint(8.0, 75.0)]), 0)], marks, "x", "y", 40.0
    )
    (x, y), (u, v) = re.findall(r"translate\(([\d.]+) ([\d.]+)\)\" d", text)
    assert (float(x) < float(u), float(y) > float(v)) == (True, True)
    assert f'points="{x},{y} {u},{v}"' in text, "a curve and a mark of the same figures meet"
    assert [f">{label}<" in text for label in ("40", "55", "70", "85", "100")] == [True] * 5


def test_a_mix_by_chance_is_straight_over_cost_between_its_ends() -> None:
    points = picture.points_of([Point(0.0, 0.5, 1.0), Point(1.0, 0.9, 9.0)])
    assert (points[0].x, points[-1].x) == (1.0, 9.0)
    assert [point.y for point in points] == pytest.approx([50 + 5 * (point.x - 1) for point in points])


def test_round_numbers_of_an_axis_lie_between_its_ends() -> None:
    assert plots.round_numbers(0.0057, 0.61) == pytest.approx([0.01, 0.02, 0.05, 0.1, 0.2, 0.5])
    assert plots.round_numbers(1.0, 10.0) == [1.0, 2.0, 5.0, 10.0]


def test_no_fixture_of_the_paired_set_is_in_the_suites_or_there_twice() -> None:
    suites = paired.shipped()
    drawn = paired.paired(120, 3, suites)
    contents = [paired.content(one) for one in drawn]
    assert len(drawn) == len(set(contents)) == 120
    assert not set(contents) & {paired.content(one) for one in suites}
    assert len({one.id for one in drawn}) == 120


def test_the_cloud_is_wrong_on_exactly_its_share_of_each_class() -> None:
    drawn = paired.paired(120, 3, [])
    off = answers.mistaken(drawn, 0.1, 3)
    assert {name: sum(one.id in off for one in drawn if one.task_class == name) for name in
            {one.task_class for one in drawn}} == dict.fromkeys({one.task_class for one in drawn}, 2)  # fmt: skip
    assert off != answers.mistaken(drawn, 0.1, 4)


def test_right_answers_pass_and_wrong_ones_fail_by_the_same_checkers() -> None:
    drawn = paired.paired(240, 5, [])
    assert all(check_in_sandbox(one.check, answers.right(one)).passed for one in drawn)
    assert not any(check_in_sandbox(one.check, answers.wrong(one)).passed for one in drawn)


def test_the_cloud_answers_what_is_in_its_book_and_refuses_the_rest() -> None:
    drawn = paired.paired(12, 5, [])
    off = {drawn[0].id}
    with cloud.Cloud(cloud.book(drawn, off)) as sky:
        heard = [calls.post(sky.port, "/v1/chat/completions", one.request) for one in drawn]
        strange, _ = calls.post(sky.port, "/v1/chat/completions", {"messages": []})
    given = [answer_reader(Dialect.CHAT, Losses()).read_whole(json.loads(body)) for _, body in heard]
    right = [check_in_sandbox(one.check, answer).passed for one, answer in zip(drawn, given, strict=True)]
    assert [status for status, _ in heard] == [200] * 12
    assert right == [False, *[True] * 11]
    assert strange == 400


def test_a_saved_run_keeps_its_field_names(tmp_path: Path) -> None:
    document = json.loads(saved(tmp_path).read_bytes())
    [found] = document["found"]
    assert {"found", "seen"} <= document.keys()
    assert "found" in found["kinds"][0]
    assert {"told", "found"} <= msgspec.to_builtins(cell("spark", True)).keys()

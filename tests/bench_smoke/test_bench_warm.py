"""The bench of the warm pool: its figures are what their definitions say, and it runs."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from bench import weights
from bench.warm import __main__ as bench
from bench.warm import report
from bench.warm.rounds import COLD, WARM, Round, Start
from bench.warm.speeds import Speeds

from stoker.fleet.warm import pages

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9
SPEEDS = Speeds(copy=12e9, disk=1e9, cache=8e9)


def _start(temperature: str, switch: float, first: float = 0.1) -> Start:
    resident = 1.0 if temperature == WARM else 0.0
    return Start(temperature, resident, {"drain": 0.0, "start": switch}, switch, first, preload=2.0, locked=0)


def _round(cold: float, warm: float, floor: float = 0.1) -> Round:
    return Round(_start(COLD, cold), _start(WARM, warm), 0.05, floor)


def test_the_load_is_the_switch_without_what_every_start_takes() -> None:
    found = report.load([_round(2.1, 0.6), _round(3.2, 0.7, floor=0.2)], lambda one: one.cold)
    assert found is not None
    assert found == pytest.approx((2.5, 2.0, 3.0))


@pytest.mark.parametrize(
    ("cold", "warm", "speeds", "is_reached", "said"),
    [
        (2.1, 0.6, SPEEDS, True, "the load itself 4.0 times"),
        (0.3, 0.2, SPEEDS, True, "at the limit of memory, 83%"),
        (2.1, 1.1, Speeds(12e9, 4e9, 8e9), False, "this disk reads at 50% of the page cache's rate"),
        (2.1, 1.1, SPEEDS, False, "1.00 GB/s warm, far below the limit of memory"),
        (0.3, 0.1, SPEEDS, False, "too short to be told"),
    ],
    ids=["faster", "limit-of-memory", "fast-disk", "missed", "too-short"],
)
def test_the_verdict_says_what_holds_a_warm_load_up(
    cold: float, warm: float, speeds: Speeds, is_reached: bool, said: str
) -> None:
    found = report.verdict([_round(cold, warm)], GB, speeds)
    assert found.is_reached is is_reached
    assert said in found.sentence


def test_the_table_has_the_phases_that_were_told() -> None:
    lines = report.render([_round(2.1, 0.6)], GB, SPEEDS).splitlines()
    heads = ["drain s", "start s", "first token s", "together s"]
    assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == ["", *heads]
    assert lines[2].split()[1::2] == ["cold", "0.000", "2.100", "0.100", "2.200"]
    assert lines[4].split()[1::2] == ["hot", "-", "-", "0.050", "0.050"]


@pytest.mark.parametrize(("text", "size"), [("256MiB", 2**28), ("2GiB", 2**31)])
def test_sizes_are_binary(text: str, size: int) -> None:
    assert bench.size_of(text) == size


@pytest.mark.parametrize("text", ["2GB", "2", "1MiB", "-2GiB"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        bench.size_of(text)


@pytest.mark.skipif(find_spec("gguf") is None, reason="`gguf`, which writes the weights, is not installed")
def test_the_weights_have_the_size_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    weights.write_large(path, 2**26)
    assert 2**26 <= path.stat().st_size < 1.1 * 2**26


@pytest.mark.heavy
@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_a_quick_run_goes_through_cold_warm_and_hot_and_leaves_nothing(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.write_bytes(bytes(4096))
    pages.evict(str(probe))
    if pages.cached_share(str(probe)) != 0.0:
        pytest.skip("the temporary directory's file system does not evict pages (tmpfs), or does not tell")
    probe.unlink()
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "bench.warm", "--quick", "--folder", str(tmp_path), "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    [one] = msgspec.json.decode(out.read_bytes())["rounds"]
    assert one["cold"]["resident"] <= 0.05
    assert one["warm"]["resident"] >= 0.95
    assert min(one["cold"]["switch"], one["warm"]["switch"], one["hot"]) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]

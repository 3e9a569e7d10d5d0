"""Rules and verdicts: what suits which device, what fits, what is refused, and what else would fit."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.fleet.memory.model_files import QWEN, hub, llama

from stoker.domain.errors import UnreadableModel
from stoker.domain.serve import Serve, Slot, Tuning
from stoker.fleet.memory.devices import Device
from stoker.fleet.memory.fit import check, rules
from stoker.fleet.memory.fit.estimate import GIB, FitAnswer, judge
from stoker.fleet.memory.fit.rules import RemarkKind, RuleSubject, holds, remarks, suits
from stoker.fleet.memory.host import HostMemory

MAIN = HostMemory(64 * GIB, 32 * GIB)


def gpu(total: int | None = 24, free: int | None = None, arch: str = "8.9", vendor: str = "nvidia") -> Device:
    whole = total * GIB if total is not None else None
    return Device(0, "GPU-a", "L4", vendor, whole, free * GIB if free is not None else whole, arch)


def kinds(precision: str, arch: str | None = None, vendor: str = "nvidia", moe: bool = False) -> dict[str, RemarkKind]:
    return {r.rule: r.kind for r in remarks(RuleSubject(vendor, arch, precision, moe, "vllm"))}


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (kinds("nvfp4", "12.0"), RemarkKind.GOOD),
        (kinds("nvfp4", "10.0", moe=True), None),
        (kinds("nvfp4", "12.0", moe=True), RemarkKind.POOR),
        (kinds("awq", "12.0", moe=True), RemarkKind.GOOD),
        (kinds("fp8", "8.9"), RemarkKind.GOOD),
        (kinds("awq", "8.9"), RemarkKind.GOOD),
        (kinds("nvfp4", "8.9"), RemarkKind.POOR),
        (kinds("fp8", "8.6"), RemarkKind.POOR),
        (kinds("fp8", "7.0"), RemarkKind.UNSUPPORTED),
        (kinds("autoround", vendor="intel"), RemarkKind.GOOD),
        (kinds("fp8-block", vendor="intel"), RemarkKind.UNSUPPORTED),
        (kinds("nvfp4", "gfx942", vendor="amd"), RemarkKind.UNSUPPORTED),
        (kinds("awq", "gfx1100", vendor="amd"), RemarkKind.POOR),
        (kinds("fp8", None), None),
        (kinds("16-bit", "8.9"), None),
    ],
)
def test_what_suits_which_gpu(kind: dict[str, RemarkKind], told: RemarkKind | None) -> None:
    assert list(kind.values()) == ([told] if told else [])


def test_every_rule_has_a_date_a_source_and_known_conditions() -> None:
    about = RuleSubject("nvidia", "8.9", "fp8", False, "vllm")
    for rule in rules.table()["rule"]:
        assert isinstance(rule["date"], datetime.date), rule["id"]
        assert rule["source"].startswith("https://"), rule["id"]
        assert RemarkKind(rule["kind"])
        assert {"vendor", "precision"} <= set(rule["when"]) or "kv_offload" in rule["when"], rule["id"]
        holds(rule["when"], about)
    names = [rule["id"] for rule in rules.table()["rule"]]
    assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match="no such condition: colour"):
        holds({"colour": "red"}, about)
    with pytest.raises(ValueError, match="not a compute capability"):
        holds({"arch_from": "new"}, about)


def test_what_to_look_for_depends_on_the_generation() -> None:
    def advice(vendor: str, arch: str | None, moe: bool = False, engine: str = "vllm") -> str | None:
        return suits(RuleSubject(vendor, arch, "16-bit", moe, engine))

    assert advice("nvidia", "12.0") == "NVFP4, or FP8"
    assert advice("nvidia", "12.0", moe=True) == "AWQ (Marlin)"
    assert advice("nvidia", "8.9") == "FP8 or AWQ"
    assert advice("intel", None) == "INT4 AutoRound"
    assert "Q4_K_M" in str(advice("nvidia", "8.9", engine="llama.cpp"))
    assert advice("nvidia", None) is None


@pytest.mark.parametrize(
    ("need", "total", "answer", "short"),
    [(90, 100, FitAnswer.FITS, 0), (91, 100, FitAnswer.TIGHT, 0), (95, 100, FitAnswer.TIGHT, 0),
     (96, 100, FitAnswer.TOO_LARGE, 1),
     (5, None, FitAnswer.UNKNOWN, 0)],
)  # fmt: skip
def test_up_to_90_percent_fits_up_to_95_is_tight_above_is_too_large(
    need: int, total: int | None, answer: FitAnswer, short: int
) -> None:
    verdict = judge(need, total)
    assert (verdict.answer, verdict.short) == (answer, short)


def test_an_explicit_share_is_the_ceiling() -> None:
    assert judge(97, 100, 0.98).answer is FitAnswer.TIGHT
    assert judge(60, 100, 0.5).short == 10
    assert judge(20, 100, most=10).answer is FitAnswer.TOO_LARGE


def test_a_serve_that_fits_says_how_much_more_would(tmp_path: Path) -> None:
    serve = Serve("a", model=str(llama(tmp_path / "m.gguf")), context=8192, parallel=1)
    report = check.check_fit(serve, [gpu()], MAIN)
    assert (report.fit.answer, report.problems, report.smaller) == (FitAnswer.FITS, (), None)
    assert [row.place for row in report.rows] == ["nvidia 0: L4", "main memory"]
    assert report.needed == report.rows[0].need.total
    assert report.context == 131072
    assert report.parallel is not None
    assert report.parallel > 10


def test_too_large_by_how_much_and_what_would_fit_instead(tmp_path: Path) -> None:
    path = str(llama(tmp_path / "m.gguf"))
    report = check.check_fit(Serve("a", model=path, context=65536, parallel=1), [gpu(12)], MAIN)
    assert report.fit.answer is FitAnswer.TOO_LARGE
    assert report.problems[0].startswith("serve 'a' is too large by 1.0 GiB for nvidia 0")
    assert report.context is not None
    assert 30_000 < report.context < 65536
    small = check.check_fit(Serve("a", model=path, context=2048, parallel=1), [gpu(4)], MAIN)
    assert (small.context, small.smaller) == (None, "Q2_K of this model would fit")
    hopeless = check.check_fit(Serve("a", model=path, context=2048, parallel=1), [gpu(0)], MAIN)
    assert hopeless.smaller is None


def test_a_share_above_what_is_free_is_refused_with_one_that_is_not(tmp_path: Path) -> None:
    folder = str(hub(tmp_path / "m", QWEN))
    serve = Serve("a", "vllm", folder, tuning=Tuning(memory_fraction=0.9))
    assert check.check_fit(serve, [gpu(24)], MAIN).problems == ()
    [problem] = check.check_fit(serve, [gpu(24, free=12)], MAIN).problems
    assert problem == (
        "`memory_fraction = 0.9` asks for 21.6 GiB of L4 and 12.0 GiB are free: set it to 0.50 or less, or "
        "free the rest"
    )
    credit = check.credited([gpu(24, free=12)], {5: {"GPU-a": 11 * GIB}, 6: {"GPU-a": 1}}, {5})
    assert check.check_fit(serve, credit, MAIN).problems == (), "a resident's own memory is credit"


def test_a_quantisation_that_the_device_cannot_run_is_refused_with_date_and_source(tmp_path: Path) -> None:
    folder = str(
        hub(tmp_path / "m", QWEN | {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})
    )
    [problem] = check.check_fit(Serve("a", "vllm", folder), [gpu(arch="gfx942", vendor="amd")], MAIN).problems
    assert "NVFP4 is NVIDIA's format" in problem
    assert "https://" in problem
    poor = check.check_fit(Serve("a", "vllm", folder), [gpu()], MAIN)
    assert (poor.problems, [r.kind for r in poor.remarks]) == ((), [RemarkKind.POOR])


def test_more_devices_than_the_slot_has_are_refused(tmp_path: Path) -> None:
    serve = Serve("a", "vllm", str(hub(tmp_path / "m", QWEN)), tuning=Tuning(tensor_parallel=2))
    assert check.check_fit(serve, [gpu()], MAIN).problems == ("serve 'a' asks for 2 devices, but its slot has 1",)


def test_a_device_of_unknown_size_makes_the_verdict_unknown(tmp_path: Path) -> None:
    report = check.check_fit(Serve("a", model=str(llama(tmp_path / "m.gguf"))), [gpu(None)], MAIN)
    assert (report.fit.answer, report.context, report.parallel) == (FitAnswer.UNKNOWN, None, None)


def test_llama_cpp_deals_the_trained_context_out_where_none_is_set(tmp_path: Path) -> None:
    report = check.check_fit(Serve("a", model=str(llama(tmp_path / "m.gguf")), parallel=4), [], MAIN)
    assert report.estimate.context == 131072 // 4
    assert [row.place for row in report.rows] == ["main memory"]


def test_the_embedded_engine_computes_in_main_memory_and_a_server_on_its_slots_devices(tmp_path: Path) -> None:
    other = Device(1, "GPU-b", "L4", "nvidia")
    both, slot = [gpu(), other], Slot("g", devices=("1",))
    server = tmp_path / "llama-server"
    server.touch(mode=0o755)
    found = {"PATH": str(tmp_path)}
    for serve, expected in (
        (Serve("a", embedded=True), []),
        (Serve("a", env={"PATH": "/nowhere"}), []),
        (Serve("a", env=found), [other]),
        (Serve("a", env=found, gpu_layers=0), []),
        (Serve("a", embedded=True, gpu_layers=9), [other]),
        (Serve("a", "vllm"), [other]),
    ):
        assert check.devices_for(serve, slot, both) == expected, serve
    assert check.devices_for(Serve("a", "vllm"), None, both) == both


def test_a_path_that_leads_nowhere_is_a_sentence() -> None:
    with pytest.raises(UnreadableModel, match="/no/model does not exist"):
        check.read("/no/model")

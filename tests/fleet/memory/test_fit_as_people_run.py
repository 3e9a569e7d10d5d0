"""What people run beside plain weights is counted where it lies; what does not fit gets a setting that does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fleet.memory.headers import write
from tests.fleet.memory.model_files import QWEN, hub, llama

from stoker.domain.serve import AUTO_LAYERS, Serve, Tuning
from stoker.fleet.memory.devices import Device
from stoker.fleet.memory.fit import check, gguf
from stoker.fleet.memory.fit.check import check_fit, with_choices
from stoker.fleet.memory.fit.estimate import FitAnswer, FitPlan, estimate, fewest_cpu_moe
from stoker.fleet.memory.host import HostMemory

MIB, GIB = 2**20, 2**30
MAIN = HostMemory(64 * GIB, 60 * GIB)


def card(size: int, index: int = 0, vendor: str = "nvidia") -> Device:
    return Device(index, f"GPU-{index}", f"{size // GIB} GB", vendor, size, size, "8.9", "570.1")


@pytest.fixture(scope="module")
def moe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """qwen3moe 30B: 16 GiB of weights, 15 of them experts."""
    return write(tmp_path_factory.mktemp("moe") / "moe.gguf", "qwen3moe 30B")


def serve(model: Path, **tuning: object) -> Serve:
    return Serve("m", model=str(model), context=8192, parallel=1, embedded=False, tuning=Tuning(**tuning))  # type: ignore[arg-type]


def test_experts_in_main_memory_leave_the_device_to_the_rest(moe: Path) -> None:
    shape = gguf.read(str(moe))
    experts = [layer.experts for layer in shape.layers]
    assert sum(experts) == pytest.approx(15.2 * GIB, rel=0.02)
    whole = estimate(shape, FitPlan(context=8192, devices=1))
    some = estimate(shape, FitPlan(context=8192, devices=1, cpu_moe=10))
    assert whole.device is not None
    assert some.device is not None
    assert whole.device.weights - some.device.weights == some.host.weights - whole.host.weights == sum(experts[:10])
    assert whole.device.cache == some.device.cache, "attention stays where it is"
    report = check_fit(serve(moe, cpu_moe=True), [card(4 * GIB)], MAIN)
    assert (report.fit.answer, report.plan.cpu_moe) == (FitAnswer.FITS, 48)


def test_auto_takes_as_few_layers_as_the_device_requires(moe: Path) -> None:
    shape, plan = gguf.read(str(moe)), FitPlan(context=8192, devices=1)
    for room in (6 * GIB, 12 * GIB, 15 * GIB):
        fewest = fewest_cpu_moe(shape, plan, room)
        assert fewest is not None
        fits, next_one = (estimate(shape, replace(plan, cpu_moe=n)).device for n in (fewest, fewest - 1))
        assert fits is not None
        assert next_one is not None
        assert fits.total <= room < next_one.total
    assert fewest_cpu_moe(shape, plan, 40 * GIB) == 0
    assert fewest_cpu_moe(shape, plan, GIB) is None, "attention and cache alone are more"
    assert fewest_cpu_moe(shape, plan, 6 * GIB, 4 * GIB) is None, "main memory has no room for the experts"


def test_what_is_started_has_numbers_for_auto_and_the_same_ones_each_time(moe: Path) -> None:
    auto = serve(moe, n_cpu_moe=AUTO_LAYERS, speculative="auto")
    free, used = card(12 * GIB), replace(card(12 * GIB), free=GIB)
    started = with_choices(auto, None, [free], MAIN)
    assert started == with_choices(auto, None, [used], MAIN)
    assert 0 < (started.tuning.n_cpu_moe or 0) < 48
    assert check_fit(started, [free], MAIN).fit.answer is not FitAnswer.TOO_LARGE
    assert check_fit(auto, [free], MAIN).plan.cpu_moe == started.tuning.n_cpu_moe, "`fit` counts what is started"
    assert started.tuning.speculative is None, "it predicts nothing itself"
    assert with_choices(auto, None, [card(80 * GIB)], MAIN).tuning.n_cpu_moe == 0
    both = with_choices(replace(auto, context=None, auto_context=True), None, [free], MAIN)
    assert both.context is not None
    assert both.context >= 32768, "room is made for a context that one can work with"


def test_layers_that_predict_are_counted_only_if_they_are_used(tmp_path: Path) -> None:
    model = write(tmp_path / "m.gguf", "glm4moe 4.5-Air")
    shape = gguf.read(str(model))
    assert (len(shape.layers), len(shape.predictors)) == (46, 1)
    plain, ahead = (estimate(shape, FitPlan(context=8192, predicts=on)).host for on in (False, True))
    assert ahead.weights - plain.weights == shape.predictors[0].weights
    assert (ahead.cache - plain.cache) * 46 == plain.cache
    report = check_fit(serve(model, speculative="auto", n_cpu_moe=46), [card(24 * GIB)], MAIN)
    assert dict(report.beside) == {"layers that predict further tokens": shape.predictors[0].weights}
    assert with_choices(serve(model, speculative="auto"), None, [], MAIN).tuning.speculative == "mtp"


def test_a_draft_model_a_projector_and_adapters_are_where_the_model_is(tmp_path: Path) -> None:
    model, draft = llama(tmp_path / "m.gguf"), llama(tmp_path / "draft.gguf", layers=4, **{"llama.block_count": 4})
    (tmp_path / "mmproj.gguf").write_bytes(b"0" * 3 * MIB)
    (tmp_path / "one.gguf").write_bytes(b"0" * MIB)
    plain = check_fit(serve(model), [card(24 * GIB)], MAIN)
    adapters = (str(tmp_path / "one.gguf"), str(tmp_path / "one.gguf"))
    more = serve(model, speculative=str(draft), mmproj=str(tmp_path / "mmproj.gguf"), adapters=adapters)
    report = check_fit(more, [card(24 * GIB)], MAIN)
    shape = gguf.read(str(draft))
    assert report.rows[0].need.weights - plain.rows[0].need.weights == shape.weights + 5 * MIB
    assert report.rows[0].need.cache * 32 == plain.rows[0].need.cache * 36, "a draft model has a cache as long"
    assert [name for name, _ in report.beside] == ["draft model", "projector", "adapters"]


def test_main_memory_for_caches_counts_there(tmp_path: Path) -> None:
    model = llama(tmp_path / "m.gguf")
    report = check_fit(serve(model, kv_offload=50 * GIB), [card(24 * GIB)], MAIN)
    assert report.rows[-1].need.cache == 50 * GIB
    assert check_fit(serve(model, kv_offload=61 * GIB), [card(24 * GIB)], MAIN).fit.answer is FitAnswer.TOO_LARGE


@pytest.mark.parametrize(
    ("engine", "config", "says"),
    [
        ("sglang", {"layer_types": ["linear_attention", "full_attention"] * 2}, "hybrid models need pages of one"),
        ("vllm", {"kv_lora_rank": 512}, "latent attention"),
    ],
)
def test_caches_that_an_engine_cannot_move_are_refused(
    engine: str, config: dict[str, object], says: str, tmp_path: Path
) -> None:
    model = hub(tmp_path / "model", QWEN | config)
    asked = Serve("m", engine=engine, model=str(model), context=1024, tuning=Tuning(kv_offload=GIB))
    assert any(says in problem for problem in check_fit(asked, [card(24 * GIB)], MAIN).problems)
    plain = replace(asked, tuning=Tuning())
    assert not check_fit(plain, [card(24 * GIB)], MAIN).problems


def test_what_does_not_fit_gets_settings_with_which_each_by_itself_does(moe: Path) -> None:
    asked = serve(moe)
    report = check_fit(asked, [card(12 * GIB)], MAIN)
    assert report.fit.answer is FitAnswer.TOO_LARGE
    settings = {proposal.setting.partition(" = ")[0]: proposal for proposal in report.proposals}
    assert list(settings) == ["n_cpu_moe", "gpu_layers"], "a shorter context would not be enough"
    assert "read from main memory: a token takes about" in settings["n_cpu_moe"].costs
    for key, proposal in settings.items():
        number = int(proposal.setting.rpartition(" ")[2])
        changed = replace(asked, gpu_layers=number) if key == "gpu_layers" else serve(moe, n_cpu_moe=number)
        assert check_fit(changed, [card(12 * GIB)], MAIN).fit.answer is not FitAnswer.TOO_LARGE
    long = check_fit(replace(asked, context=40960, parallel=2), [card(24 * GIB)], MAIN)
    assert [one.setting.partition(" = ")[0] for one in long.proposals][:3] == ["context", "parallel", "kv_cache_type"]


def test_two_unequal_cards_get_what_each_has_room_for(tmp_path: Path) -> None:
    model = write(tmp_path / "m.gguf", "mistral small 24B")
    report = check_fit(serve(model), [card(24 * GIB), card(8 * GIB, 1)], MAIN)
    large, small = report.rows[0].need, report.rows[1].need
    assert large.total + small.total > 13 * GIB
    assert large.weights > 2.5 * small.weights
    assert report.fit.answer is FitAnswer.FITS
    assert check_fit(serve(model), [card(8 * GIB), card(8 * GIB, 1)], MAIN).fit.answer is not FitAnswer.UNKNOWN
    choice = check.choose_context(replace(serve(model), context=None, auto_context=True), None,
                                  [card(24 * GIB), card(8 * GIB, 1)], MAIN)  # fmt: skip
    assert choice.context is not None
    assert choice.context > 40_000

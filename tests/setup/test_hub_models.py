"""How a model of a repository would run here, and which file is recommended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stoker.domain.serve import Serve, Tuning
from stoker.fleet.memory.devices import Device
from stoker.fleet.memory.fit.check import check_fit
from stoker.fleet.memory.fit.estimate import FitAnswer, Layer, Shape
from stoker.fleet.memory.host import HostMemory
from stoker_setup.hub import HubFile, HubRepository
from stoker_setup.hub_models import Choice, Verdict, best, choices, judged, left_out, why_best

GIB = 2**30
BITS = {
    "F16": 16.0, "Q8_0": 8.5, "Q6_K": 6.6, "Q4_K_M": 4.9, "Q3_K_M": 3.9, "Q2_K": 3.2, "IQ1_S": 1.8,
}  # fmt: skip
PARAMETERS = 8 * GIB
FITS, EXPERTS, LAYERS = Verdict.FITS, Verdict.EXPERTS, Verdict.LAYERS


def choice(precision: str, context: int | None, verdict: Verdict = FITS, speed: float | None = None) -> Choice:
    size = int(PARAMETERS * BITS[precision] / 8)
    return Choice(
        f"m-{precision}.gguf", size, precision, verdict, context, speed=speed, parameters=PARAMETERS, trained=131_072
    )


@pytest.mark.parametrize(
    ("found", "chosen", "why"),
    [
        pytest.param(
            [choice("Q4_K_M", 131_072), choice("Q6_K", 35_840), choice("Q8_0", 6_400)],
            "Q6_K", "the largest that fits with 32,768 tokens of context", id="context before bits",
        ),
        pytest.param(
            [choice("Q2_K", 36_608), choice("Q3_K_M", 30_000), choice("Q4_K_M", 18_432), choice("Q6_K", 9_000)],
            "Q4_K_M", "the only one that fits with 16,384 tokens of context", id="no ruined weights for more context",
        ),
        pytest.param(
            [choice("IQ1_S", 33_000), choice("Q2_K", 20_000)],
            "IQ1_S", "though with less than 4 bits a weight answers get worse", id="nothing sound fits",
        ),
        pytest.param(
            [choice("Q4_K_M", 131_072), choice("Q8_0", 65_536), choice("F16", 40_000)],
            "Q8_0", "the largest that fits; more bits cost speed", id="16 bits add nothing",
        ),
        pytest.param([choice("F16", 40_000)], "F16", "the only one that fits", id="nothing else is there"),
        pytest.param(
            [replace(choice("Q4_K_M", 2048), trained=2048), replace(choice("Q8_0", 2048), trained=2048)],
            "Q8_0", "the largest that fits", id="a model with a short context",
        ),
        pytest.param(
            [choice("Q4_K_M", 5_000), choice("Q8_0", 60_000, EXPERTS)],
            "Q8_0", "the only one that fits with experts in main memory", id="experts rather than no context",
        ),
        pytest.param(
            [choice("Q2_K", 40_000), choice("Q4_K_M", 40_000, EXPERTS)],
            "Q4_K_M", "with experts in main memory", id="experts rather than ruined weights",
        ),
        pytest.param(
            [choice("Q2_K", 5_000), choice("Q6_K", 40_000, LAYERS, 2.0)],
            "Q2_K", "that fits", id="layers in main memory are slow",
        ),
        pytest.param(
            [choice("Q2_K", 4096, LAYERS, 9.0), choice("Q4_K_M", 4096, LAYERS, 6.0), choice("F16", 4096, LAYERS, 1.0)],
            "Q4_K_M", "the fastest that fits with layers in main memory", id="of layers in main memory the fastest",
        ),
    ],
)  # fmt: skip
def test_the_largest_sound_file_with_the_most_useful_context_is_recommended(
    found: list[Choice], chosen: str, why: str
) -> None:
    recommended = best(found)
    assert recommended is not None
    assert recommended.precision == chosen
    assert why in why_best(recommended, found)


def test_where_nothing_fits_nothing_is_recommended() -> None:
    assert best([]) is None
    assert best([choice("Q8_0", None, Verdict.TOO_LARGE)]) is None


# -- judging -----------------------------------------------------------------------------------------------------------

MAIN = HostMemory(total=256 * GIB, available=240 * GIB)


def device(index: int, gib: float, vendor: str = "nvidia", name: str = "", bandwidth: int = 448 * 10**9) -> Device:
    size = int(gib * GIB)
    return Device(index, f"u{vendor}{index}", name or f"{vendor} {gib}", vendor, size, size, "8.9", bandwidth=bandwidth)


def dense(size: float, format: str = "gguf") -> Shape:
    weights = int(size * GIB)
    layers = tuple(Layer(int(weights * 0.95) // 40, 8, 256) for _ in range(40))
    return Shape(
        "m", "qwen3", format, "BF16", weights, layers, parameters=weights // 2, embedding=weights // 40,
        context=32_768, vocabulary=150_000, width=5120, step=5 * 5120 + 3 * 17_408,
    )  # fmt: skip


def experts(size: float) -> Shape:
    """Of 128 experts a token uses 8."""
    weights = int(size * GIB)
    layers = tuple(Layer(int(weights * 0.97) // 48, 4, 256, experts=int(weights * 0.92) // 48) for _ in range(48))
    in_experts = sum(layer.experts for layer in layers)
    return Shape(
        "m", "qwen3moe", "gguf", "Q4_K", weights, layers, parameters=2 * weights, embedding=weights // 60,
        context=40_960, vocabulary=151_936, width=2048, experts=128, active=weights - in_experts * 120 // 128,
        step=5 * 2048 + 8 * (3 * 768 + 2048),
    )  # fmt: skip


def judge(shape: Shape, devices: Sequence[Device], context: int | None = None) -> Choice:
    return judged(shape, "m", devices, MAIN, context, 1, None, 60e9)


def test_the_setting_is_what_was_judged() -> None:
    shape, small = experts(140), device(0, 6)
    found = judge(shape, [small])
    assert found.verdict is LAYERS
    values = {name: int(value) for name, _, value in (line.partition(" = ") for line in found.setting.splitlines())}
    assert values.keys() == {"n_cpu_moe", "gpu_layers"}
    serve = Serve(
        "m", engine="llama.cpp", model="/m", parallel=1, context=found.context, embedded=False,
        gpu_layers=values["gpu_layers"], tuning=Tuning(n_cpu_moe=values["n_cpu_moe"]),
    )  # fmt: skip
    assert check_fit(serve, [small], MAIN, shape).fit.answer is not FitAnswer.TOO_LARGE


def test_the_speed_counts_experts_apart_from_the_rest() -> None:
    """A token reads 8 of 128 experts wherever they are, and all of everything else, which is on the device."""
    shape, card = experts(17.3), device(0, 8)
    found = judge(shape, [card])
    below = int(found.setting.removeprefix("n_cpu_moe = "))
    serve = Serve("m", engine="llama.cpp", model="/m", parallel=1, context=found.context, embedded=False,
                  tuning=Tuning(n_cpu_moe=below))  # fmt: skip
    need = check_fit(serve, [card], MAIN, shape).estimate.device
    assert need is not None
    in_host = sum(layer.experts for layer in shape.layers[:below])
    on_device = sum(layer.experts for layer in shape.layers[below:])
    seconds = in_host / 16 / 60e9 + (need.weights - on_device * 15 / 16 + need.cache / 2) / 448e9
    assert found.speed == pytest.approx(0.6 / seconds, rel=0.01)


def test_safetensors_take_the_largest_device_or_as_many_alike_as_needed() -> None:
    one = judge(dense(16, "safetensors"), [device(0, 12), device(1, 24)])
    assert (one.verdict, one.setting, one.devices) == (FITS, "", ("nvidia:1",))
    two = judge(dense(27, "safetensors"), [device(0, 24), device(1, 24), device(2, 8)])
    assert (two.verdict, two.setting, two.devices) == (FITS, "tensor_parallel = 2", ("nvidia:0", "nvidia:1"))
    alone = judge(dense(10, "safetensors"), [device(0, 48)])
    assert two.speed is not None
    assert alone.speed is not None
    assert two.speed > alone.speed * 10 / 27, "both read at once"
    assert judge(dense(40, "safetensors"), [device(0, 24), device(1, 30)]).verdict is Verdict.TOO_LARGE


def test_devices_of_two_vendors_are_not_one_pool() -> None:
    found = judge(dense(34), [device(0, 24), device(0, 16, "intel")])
    assert (found.verdict, found.devices) == (LAYERS, ("nvidia:0",))
    roomier = judge(dense(12), [device(0, 8), device(0, 16, "intel")])
    assert (roomier.verdict, roomier.devices) == (FITS, ("intel:0",))


# -- what a repository has ---------------------------------------------------------------------------------------------


def repository(monkeypatch: pytest.MonkeyPatch, *paths: str) -> HubRepository:
    def header(hub: object, repository: object, files: dict[str, HubFile], path: str) -> Shape:
        return replace(dense(1), weights=files[path].size, name=path)

    monkeypatch.setattr("stoker_setup.hub_models._gguf_shape", header)
    return HubRepository("o/r", "0" * 40, tuple(HubFile(path, number * GIB) for number, path in enumerate(paths, 1)))


def listed(repository: HubRepository, under: str = "") -> tuple[list[Choice], list[str]]:
    """Its models, and the files whose headers were read."""
    asked: list[str] = []

    def fits(shape: Shape, path: str) -> Choice:
        return Choice(path, shape.weights, "", FITS, 4096)

    found = choices(None, repository, under, fits, lambda path, number, count: asked.append(path))  # type: ignore[arg-type]
    return found, asked


def test_quantisations_share_a_header_and_models_in_different_folders_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    two = repository(monkeypatch, "7B/ggml-model-Q4_K_M.gguf", "70B/ggml-model-Q4_K_M.gguf")
    assert len(listed(two)[1]) == 2
    one = repository(monkeypatch, "gguf/Q4_K_M/m-Q4_K_M.gguf", "gguf/BF16/m-BF16.gguf", "gguf/m.Q8_0.gguf")
    assert len(listed(one)[1]) == 1


def test_models_beyond_the_limit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    many = repository(monkeypatch, *(f"model{number:02}-Q4_K_M.gguf" for number in range(12)))
    assert len(listed(many)[0]) == 8
    assert left_out(many, "") == [f"model{number:02}-Q4_K_M.gguf" for number in range(8, 12)]
    assert left_out(many, "model09") == []


def test_a_split_file_with_a_part_missing_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    split = repository(
        monkeypatch, "a-Q4_K_M.gguf", "a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00003-of-00003.gguf",
        "b-Q8_0-00001-of-00002.gguf",
    )  # fmt: skip
    found = {one.file: one for one in listed(split)[0]}
    assert found["a-Q4_K_M.gguf"].verdict is FITS
    incomplete = found["a-Q8_0-00001-of-00003.gguf"]
    assert (incomplete.verdict, "part 2 is missing" in incomplete.problem) == (Verdict.UNKNOWN, True)
    assert found["b-Q8_0-00001-of-00002.gguf"].verdict is Verdict.UNKNOWN

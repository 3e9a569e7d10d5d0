"""What is shown of an engine's end is short, harmless and of use."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.engines.last_output import LENGTH, LastOutput, last_output
from stoker.engines.record import FailureKind


def said(directory: Path, text: str, start: int = 0, secrets: tuple[str, ...] = ()) -> LastOutput:
    (directory / "log").write_text(text)
    return last_output(directory / "log", start, secrets)


def test_escapes_control_characters_noise_and_repeats_are_left_out(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "x.py", line 3\n   ^^^^\n'
    assert said(tmp_path, f"\x1b[31mred\x1b[0m\n----\n{trace}red\nbell\x07\n\n")[0] == "red | bell"


def test_only_this_starts_words_count(tmp_path: Path) -> None:
    assert said(tmp_path, "old\nnew\n", start=4)[0] == "new"
    assert said(tmp_path, "after rotation\n", start=10_000)[0] == "after rotation"
    assert last_output(tmp_path / "nothing", 0) == LastOutput("", "")


def test_long_lines_are_cut_from_the_front(tmp_path: Path) -> None:
    text = said(tmp_path, "first\n" + "x" * 700 + "\n" + "y" * 2000 + "the end\n").text
    assert len(text) == LENGTH
    assert text.endswith("the end")


def test_secrets_are_covered(tmp_path: Path) -> None:
    assert said(tmp_path, "key sesame, sesame\n", secrets=("sesame", ""))[0] == "key ***, ***"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("ggml_backend_cuda: cudaMalloc failed: out of memory", "`gpu_layers`"),
        ("couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 1", "`ss -ltnp`"),
        ("error loading model architecture: unknown model architecture: 'zeta'", "update the engine"),
        ("gguf_init_from_reader: failed to read key-value pairs", "download them again"),
        ("error: unrecognized arguments: --bogus", "`extra_args`"),
        ("all is well", ""),
    ],
)
def test_what_we_have_seen_before_comes_with_advice(tmp_path: Path, line: str, advice: str) -> None:
    hint = said(tmp_path, f"{line}\nexiting\n")[1]
    assert (advice in hint) if advice else hint == ""


def test_the_failure_is_named_and_shows_no_secret(tmp_path: Path) -> None:
    found = said(tmp_path, "CUDA out of memory on sesame\nbye\n", secrets=("sesame",))
    assert found.failure is not None
    assert (found.failure.kind, found.failure.evidence) == (FailureKind.OUT_OF_MEMORY, "CUDA out of memory on ***")
    assert found.hint == found.failure.advice


def test_a_cause_is_found_above_the_tracebacks_of_those_who_waited_for_it(tmp_path: Path) -> None:
    tracebacks = "".join(f"(APIServer pid=7) frame {number}\n" for number in range(80))
    log = f"(EngineCore pid=8) torch.OutOfMemoryError: CUDA out of memory.\n{tracebacks}"
    found = said(tmp_path, f"{log}RuntimeError: Engine core initialization failed.\n")
    assert found.failure is not None
    assert found.failure.kind is FailureKind.OUT_OF_MEMORY
    assert found.text.startswith("torch.OutOfMemoryError: CUDA out of memory. | frame 7")
    assert found.text.endswith("Engine core initialization failed.")


def test_of_an_unknown_failure_the_first_exception_is_shown_and_no_source_code(tmp_path: Path) -> None:
    log = """\
(VllmWorker-0 pid=5) ERROR 11-23 06:30:22 [multiproc_executor.py:953] Traceback (most recent call last):
(VllmWorker-0 pid=5) ERROR 11-23 06:30:22 [multiproc_executor.py:953]   File "/v/worker.py", line 83, in __init__
(VllmWorker-0 pid=5) ERROR 11-23 06:30:22 [multiproc_executor.py:953]     raise ValueError(
(VllmWorker-0 pid=5) ERROR 11-23 06:30:22 [multiproc_executor.py:953] ValueError: the moon is in the way
(EngineCore pid=4) ERROR 11-23 06:30:23 [core.py:1510] EngineCore failed to start.
(EngineCore pid=4) INFO 11-23 06:30:23 [core.py:1511] one
(EngineCore pid=4) INFO 11-23 06:30:23 [core.py:1511] two
(EngineCore pid=4) INFO 11-23 06:30:23 [core.py:1511] three
Traceback (most recent call last):
  File "/v/entry.py", line 95, in build
    engine = make(
        one=1,
             ^^^^^
RuntimeError: Engine core initialization failed. See root cause above.
"""
    found = said(tmp_path, log)
    assert found.text == (
        "ValueError: the moon is in the way | EngineCore failed to start. | one | two | three | "
        "RuntimeError: Engine core initialization failed. See root cause above."
    )
    assert found.failure is None


def test_of_a_cpp_program_that_was_aborted_what_it_says_is_shown_first(tmp_path: Path) -> None:
    log = "terminate called after throwing an instance of 'moon'\n  what():  it is in the way\n" + "frame {}\n" * 3
    assert said(tmp_path, log + "".join(f"#{n} at x\n" for n in range(9))).text.startswith(
        "what():  it is in the way | "
    )

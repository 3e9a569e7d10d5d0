"""How much of a model is loaded, out of what engines print."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.engines.load_progress import percent, percent_of

VLLM = "\rLoading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]\n\r"
LLAMA = "load_tensors:   CPU_Mapped model buffer size =  4685.30 MiB\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (VLLM, 0),
        (VLLM + VLLM.replace("  0%", " 75%"), 75),
        ("Loading weights: 33.5% done", 33),
        (LLAMA + "." * 42, 42),
        (LLAMA + "." * 100 + "\nllama_context: n_ctx = 4096", None),
        ("gpu memory at 93 %", None),
        ("loaded 400% of it", None),
        ("loading...", None),
        ("", None),
    ],
)
def test_the_last_share_counts(text: str, wanted: int | None) -> None:
    assert percent_of(text) == wanted


def test_only_this_start_counts_and_a_log_that_is_gone_says_nothing(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert percent(log, 0) is None
    log.write_text(VLLM.replace("  0%", " 90%"))
    assert percent(log, 0) == 90
    assert percent(log, log.stat().st_size) is None
    assert percent(log, 10**6) == 90, "it was rotated"

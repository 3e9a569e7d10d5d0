"""Lines that engines end with, and what they mean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.serve import Status
from stoker.engines import failures
from stoker.engines.failures import EVIDENCE, classify
from stoker.engines.last_output import from_text
from stoker.engines.record import FailureKind as Kind
from stoker.engines.registry import ENGINES

EXAMPLES = [
    ("vllm", Kind.STARTUP_MEMORY,
     "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization "
     "(0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."),
    ("vllm", Kind.STARTUP_MEMORY,
     "ValueError: Available memory on node 0 (21.65/23.54 GiB) on startup is less than desired CPU memory utilization "
     "(0.92, 21.66 GiB)."),
    ("vllm", Kind.STARTUP_MEMORY,
     "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."),
    ("vllm", Kind.STARTUP_MEMORY,
     "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
     "which is larger than the available KV cache memory (0.71 GiB)."),
    ("vllm", Kind.STARTUP_MEMORY,
     "The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache "
     "(23648)."),
    ("sglang", Kind.STARTUP_MEMORY,
     "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ("vllm", Kind.OUT_OF_MEMORY,
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 462.00 MiB. GPU 0 has a total capacity of"),
    ("sglang", Kind.OUT_OF_MEMORY, "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB"),
    ("llama.cpp", Kind.OUT_OF_MEMORY, "ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory"),
    ("llama.cpp", Kind.OUT_OF_MEMORY, "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory"),
    ("llama.cpp", Kind.OUT_OF_MEMORY, "terminate called after throwing an instance of 'std::bad_alloc'"),
    ("vllm", Kind.DEVICE_LOST, "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("llama.cpp", Kind.DEVICE_LOST, "terminate called after throwing an instance of 'vk::DeviceLostError'"),
    ("vllm", Kind.DEVICE_LOST, "Failed to import from vllm._C: ModuleNotFoundError(\"No module named 'vllm._C'\")\n"
     "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`"),
    ("sglang", Kind.DEVICE_LOST, "RuntimeError: No CUDA GPUs are available"),
    ("", Kind.DEVICE_LOST, "Unable to determine the device handle for GPU0: GPU is lost.  Reboot the system"),
    ("vllm", Kind.DEVICE_FAULT, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    ("llama.cpp", Kind.DEVICE_FAULT, "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f"),
    ("vllm", Kind.UNSUPPORTED_QUANTIZATION,
     "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 90. Current "
     "capability: 86"),
    ("vllm", Kind.UNSUPPORTED_QUANTIZATION, "ValueError: Unknown quantization method: gptq. Must be one of ['awq']."),
    ("vllm", Kind.UNSUPPORTED_QUANTIZATION,
     "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 80. ')"),
    ("vllm", Kind.UNSUPPORTED_QUANTIZATION,
     "ValueError: Quantization method specified in the model config (awq) does not match the quantization method "
     "specified in the `quantization` argument (gptq)."),
    ("sglang", Kind.UNSUPPORTED_QUANTIZATION,
     "launch_server.py: error: argument --quantization: invalid choice: 'q4' (choose from awq, fp8)"),
    ("llama.cpp", Kind.UNSUPPORTED_QUANTIZATION,
     "gguf_init_from_file: tensor 'blk.0.attn_q.weight' has invalid ggml type 142 (NONE)"),
    ("vllm", Kind.UNSUPPORTED_BACKEND,
     "ValueError: Selected backend AttentionBackendEnum.FLASHINFER is not valid for this configuration. Reason: "
     "['head_size not supported']"),
    ("sglang", Kind.UNSUPPORTED_BACKEND,
     "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("llama.cpp", Kind.UNSUPPORTED_BACKEND,
     "llama_init_from_model: K cache type q8_0 with block size 32 does not divide n_embd_head_k=16"),
    ("llama.cpp", Kind.UNSUPPORTED_BACKEND, "llama_init_from_model: V cache quantization requires flash_attn"),
    ("llama.cpp", Kind.UNSUPPORTED_ARCHITECTURE,
     "error loading model architecture: unknown model architecture: 'zeta'"),
    ("vllm", Kind.UNSUPPORTED_ARCHITECTURE,
     "ValueError: Model architectures ['ZetaForCausalLM'] are not supported for now. Supported architectures: ..."),
    ("vllm", Kind.CONTEXT_TOO_LONG,
     "User-specified max_model_len (99999) is greater than the derived max_model_len (max_position_embeddings=4096)"),
    ("vllm", Kind.PORT_TAKEN, "OSError: [Errno 98] Address already in use"),
    ("llama.cpp", Kind.PORT_TAKEN, "couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 1"),
    ("vllm", Kind.MISSING_DEPENDENCY, "RuntimeError: Worker failed with error 'Could not find nvcc'"),
    ("sglang", Kind.MISSING_DEPENDENCY, "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'"),
    ("sglang", Kind.MISSING_DEPENDENCY, "ModuleNotFoundError: No module named 'sgl_kernel'"),
    ("vllm", Kind.MISSING_WEIGHTS, "OSError: zeta is not a local folder and is not a valid model identifier listed on"),
    ("vllm", Kind.BAD_WEIGHTS,
     "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"),
    ("llama.cpp", Kind.BAD_WEIGHTS, "gguf_init_from_reader: failed to read key-value pairs"),
    ("llama.cpp", Kind.BAD_WEIGHTS, "error loading model: tensor 'output.weight' data is not within the file bounds"),
    ("vllm", Kind.BAD_OPTION, "vllm: error: unrecognized arguments: --bogus"),
    ("llama.cpp", Kind.BAD_OPTION, "error: invalid argument: --bogus"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "kind", "line"), EXAMPLES)
def test_a_line_that_is_known_is_named_with_its_evidence_and_advice(engine: str, kind: Kind, line: str) -> None:
    found = classify(engine, 1, f"all is well\n{line}\nshutting down\n")
    assert found is not None
    assert found.kind is kind
    assert found.evidence in line
    assert found.advice == failures.advice(kind, engine)


HERE = Path(__file__).parent
RECORDED = [line.split("\t") for line in (HERE / "last_words.tsv").read_text().splitlines()]
"""Last words of public bug reports: kind, engine, line, source."""


@pytest.mark.parametrize(("kind", "engine", "line"), [row[:3] for row in RECORDED])
def test_last_words_of_bug_reports_are_known(kind: str, engine: str, line: str) -> None:
    found = from_text(f"all is well\n{line}\nshutting down\n", engine=engine, code=1).failure
    assert found is not None
    assert found.kind == kind


def test_lines_of_an_engine_in_good_order_mean_nothing() -> None:
    lines = [line for line in (HERE / "harmless_lines.txt").read_text().splitlines() if not line.startswith("# ")]
    assert len(lines) >= 200
    for engine in ("llama.cpp", "vllm", "sglang", ""):
        misjudged = {
            line: found.kind for line in lines if (found := from_text(line, engine=engine, code=1).failure) is not None
        }
        assert misjudged == {}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("UR_RESULT_ERROR_DEVICE_LOST\n40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)", Kind.OUT_OF_MEMORY),
        ("Unable to open /dev/kfd read-write: Cannot allocate memory", Kind.PERMISSION),
        ("['Q'] failed to be inspected\ninvalid literal for int() with base 10: 'GPU-1f'", Kind.BAD_OPTION),
        ("failed to parse chat template (defaulting to chatml)\ncudaMalloc failed: out of memory", Kind.OUT_OF_MEMORY),
        ("error loading model: tensor 'a' has wrong shape; expected 8, got 4", Kind.UNSUPPORTED_ARCHITECTURE),
        ("error loading model: the moon is in the way", Kind.BAD_WEIGHTS),
        ("CUDA error: invalid argument", Kind.DEVICE_FAULT),
        ("ggml_cuda_host_malloc: failed to allocate 512.00 MiB of pinned memory: falling back to pageable", None),
        ("out of resource: shared memory, Required: 147456", Kind.UNSUPPORTED_BACKEND),
        ("NCCL error: remote process exited or there was a network error\nCUDA out of memory", Kind.OUT_OF_MEMORY),
        ("gloo/transport/tcp/pair.cc:534] Connection closed by peer\nCUDA out of memory", Kind.OUT_OF_MEMORY),
        ("NCCL watchdog thread terminated with exception: x\nCUDA error: an illegal memory access", Kind.DEVICE_FAULT),
        ("Total number of heads (28) must be divisible by (3)\n[c10d] TCPStore: recvValue failed", Kind.BAD_PARALLEL),
        ("NCCL error: unhandled system error\nNCCL error: remote process exited", Kind.INTERCONNECT),
        ("nvidia-container-cli: info: driver error path\nCUDA out of memory", Kind.OUT_OF_MEMORY),
        ("INFO 11-21 10:26:22 [w.py:1] keep it: increase --gpu-memory-utilization to 0.8352\n"
         "CUDA error: no kernel image is available", Kind.UNSUPPORTED_BACKEND),
        ("WARNING 11-21 10:26:22 [s.py:1] Consider to increase gpu_memory_utilization\n"
         "CUDA error: an illegal memory access was encountered", Kind.DEVICE_FAULT),
        ("ggml_vulkan: No devices found.\nerror loading model: unknown model architecture: 'zeta'",
         Kind.UNSUPPORTED_ARCHITECTURE),
        ("ValueError: page_size must be 1", Kind.BAD_OPTION),
        ("INFO:     Application startup complete.\nValueError: The image must be RGB", None),
        ('INFO: 127.0.0.1:4 - "POST /v1/completions HTTP/1.1" 500\nValueError: length must be less', None),
        ("LocalEntryNotFoundError: not in the cache. Please check your connection and try again", None),
        ("error: invalid argument: --old is ignored, using --new instead", Kind.BAD_OPTION),
        ("ValueError: fp8 is not supported here; use --dtype instead", Kind.UNSUPPORTED_QUANTIZATION),
    ],
)  # fmt: skip
def test_of_several_lines_the_cause_wins_and_what_ends_nothing_is_no_cause(said: str, kind: Kind | None) -> None:
    found = from_text(said, code=1).failure
    assert (found.kind if found else None) is kind


def test_hostile_output_costs_linear_time() -> None:
    """Every repetition in a pattern is bounded, so a line costs at most its length times that bound."""
    rows = (*failures.TABLE, *(row for engine in ENGINES.values() for row in engine.failures))
    for pattern in (*(row.pattern for row in rows), *(pattern.pattern for pattern in failures.NO_CAUSE)):
        outside_classes = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", pattern)
        assert not set("*+") & set(outside_classes), pattern


def test_looking_for_a_text_first_overlooks_nothing() -> None:
    """A row is found exactly where its whole pattern matches."""
    rows = (*failures.TABLE, *(row for engine in ENGINES.values() for row in engine.failures))
    lines = [row[2] for row in RECORDED] + [line for _, _, line in EXAMPLES]
    for row in rows:
        whole = re.compile(row.pattern, re.IGNORECASE)
        parts = failures.alternatives(row.pattern)
        for line in lines:
            found = any(text in line.lower() and pattern.search(line) for text, pattern in parts)
            assert found == (whole.search(line) is not None), (line, row.pattern)


def test_every_kind_has_an_example_and_advice() -> None:
    assert {kind for _, kind, _ in EXAMPLES} | {Kind(row[0]) for row in RECORDED} == set(Kind)
    assert all(failures.advice(kind) for kind in Kind)


@pytest.mark.parametrize(
    ("code", "said", "kills", "kind"),
    [
        (-9, "", None, Kind.OUT_OF_MEMORY),
        (137, "  \n", None, Kind.OUT_OF_MEMORY),
        (-9, "loading weights", None, None),
        (-9, "", 0, None),
        (-9, "loading weights", 1, Kind.OUT_OF_MEMORY),
        (1, "RuntimeError: Engine core initialization failed.", 2, Kind.OUT_OF_MEMORY),
        (1, "", None, None),
        (None, "", None, None),
    ],
    ids=["silent", "silent, in a container", "talking", "the kernel says no", "the kernel says yes", "a worker of it",
         "exited", "not known"],
)  # fmt: skip
def test_a_kill_by_the_kernel_is_told_from_others(
    code: int | None, said: str, kills: int | None, kind: Kind | None
) -> None:
    found = classify("vllm", code, said, kills)
    assert (found.kind if found else None) is kind


def test_a_cause_wins_over_what_follows_from_it() -> None:
    said = "No module named 'x' (ignored)\nerror loading model\nCUDA out of memory\nAddress already in use\n"
    found = classify("llama.cpp", 1, said)
    assert found is not None
    assert found.kind is Kind.OUT_OF_MEMORY


def test_another_engines_words_mean_nothing_but_to_one_that_is_not_named() -> None:
    said = "Not enough memory. Please try harder"
    assert classify("vllm", 1, said) is None
    for engine in ("sglang", "openai", ""):
        found = classify(engine, 1, said)
        assert found is not None
        assert found.kind is Kind.STARTUP_MEMORY


def test_the_evidence_is_short_and_shows_the_match() -> None:
    found = classify("vllm", 1, "x" * 900 + " CUDA out of memory " + "y" * 900)
    assert found is not None
    assert len(found.evidence) <= EVIDENCE
    assert "out of memory" in found.evidence


def test_memory_is_what_a_smaller_variant_helps_against() -> None:
    assert set(failures.PROPOSED.values()) == {Status.REJECTED, Status.BLOCKED}
    assert failures.PROPOSED[Kind.DEVICE_LOST] is Status.BLOCKED


@given(st.text(max_size=300), st.sampled_from(["vllm", "sglang", "llama.cpp", "openai", ""]))
def test_nothing_that_is_said_is_too_odd(said: str, engine: str) -> None:
    found = classify(engine, 1, said)
    assert found is None or found.evidence.strip() == found.evidence

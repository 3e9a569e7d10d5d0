"""`python -m bench.guidellm --python /path/to/python`: our benchmark and GuideLLM, in turn, on one llama.cpp.

The engine holds random weights, large enough that a first token takes 200 ms and each other one 20 ms on a core. Both
send prompts of the same length and ask for answers of the same length; GuideLLM, in an environment of its own, gets
them and a tokenizer as local files. Medians of the rounds are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench import machine
from bench.figures import table
from bench.processes import Child, end_on_sigterm, free_port
from bench.weights import Shape, write_random
from stoker.domain.lease import Target
from stoker_lab.load.prompts import make_prompt
from stoker_lab.requests.endpoint import MeasuredEndpoint, PromptCounter

SHAPE = Shape(640, 12, 10, 2048, 4096)
PROMPT, OUTPUT, SLOTS = 128, 24, 8
BOUNDS = {1: 0.05, 8: 0.10}
"""By clients: how far the medians may lie apart, as a share."""
REQUESTS = {1: 16, 8: 48}
PATIENCE = 60.0
_TOKENIZER = (
    "import sys; from tokenizers import Tokenizer, models, pre_tokenizers;"
    "from transformers import PreTrainedTokenizerFast;"
    "t = Tokenizer(models.WordLevel({'<unk>': 0}, unk_token='<unk>')); t.pre_tokenizer = pre_tokenizers.Whitespace();"
    "PreTrainedTokenizerFast(tokenizer_object=t, unk_token='<unk>').save_pretrained(sys.argv[1])"
)
"""Only needed because GuideLLM wants one: lengths come from the server's usage."""


class Times(NamedTuple):
    """Medians, in milliseconds."""

    ttft: float
    tpot: float


def run_stoker(port: int, clients: int, folder: Path) -> Times:
    """As a person would measure it."""
    words = f"--concurrency {clients} --prompt-tokens {PROMPT} --output-tokens {OUTPUT} --requests {REQUESTS[clients]}"
    command = [
        str(Path(sys.executable).with_name("stoker")),
        "eval",
        "benchmark",
        "--base-url",
        f"http://127.0.0.1:{port}/v1",
    ]
    command += ["--model", "big", *words.split(), "--seconds", "0", "--repeats", "1", "--state", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"stoker eval benchmark: {done.stderr[-800:]}")
    numbers: dict[str, Any] = json.loads(done.stdout)[0]["numbers"]
    return Times(numbers["ttft_p50"], numbers["tpot_p50"])


def run_guidellm(python: Path, port: int, clients: int, folder: Path) -> Times:
    out = folder / "guidellm.json"
    command = [
        str(python.parent / "guidellm"), "run", "--disable-console",
        "--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=big,request_format=/v1/chat/completions,"
        "validate_backend=false",
        "--profile", f"kind=concurrent,streams={clients}",
        "--constraint", f"kind=max_requests,count={REQUESTS[clients]}",
        "--data", f"kind=json_file,path={folder / 'prompts.jsonl'}",
        "--tokenizer", f"kind=huggingface_auto,model={folder / 'tokenizer'}",
        "--output", f"kind=json,path={out}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not out.exists():
        raise RuntimeError(f"guidellm: {(done.stdout + done.stderr)[-1200:]}")
    metrics = json.loads(out.read_bytes())["benchmarks"][0]["metrics"]
    return Times(
        *(metrics[name]["successful"]["median"] for name in ("time_to_first_token_ms", "inter_token_latency_ms"))
    )


def write_prompts(port: int, path: Path) -> None:
    """Of just the length that ours have, each in an order of its own."""

    async def prompts() -> list[str]:
        target = Target("127.0.0.1", port, "", "big")
        counter = PromptCounter(MeasuredEndpoint("direct", target, target))
        try:
            prompt = await make_prompt(PROMPT, counter)
        finally:
            counter.close()
        return [prompt.text(10_000_000 + salt) for salt in range(500)]

    lines = [json.dumps({"prompt": text, "output_tokens_count": OUTPUT}) for text in asyncio.run(prompts())]
    path.write_text("\n".join(lines) + "\n")


def start(folder: Path) -> tuple[Child, int]:
    """The embedded llama.cpp on one core. Raises RuntimeError with its last words."""
    weights, port = folder / "big.gguf", free_port()
    write_random(weights, 1, SHAPE)
    words = f"-np {SLOTS} -c {SLOTS * 512} -t 1 --cache-ram 0 --alias big --port {port}"
    command = [sys.executable, "-m", "stoker.engines.embedded", "-m", str(weights), *words.split()]
    child = Child.start("llama.cpp", command, folder / "engine.log")
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and child.is_alive():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return child, port
        except OSError:
            time.sleep(0.1)
    child.end()
    raise RuntimeError(f"the engine did not come up: {child.last_words()}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.guidellm", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, metavar="FILE", help="of the environment that has guidellm")
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turn; default %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    if found.python is None or not (found.python.parent / "guidellm").exists():
        sys.stderr.write(
            "skipped: no GuideLLM there. python -m venv DIR && DIR/bin/pip install guidellm,"
            " then --python DIR/bin/python\n"
        )
        return 0
    end_on_sigterm()
    facts = machine.facts()
    rows, raw, is_reached = [], [], True
    with tempfile.TemporaryDirectory(prefix="stoker-guidellm-") as name:
        folder = Path(name)
        subprocess.run(
            [str(found.python), "-c", _TOKENIZER, str(folder / "tokenizer")], check=True, capture_output=True
        )
        child, port = start(folder)
        try:
            write_prompts(port, folder / "prompts.jsonl")
            for clients, bound in BOUNDS.items():
                pairs = [
                    (run_stoker(port, clients, folder), run_guidellm(found.python, port, clients, folder))
                    for _ in range(found.rounds)
                ]
                raw.append({"clients": clients, "rounds": pairs})
                for at, what in enumerate(Times._fields):
                    own, other = median(pair[0][at] for pair in pairs), median(pair[1][at] for pair in pairs)
                    is_good = abs(own / other - 1) <= bound
                    is_reached = is_reached and is_good
                    word = "reached" if is_good else "MISSED"
                    off = f"{(own / other - 1) * 100:+.1f} (< {bound * 100:.0f})"
                    rows.append((str(clients), what, f"{own:.1f}", f"{other:.1f}", off, word))
        finally:
            child.end()
    if found.json is not None:
        found.json.write_text(json.dumps({"machine": facts, "seen": raw}, indent=1))
    print(machine.headline(facts))
    if (warning := machine.warning(facts)) is not None:
        sys.stderr.write(warning + "\n")
    print(table(("clients", "median", "stoker ms", "guidellm ms", "off %", "result"), rows))
    return 0 if is_reached else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""Results as measurements leave them behind, for stories about who shows them."""

from __future__ import annotations

from pathlib import Path

from stoker.domain.run import Finding, Fingerprint, Number, Outcome, Run, RunKind, Subject
from stoker_lab.artifacts import result_file

CLIENTS = (1, 2, 4, 8)


def benchmark(state: Path, serve: str, at: float, speed: float = 1.0, failed: int = 0) -> Run:
    """Four steps of three repeats each. `speed`: 2 is twice as fast."""
    steps = [_step(clients, speed, failed if clients == 8 else 0) for clients in CLIENTS]
    numbers = dict(steps[0].numbers)
    for step in steps:
        numbers |= {f"{step.name}.{name}": value for name, value in step.numbers.items()}
    knee = Finding("knee", Outcome.PASSED, "at 4 clients; the ladder ended because: throughput stood still")
    settings = {"preset": "ladder", "prompt_tokens": 256, "output_tokens": 128, "repeats": 3, "modes": ["warm"]}
    outcome = Outcome.FAILED if failed else Outcome.PASSED
    return store(state, RunKind.BENCHMARK, serve, at, outcome, [*steps, knee], numbers, settings)


def judgement(state: Path, serve: str, at: float, gate: str, findings: list[Finding], evidence: list[str]) -> Run:
    """The result of a gate."""
    outcomes = {one.outcome for one in findings}
    outcome = Outcome.FAILED if Outcome.FAILED in outcomes else max(outcomes)
    settings = {
        "gate": gate,
        "alias": "",
        "conditions": [one.name for one in findings],
        "max_age": None,
        "runs": evidence,
    }
    return store(state, RunKind.GATE, serve, at, outcome, findings, {}, settings)


def store(
    state: Path, kind: RunKind, serve: str, at: float, outcome: Outcome, findings: list[Finding],
    numbers: dict[str, Number], settings: dict[str, object],
) -> Run:  # fmt: skip
    mark = Fingerprint(
        f"model-{serve}", "e", {"model": f"sha256:{serve}", "command": f"llama-server --port 1 -m {serve}"}
    )
    subject = Subject(serve, serve, "http://127.0.0.1:1/v1", fingerprint=mark)
    run = Run(
        result_file.new_id(kind, serve, at), kind, at, 81.5, subject, outcome, findings, numbers,
        result_file.raws(settings), result_file.raws({"processor": "x"}), result_file.raw([]),
    )  # fmt: skip
    result_file.save(run, result_file.results_of(state))
    return run


def _step(clients: int, speed: float, failed: int) -> Finding:
    rate = 50.0 * min(clients, 4) * speed
    wait = (12.0 if clients < 8 else 700.0) / speed
    numbers: dict[str, Number] = {
        "clients": clients, "rate": None, "repeats": 3, "requests_ok": 12 * clients, "requests_failed": failed,
        "output_rate": rate, "output_rate.low": rate * 0.9, "output_rate.high": rate * 1.08,
        "request_rate": rate / 128, "decode_rate": 50.0 * speed,
        "ttft_p50": wait, "ttft_p50.low": wait * 0.8, "ttft_p50.high": wait * 1.3, "ttft_p95": wait * 1.9,
        "ttft_max": wait * 2.4, "tpot_p50": 20.0 / speed, "e2e_p50": 2560.0 / speed + wait, "cached_share": 0.0,
    }  # fmt: skip
    outcome = Outcome.FAILED if failed else Outcome.PASSED
    cause, fix = ("the engine refused", "lower parallel") if failed else ("", "")
    return Finding(f"c{clients}", outcome, f"{12 * clients} ok, {failed} failed", cause, fix, numbers)

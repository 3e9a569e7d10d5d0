"""The page `bench/gpu.md`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import table
from bench.gpu.plan import BUILD, STEPS, Plan, Step, cells, missed
from bench.gpu.rows import Outcome, Row

NOT_MEASURED = "not measured"
_HEAD = """\
# On a GPU

Written by `python -m bench.gpu page`: change the bench, not the page. README and guides quote no other figure of a GPU.
"""
_HOW = """\
## Run it

```sh
python -m bench.gpu prepare    # with a network, once: llama.cpp's source and wheels into build/gpu/parts
python -m bench.gpu run        # on the machine with the GPU: ten minutes, no network
python -m bench.gpu page --from build/gpu/full/gpu.json    # this page
```

`run` builds llama.cpp with CUDA, writes models of random weights, and measures through a real `stoker up`. Each step
has a bound, and what was measured before a failure is kept. What the machine lacks is named. `--only STEP` runs one
step; `--rehearse` runs all of them with small models, on a machine without a GPU too. `stoker doctor --gpu` is the
short part of it, of one minute.

- *sleep 1*, *2* and *3* are `sleep_level`. The PyTorch engine is one that the bench brings, a program with vLLM's
  endpoints; vLLM itself is measured where it is installed. At level 3 the driver suspends the engine.
- `asleep_s` is the time until the serve sleeps and its memory is free.
- `own_s` is what a swap takes beyond the engine's own time, which is that of the same command without Stoker.
- A figure in bold misses its goal; the goals are in `bench/gpu/plan.py`.
"""


def page(plan: Plan, rows: Sequence[Row], machine: Mapping[str, Any] | None) -> str:
    """Every cell of the plan, measured or not; then rows that were not planned. `machine`: of the run; None: no run."""
    parts = [_HEAD, _where(plan, machine), _HOW]
    planned = cells(plan)
    for step in (*STEPS, BUILD):
        found = _table(step, planned[step.name], [row for row in rows if row.step == step.name])
        parts.append(f"## {step.title}\n\n`python -m bench.gpu run --only {step.name}`\n\n{found}\n")
    return "\n".join(parts)


def _where(plan: Plan, machine: Mapping[str, Any] | None) -> str:
    if machine is None:
        return "**No machine with a GPU was at hand: nothing on this page has been measured.**\n"
    card, driver = machine.get("card") or "no GPU", machine.get("driver") or "none"
    free = machine.get("disk_free")
    disk = f", {free / 1e9:.0f} GB of disk free" if free is not None else ""
    found = (
        f"{machine['at']}, commit {machine['commit'] or 'unknown'}: {card}, driver {driver}, CUDA "
        f"{machine.get('cuda') or 'unknown'}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB{disk}.\n"
    )
    found += "".join(f"\n{note}\n" for note in machine.get("notes") or ())
    return found if plan.name == "full" else f"**A rehearsal with small models: no figures.** {found}"


def _table(step: Step, planned: Sequence[str], rows: Sequence[Row]) -> str:
    """The step's own row says why its cases have none."""
    by_case = {row.case: row for row in rows}
    own = by_case.pop(step.name, None)
    whole = own.why if own is not None else ""
    names = list(dict.fromkeys(name for row in by_case.values() for name in row.figures))
    # `mask, devices = [0]` stands for `mask`.
    shown = [case for case in planned if case in by_case or not any(one.startswith(f"{case}, ") for one in by_case)]
    cases = [*shown, *(case for case in by_case if case not in planned)]
    lines = [_line(step.name, case, by_case.get(case), names, whole) for case in cases]
    return table(("", *names, "result"), lines)


def _line(step: str, case: str, row: Row | None, names: Sequence[str], whole: str) -> tuple[str, ...]:
    if row is None:
        return (case, *["-"] * len(names), f"{NOT_MEASURED}: {whole}" if whole else NOT_MEASURED)
    wrong = missed(step, row.figures)
    values = [_value(row.figures.get(name), name in wrong) for name in names]
    if row.outcome is Outcome.MEASURED:
        return (case, *values, row.why or "measured")
    word = NOT_MEASURED if row.outcome is Outcome.SKIPPED else "failed"
    return (case, *values, f"{word}: {row.why}")


def _value(value: float | None, is_missed: bool) -> str:
    if value is None:
        return "-"
    text = f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"
    return f"**{text}**" if is_missed else text

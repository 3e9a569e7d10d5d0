"""A file with hundreds of models is read in a time that grows with its length, whatever its rows name."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from stoker.config import warnings
from stoker.domain.access import Settings

FEW, MANY = 50, 200
Row = Callable[[int], str]


def local(keys: str = "", head: str = "") -> Row:
    """`{i}` in the text is the row's number, `{before}` the one before."""

    def row(i: int) -> str:
        own = keys.format(i=i, before=max(i - 1, 0)) if i else ""
        return f"{head.format(i=i)}\n[[serve]]\nname = 'm{i}'\nmodel = 'm{i}.gguf'\n{own}\n"

    return row


ROWS: dict[str, Row] = {
    "plain": local(),
    "one parent": local("extends = 'm0'"),
    "each extends the one before": local("extends = 'm{before}'"),
    "each falls back to the one before": local("fallback = 'm{before}'"),
    "a slot each": local("slot = 's{i}'\nfallback = 'm{before}'", "[slots.s{i}]\ndevices = ['{i}']"),
    "one slot": local("slot = 's0'\nmemory = '1GiB'\nport = {i}", ""),
    "a tier each": local(head="[[tier]]\nname = 't{i}'\nserve = 'm{i}'"),
    "a key each": local(head="[[front_door.keys]]\nname = 'k{i}'\nvalue = 'env:KEY{i}'\nmodels = ['m{i}']"),
    "a variant each": local("[[serve.variant]]\nname = 'v{i}'\nset = {{ temperature = 0.5 }}"),
}


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize("kind", ROWS)
def test_four_times_the_models_take_about_four_times_as_long(
    loaded: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    row, took = ROWS[kind], {}
    for count in (FEW, MANY):
        for i in range(count):
            monkeypatch.setenv(f"KEY{i}", f"sk-a-long-enough-secret-xyz-{i:05}")
        slots = "[slots.s0]\n" if kind == "one slot" else ""
        text = slots + "".join(row(i) for i in range(count))
        took[count] = min(seconds(lambda: warnings.warnings(loaded(text))) for _ in range(2))  # noqa: B023
    assert took[MANY] < 8 * took[FEW], took


def test_hundreds_of_misspelt_names_are_all_reported_at_once(problems: Callable[[str], list[str]]) -> None:
    text = "".join(f"[[serve]]\nname = 'model-{i}'\nmodel = 'x'\nfallback = 'modle-{i}'\n" for i in range(400))
    found: list[str] = []
    assert seconds(lambda: found.extend(problems(text))) < 4
    assert len(found) == 400
    assert "did you mean 'model-0'?" in found[0]


def test_a_cycle_of_fallbacks_is_reported_once(problems: Callable[[str], list[str]]) -> None:
    serve = "[[serve]]\nname = '{}'\nmodel = 'x'\nfallback = '{}'\n".format
    assert problems(serve("a", "b") + serve("b", "c") + serve("c", "b")) == [
        "8: key 'serve[b].fallback': a cycle: b falls back to c falls back to b"
    ]

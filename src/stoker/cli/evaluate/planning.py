"""`stoker eval planning`: plans graded by their structure. Offline by default: committed outputs, always the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli import options, terminal
from stoker.cli.failure import UsageError

if TYPE_CHECKING:
    from stoker.measure.suites.fixture import Fixture
    from stoker.measure.suites.planning import Output


def planning(
    serve: options.OneServe = None,
    live: Annotated[bool, typer.Option("--live", help="Have SERVE write the plans anew, and grade those.")] = False,
    outputs: Annotated[
        Path | None, typer.Option("--outputs", metavar="DIR", help="Plans to grade, *.jsonl; with --live: kept there.")
    ] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Grade plans: numbered steps, what they name, their order. Needs nothing that runs, but for --live."""
    import msgspec

    from stoker.measure.suites import fixture, planning

    if serve is not None and not live:
        raise UsageError("a serve writes plans with --live; without it those that were written before are graded")
    fixtures = [*fixture.every()]
    if live:
        found = _written(serve, fixtures, outputs, config, state)
    else:
        found = planning.shipped() if outputs is None else planning.read(outputs)
    body = planning.report(fixtures, found)
    if json:
        terminal.say(body.decode().rstrip())
        return
    models = msgspec.json.decode(body)["models"]
    rows = [
        (name, f"{one['passed']} of {one['n']}", f"{one['rate_low']:.2f} to {one['rate_high']:.2f}",
         f"{one['score']:.2f}")
        for name, one in models.items()
    ]  # fmt: skip
    terminal.table(("MODEL", "PASSED", "RATE", "SCORE"), rows, right=("PASSED", "SCORE"))


def _written(
    serve: str | None, fixtures: list[Fixture], to: Path | None, config: str | None, state: str | None
) -> list[Output]:
    """What a running serve writes now, in the wording that it knows."""
    import asyncio

    from stoker.cli.evaluate.known import find
    from stoker.measure.suites import fixture, grade, planning
    from stoker.measure.talk import Talk

    known = find(serve, config, state)
    own = fixture.shipped(fixture.wording(known.subject.fingerprint.parts.get("model", "")))

    async def run() -> list[Output]:
        talk = Talk(known.target)
        try:
            return await planning.written(own, grade.asker(talk), known.serve.name)
        finally:
            talk.close()

    terminal.note(f"asking {known.serve.name} for its plans")
    found = asyncio.run(run())
    if to is not None:
        try:
            to.mkdir(parents=True, exist_ok=True)
            (to / f"{known.serve.name}.jsonl").write_bytes(planning.lines(found))
        except OSError as error:
            raise UsageError(f"--outputs {to} cannot be written: {error.strerror}") from error
    return found

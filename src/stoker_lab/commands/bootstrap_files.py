"""`stoker eval bootstrap --from FILE...`: a quality profile from what was recorded, without a model or a network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import UsageError
from stoker.domain.run import Fingerprint, Run, RunKind

if TYPE_CHECKING:
    from stoker.domain.tier import ProfileRow
    from stoker_lab.suites.fixture import Fixture
    from stoker_lab.suites.grading import GradedFixture
    from stoker_lab.suites.recorded import RecordedAnswer


@dataclass(slots=True)
class Recording:
    """What one model answered, as one tier."""

    tier: str
    fingerprint: Fingerprint
    model: str
    at: float = 0.0
    """Unix time of the newest answer."""
    runs: list[Run] = field(default_factory=list)
    answers: list[RecordedAnswer] = field(default_factory=list)


def read_recordings(files: Sequence[Path]) -> list[Recording]:
    """Results of `stoker eval bootstrap` (JSON), and recorded answers (JSONL). One recording for each tier: that of the
    model that answered last. The order of the files does not matter. Raises UsageError.
    """
    found: dict[tuple[str, str, str], Recording] = {}

    def recording(tier: str, fingerprint: Fingerprint, model: str, at: float) -> Recording:
        one = found.setdefault((tier, fingerprint.identity, fingerprint.execution), Recording(tier, fingerprint, model))
        one.at = max(one.at, at)
        return one

    for run in sorted(_runs(files), key=lambda run: (run.at, run.id)):
        tier, mark = run.setting("tier"), run.subject.fingerprint
        recording(str(tier), mark, mark.parts.get("model", ""), round(run.at + run.seconds, 3)).runs.append(run)
    for answer in sorted(_answers(files), key=lambda one: (one.at, one.tier, one.fixture)):
        mark = Fingerprint(answer.identity, answer.execution)
        recording(answer.tier, mark, answer.model, answer.at).answers.append(answer)
    newest = sorted(found.values(), key=lambda one: (one.tier, one.at, one.fingerprint.identity))
    return list({one.tier: one for one in newest}.values())


def rows_of(
    recording: Recording, suites: Path | None, classes: Collection[str], known_classes: Sequence[str]
) -> tuple[list[ProfileRow], int]:
    """The rows of one tier, and how many fixtures of the recording count for nothing: they changed since, or are none
    of those that are here.
    """
    from stoker_lab.suites import fixture, grading, recorded, whole_suites

    if suites is not None:
        fixtures = fixture.read_fixtures(suites, list(known_classes))
    else:
        fixtures = fixture.shipped_fixtures(fixture.wording_for(recording.model))
    graded = whole_suites.graded_in(recording.runs) + recorded.grade_recorded(recording.answers, fixtures)
    current = _current(graded, fixtures)
    everything = {one.fixture for one in graded} | {answer.fixture for answer in recording.answers}
    wanted = [one for one in current if not classes or one.task_class in classes]
    rows = grading.profile_rows(wanted, fixtures, recording.tier, recording.fingerprint, recording.at)
    return rows, len(everything - {one.fixture for one in current})


def _current(graded: Iterable[GradedFixture], fixtures: Iterable[Fixture]) -> list[GradedFixture]:
    """The samples of fixtures that did not change since, each once, in the order in which they are asked."""
    by_key = {(one.fixture, one.digest): one for one in graded if one.is_sample}
    return [by_key[one.id, one.digest] for one in fixtures if (one.id, one.digest) in by_key]


def _runs(files: Sequence[Path]) -> list[Run]:
    from stoker.domain.errors import StokerError
    from stoker_lab.artifacts import result_file

    found = []
    for file in files:
        if file.suffix == ".jsonl":
            continue
        try:
            run = result_file.load(file)
        except StokerError as error:
            raise UsageError(f"--from: {error.message}") from error
        if run.kind is not RunKind.BOOTSTRAP or run.setting("tier") is None:
            raise UsageError(f"--from {file}: is a result of `eval {run.kind.value}`; give results of `eval bootstrap`")
        found.append(run)
    return found


def _answers(files: Sequence[Path]) -> list[RecordedAnswer]:
    from stoker.domain.errors import StokerError
    from stoker_lab.suites import recorded

    found = []
    for file in files:
        if file.suffix != ".jsonl":
            continue
        try:
            found += recorded.parse_answers(file.read_bytes(), str(file))
        except OSError as error:
            raise UsageError(f"--from {file}: cannot be read ({error.strerror}): correct the path") from error
        except StokerError as error:
            raise UsageError(f"--from {error.message}") from error
    return found

"""A job of the web page: the command that it is, what is read of its output, and what is told of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stoker.cli.console.control import Control
from stoker.domain.errors import ClientError
from stoker_setup.jobs.job import Job, JobError, JobProgress, JobRequest, command_of
from stoker_setup.jobs.jobs import KEPT, Jobs
from stoker_setup.jobs.output import LONGEST_RESULT, Meter, read_line, read_result

PLACE = ["--config", "/x/stoker.toml"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (JobRequest("look", model="--help"), "add --json --dry-run --config /x/stoker.toml -- --help"),
        (JobRequest("look", model="m", slot="-g"), "add --json --dry-run --slot=-g --config /x/stoker.toml -- m"),
        (JobRequest("add", model="m", check=False, name="n"),
         "add --json --yes --no-preflight --name=n --config /x/stoker.toml -- m"),
        (JobRequest("preflight", serve="s"), "eval preflight --json --config /x/stoker.toml -- s"),
        (JobRequest("benchmark", serve="s"), "eval benchmark --json --quick --config /x/stoker.toml -- s"),
        (JobRequest("benchmark", serve="s", quick=False), "eval benchmark --json --config /x/stoker.toml -- s"),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_a_command_and_no_word_of_it_becomes_an_option(request_: JobRequest, words: str) -> None:
    assert command_of(request_, PLACE) == words.split()


def test_what_no_command_line_takes_is_refused() -> None:
    for wrong in (JobRequest("add"), JobRequest("add", model="a\0b"), JobRequest("look", model="a", slot="x" * 1001)):
        with pytest.raises(ClientError):
            command_of(wrong, PLACE)


def test_a_secret_of_an_address_is_neither_shown_nor_kept() -> None:
    address = "https://me:secret@host.example/a/b.gguf?signature=secret"
    job = Job(id="1", request=JobRequest("add", model=address), at=0.0)
    assert job.summary()["subject"] == "https://host.example/a/b.gguf"
    assert "secret" not in str(job.to_keep())
    assert job.document()["request"]["model"] == address


def test_an_address_is_one_however_its_scheme_is_written() -> None:
    job = Job(id="1", request=JobRequest("look", model="HTTP://me:secret@host.example/a.gguf"), at=0.0)
    assert job.summary()["subject"] == "HTTP://host.example/a.gguf"


def test_a_line_is_progress_or_is_said_to_people() -> None:
    assert read_line('{"progress": {"what": "a", "done": 1}}') == JobProgress("a", done=1)
    for line in ("stoker: no", '{"progress": 1}', '{"progress": {"done": "x"}}', '{"progress":' + "[" * 10_000):
        assert read_line(line) == line


def test_the_speed_is_that_of_the_last_seconds_and_what_was_there_is_none() -> None:
    meter = Meter()
    assert meter.take(JobProgress("a", done=1000, total=3000), 0.0).speed is None
    found = meter.take(JobProgress("a", done=1500, total=3000), 1.0)
    assert (found.speed, found.left) == (500.0, 3.0)
    for second in range(2, 12):
        found = meter.take(JobProgress("a", done=1500 + 100 * second, total=3000), float(second))
    assert found.speed == 100.0
    assert meter.take(JobProgress("b", done=0, total=5), 12.0).speed is None


def test_a_result_and_the_error_behind_it_are_both_read() -> None:
    result, error = read_result('{"models": []}\n{"error": {"message": "no room", "code": "disk_full"}}', "look")
    assert (result, error and error.code) == ({"models": []}, "disk_full")
    assert read_result("no JSON", "add") == (None, None)
    assert read_result(json.dumps({"a": "x" * LONGEST_RESULT}), "add") == (None, None)


def test_what_no_utf_8_has_is_replaced_wherever_a_command_says_it() -> None:
    said = r"""{"models": [{"file": "m\udcff"}]} {"error": {"message": "l\udcffink", "code": "x"}}"""
    assert read_result(said, "add") == ({"models": [{"file": "m?"}]}, JobError("l?ink", "x"))
    assert read_line(r'{"progress": {"what": "a\udcff"}}') == JobProgress("a?")


def jobs_in(directory: Path) -> Jobs:
    async def make_key(name: str) -> str:
        return ""

    async def delete_key(name: str) -> None:
        pass

    def control() -> Control:
        raise AssertionError

    return Jobs(directory, control, make_key, delete_key)


def test_looks_push_no_added_model_out_of_the_list(tmp_path: Path) -> None:
    async def story() -> None:
        jobs = jobs_in(tmp_path)
        added = await jobs.start(JobRequest("add", model="/nothing/a.gguf"), PLACE)
        jobs.cancel(added.id)
        while not added.state.is_over:
            await asyncio.sleep(0.01)
        for number in range(2 * KEPT):
            look = await jobs.start(JobRequest("look", model=f"/nothing/{number}.gguf"), PLACE)
            jobs.cancel(look.id)
        assert jobs.get(added.id) is added
        jobs.end()
        await jobs.ended()

    asyncio.run(story())


def test_a_job_that_cannot_be_written_is_left_out_and_the_others_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        first = jobs_in(tmp_path)
        await first.restore()
        found = [await first.start(JobRequest("add", model=f"/nothing/{name}.gguf"), PLACE) for name in "ab"]
        found[1].result = {"size": "\udcff"}
        first.end()
        await first.ended()
        second = jobs_in(tmp_path)
        await second.restore()
        assert [one["id"] for one in second.summaries()] == [found[0].id]

    asyncio.run(story())


def test_of_a_measurement_the_page_has_the_checks_and_where_the_whole_is() -> None:
    finding = {"name": "model", "outcome": "passed", "observed": "it is", "numbers": {"n": 1}}
    result, _ = read_result(
        json.dumps([{"id": "r", "outcome": "passed", "raw": [1], "findings": [finding]}]), "preflight"
    )
    assert (result["id"], result["checks"][0]["observed"], "raw" in result) == ("r", "it is", False)

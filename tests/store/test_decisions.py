"""The decision log as its users see it: the flow that records, `explain` that reads, a crash in between."""

from __future__ import annotations

import logging
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from stoker.domain.decision import Candidate, Decision, WaitPart
from stoker.domain.errors import StokerError
from stoker.store import database, decisions, writer
from stoker.store.decisions import DecisionLog, read_newest_failed, read_one, read_recent

FULL = Decision(
    id="req_full",
    at=1_700_000_000.25,
    endpoint="/v1/messages",
    model="größer",
    key="team",
    serve="fast",
    candidates=[Candidate("slow", "held by the operator"), Candidate("fast")],
    attempts=2,
    stream=True,
    status=200,
    outcome="served",
    queued=0.5,
    ttft=1.25,
    latency=3.5,
    input_tokens=10,
    output_tokens=None,
    cached_tokens=0,
    translation="model,include_usage",
)


def numbered(number: int) -> Decision:
    return Decision(id=f"req_{number}", at=1_700_000_000.0 + number, endpoint="/v1/chat/completions", outcome="served")


def ids(found: list[Decision]) -> list[str]:
    return [decision.id for decision in found]


def schema_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not (met := holds()) and time.monotonic() < deadline:
        pause.wait(0.01)
    return met


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.db"


@pytest.fixture
def log(path: Path) -> Iterator[DecisionLog]:
    made = DecisionLog(path, 1000)
    yield made
    made.close()


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes nothing before close."""

    def run(self: writer.DecisionWriter, stop: threading.Event) -> None:
        stop.wait()
        self.flush()
        self.close()

    monkeypatch.setattr(writer.DecisionWriter, "run", run)


# -- memory and file answer as one --------------------------------------------------------------------------------


@pytest.mark.usefixtures("slow_disk")
def test_a_record_is_found_before_it_is_written(path: Path) -> None:
    log = DecisionLog(path, 10)
    for number in range(3):
        log.record(numbered(number))
    assert log.find("req_1") == numbered(1)
    assert ids(log.recent(2)) == ["req_2", "req_1"]
    assert log.find("req_9") is None
    assert read_recent(path, 10) == []
    log.close()
    assert len(read_recent(path, 10)) == 3


def test_a_record_is_on_disk_half_a_second_after_it_came(log: DecisionLog, path: Path) -> None:
    log.record(numbered(1))
    assert eventually(lambda: log.statistics().written == 1, 5), "the first look at the queue is over"
    log.record(FULL)
    arrived = time.monotonic()
    assert eventually(lambda: read_one(path, "req_full") is not None, 5)
    assert time.monotonic() - arrived < 0.5 + 0.3, "half a second, and some for a busy machine"


def test_close_writes_what_came_since_the_last_look(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "INTERVAL", 3600.0)
    log = DecisionLog(path, 10)
    log.record(numbered(1))
    assert eventually(path.exists, 5)
    assert eventually(lambda: schema_version(path) == database.VERSION, 5), "the writer has opened it"
    log.record(numbered(2))
    log.close()
    assert ids(read_recent(path, 10)) == ["req_2", "req_1"]


def test_every_field_survives_the_way_to_disk_and_back(path: Path) -> None:
    log = DecisionLog(path, 10)
    log.record(FULL)
    log.close()
    assert read_one(path, "req_full") == FULL


def test_after_a_restart_old_and_new_records_are_one_list(path: Path) -> None:
    before = DecisionLog(path, 10)
    for number in range(4):
        before.record(numbered(number))
    before.close()
    after = DecisionLog(path, 10)
    for number in range(4, 6):
        after.record(numbered(number))
    assert ids(after.recent(5)) == ["req_5", "req_4", "req_3", "req_2", "req_1"]
    assert after.find("req_0") == numbered(0)
    assert after.recent(0) == []
    after.close()
    assert ids(after.recent(100)) == [f"req_{number}" for number in (5, 4, 3, 2, 1, 0)], "none twice"


def test_of_two_requests_with_one_id_the_newer_is_found_and_both_are_kept(path: Path) -> None:
    log = DecisionLog(path, 10)
    first, second = numbered(1), numbered(2)
    second.id = first.id
    log.record(first)
    log.record(second)
    assert log.find(first.id) == second
    log.close()
    assert read_one(path, first.id) == second
    assert len(read_recent(path, 10)) == 2
    after = DecisionLog(path, 10)
    assert after.find(first.id) == second
    after.close()


def test_only_the_newest_are_kept(path: Path) -> None:
    log = DecisionLog(path, 10)
    for number in range(600):  # more than two batches
        log.record(numbered(number))
    log.close()
    assert ids(read_recent(path, 100)) == [f"req_{number}" for number in range(599, 589, -1)]
    assert log.statistics() == decisions.DecisionStatistics(kept=10, written=600, dropped=0, failed=0)


def test_a_lower_limit_holds_from_the_next_start(path: Path) -> None:
    log = DecisionLog(path, 100)
    for number in range(50):
        log.record(numbered(number))
    log.close()
    DecisionLog(path, 5).close()
    assert ids(read_recent(path, 100)) == [f"req_{number}" for number in range(49, 44, -1)]


# -- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("slow_disk")
def test_what_does_not_fit_into_the_queue_is_dropped_and_counted(path: Path) -> None:
    log = DecisionLog(path, 10_000)
    for number in range(decisions.QUEUE + 3):
        log.record(numbered(number))
    assert log.statistics().dropped == 3
    newest = f"req_{decisions.QUEUE + 2}"
    assert log.find(newest) is not None, "memory still has it"
    log.close()
    assert log.statistics() == decisions.DecisionStatistics(decisions.QUEUE, decisions.QUEUE, 3, 0)
    assert read_one(path, newest) is None


def test_after_close_nothing_is_taken_any_more(path: Path) -> None:
    log = DecisionLog(path, 10)
    log.close()
    log.record(FULL)
    log.close()
    assert log.statistics().dropped == 1
    assert read_recent(path, 10) == []


def test_memory_does_not_grow_with_the_number_of_records(path: Path) -> None:
    log = DecisionLog(path, 10)
    for number in range(3 * decisions.QUEUE):
        log.record(numbered(number))
    log.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM decisions")
        db.commit()
    assert len(log.recent(10**6)) == decisions.QUEUE + writer.BATCH


def test_recording_costs_less_than_a_microsecond(log: DecisionLog) -> None:
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(100):
            log.record(FULL)
        best = min(best, (time.perf_counter() - started) / 100)
    assert best < 1e-6


def test_the_file_and_its_companions_are_private(log: DecisionLog, path: Path) -> None:
    log.record(FULL)
    assert eventually(lambda: read_recent(path, 1) != [], 5)
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()}
    assert modes == {"decisions.db": 0o600, "decisions.db-wal": 0o600, "decisions.db-shm": 0o600}


def test_a_file_that_others_could_read_is_made_private(path: Path) -> None:
    path.touch(0o644)
    path.chmod(0o644)
    DecisionLog(path, 10).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_close_is_bounded_when_the_disk_does_not_answer(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = DecisionLog(path, 10)
    log.record(numbered(1))
    assert eventually(lambda: log.statistics().written == 1, 5)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        log.record(FULL)
        started = time.monotonic()
        log.close()
        assert time.monotonic() - started < 2.0
    assert "the newest decisions could not be written" in caplog.text
    assert log.find("req_full") == FULL


def test_close_does_not_wait_for_a_disk_that_hangs(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(writer.DecisionWriter, "run", lambda self, stop: answers.wait(20))
    before = set(threading.enumerate())
    log = DecisionLog(path, 10)
    log.record(FULL)
    log.close(timeout=0.02)
    assert "the newest decisions could not be written" in caplog.text
    (hanging,) = set(threading.enumerate()) - before
    answers.set()
    hanging.join()


# -- other processes, and crashes ---------------------------------------------------------------------------------

CHILD = """
import sys, time
from pathlib import Path
from stoker.domain.decision import Decision
from stoker.store.decisions import DecisionLog
log = DecisionLog(Path(sys.argv[1]), 100_000)
for number in range(100_000):
    log.record(Decision(id=f"req_{number}", at=time.time(), endpoint="/v1/chat/completions"))
    print(number, time.monotonic(), flush=True)
    time.sleep(0.002)
"""


def test_a_killed_process_loses_at_most_the_last_second(path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    recorded: dict[str, float] = {}
    try:
        for line in child.stdout:
            number, at = line.split()
            recorded[f"req_{number}"] = float(at)
            if float(at) - recorded["req_0"] > 1.4:
                break
    finally:
        child.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        child.wait()
        child.stdout.close()
    found = set(ids(read_recent(path, 100_000)))
    due = {name for name, at in recorded.items() if at < killed - 1.0}
    assert len(due) > 20, "the test must say something"
    assert due <= found
    after = DecisionLog(path, 100_000)
    after.close()
    assert after.statistics().kept == len(found), "and the next start goes on with the same file"


def test_another_process_reads_while_this_one_writes(log: DecisionLog, path: Path) -> None:
    log.record(FULL)
    assert eventually(lambda: log.statistics().written == 1, 5)
    script = (
        "import sys; from pathlib import Path; from stoker.store.decisions import read_recent, read_one; "
        "p = Path(sys.argv[1]); print(read_recent(p, 5)[0].id, read_one(p, 'req_full').serve, read_one(p, 'no'))"
    )
    answer = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["req_full", "fast", "None"]
    log.record(numbered(2))
    assert eventually(lambda: log.statistics().written == 2, 5)


def test_no_file_reads_as_no_records(path: Path) -> None:
    assert read_recent(path, 10) == []
    assert read_one(path, "req_1") is None
    assert not path.exists(), "and reading does not make one"


def test_a_path_with_odd_characters_is_read(tmp_path: Path) -> None:
    path = tmp_path / "50% of ?this#" / "decisions.db"
    path.parent.mkdir()
    log = DecisionLog(path, 10)
    log.record(FULL)
    log.close()
    assert read_recent(path, 1) == [FULL]


@pytest.mark.parametrize("content", [b"no database at all" * 500, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_reading_a_broken_file_says_which_and_what_to_do(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StokerError, match="cannot be read") as caught:
        read_recent(path, 10)
    assert str(path) in caught.value.message
    assert "stoker up" in caught.value.message
    assert caught.value.code == "decisions_unreadable"


def test_a_file_of_another_version_is_not_misread(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StokerError, match="version 99"):
        read_one(path, "req_1")


def test_a_running_log_that_cannot_read_its_file_answers_from_memory(
    log: DecisionLog, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.record(FULL)
    assert eventually(lambda: log.statistics().written == 1, 5)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE decisions SET record = 'not json'")
        db.commit()
    with caplog.at_level(logging.WARNING):
        assert log.recent(10) == [FULL]
        assert log.find("req_other") is None
    assert "only the newest decisions are shown" in caplog.text


def test_a_record_is_completed_on_its_way_to_disk_and_a_failure_of_that_loses_nothing(path: Path) -> None:
    log = DecisionLog(path, 10)

    def complete(decision: Decision) -> Decision:
        if decision.id == "req_1":
            raise RuntimeError("no memory of it")
        return replace(decision, waits=[WaitPart("wait", 0.0, 1.0, "waited for a place")])

    log.complete_with(complete)
    for number in range(3):
        log.record(numbered(number))
    assert log.recent(1)[0].waits == []
    log.close()
    assert [len(one.waits) for one in read_recent(path, 10)] == [1, 0, 1]


def test_the_newest_failures_are_found_in_memory_and_on_disk(path: Path) -> None:
    log = DecisionLog(path, 10)
    for number, status, outcome in ((0, 503, "refused"), (1, 200, "served"), (2, 400, "refused"), (3, 0, "cut")):
        log.record(replace(numbered(number), status=status, outcome=outcome))
    assert ids(log.newest_failed(5)) == ["req_3", "req_0"]
    log.close()
    later = DecisionLog(path, 10)
    later.record(replace(numbered(4), status=502, outcome="upstream_failed"))
    assert ids(later.newest_failed(2)) == ["req_4", "req_3"]
    later.close()
    newest = read_newest_failed(path)
    assert newest is not None
    assert newest.id == "req_4"
    assert read_newest_failed(path.with_name("none.db")) is None


def test_those_that_ended_while_another_one_waited_are_found_without_looking_at_all(path: Path) -> None:
    log = DecisionLog(path, 10)
    for number in range(6):
        log.record(replace(numbered(number), latency=0.5))
    assert ids(log.overlapping(1_700_000_003.0, 10)) == ["req_5", "req_4", "req_3"]
    assert ids(log.overlapping(0.0, 2)) == ["req_5", "req_4"]
    log.close()

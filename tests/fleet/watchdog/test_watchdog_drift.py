"""Whether a running process is still what its configuration says."""

from __future__ import annotations

import os
import subprocess
import sys

from stoker.domain.serve import Serve
from stoker.fleet.process.identity import MARK_VARIABLE, StartRecord
from stoker.fleet.watchdog.probe import differences
from stoker.system.processes import environment

RECORD = StartRecord(
    name="a", pid=1, mark="", command="digest", fingerprint="print", port=1, nonce="n1", takes_key=True, started_at=0.0,
    log="", grace=1.0,
)  # fmt: skip
SERVE = Serve(name="a", env={"MODE": "fast", "TOKEN": "marker-secret"})
ENVIRONMENT = {MARK_VARIABLE: "n1", "MODE": "fast", "TOKEN": "marker-secret", "HOME": "/h"}


def test_a_process_as_it_was_started_has_no_drift() -> None:
    assert differences(RECORD, "print", "digest", ENVIRONMENT, SERVE) == ()


def test_each_difference_is_named_and_no_value_of_the_environment_is() -> None:
    changed = ENVIRONMENT | {"MODE": "slow", "TOKEN": "another-secret"}
    found = differences(RECORD, "other", "otherwise", changed, SERVE)
    assert found is not None
    assert [phrase.split(";")[0] for phrase in found] == [
        "it runs with an older configuration",
        "its command line has changed since it was started",
        "its environment differs in MODE, TOKEN",
    ]
    assert "`stoker serves down a`, then `stoker serves up a`" in found[0], "without a name, down stops every serve"
    assert "secret" not in "".join(found)


def test_what_cannot_be_read_is_unknown_and_what_can_still_counts() -> None:
    assert differences(RECORD, "print", "", None, SERVE) is None
    overwritten = {"engine: worker 0": ""}
    assert differences(RECORD, "print", "digest", overwritten, SERVE) is None, "its title was written over it"
    assert differences(RECORD, "other", "", None, SERVE) is not None


def test_the_environment_of_a_process_is_what_it_was_started_with() -> None:
    argv = [sys.executable, "-S", "-E", "-c", "print(flush=True); input()"]
    with subprocess.Popen(argv, env={"MODE": "fast"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it runs: before that its environment is still ours
        found = environment(child.pid)
        child.kill()
    assert found is not None
    assert found["MODE"] == "fast"
    assert environment(2**22 + os.getpid()) is None

"""The playground of `scripts/ray-playground`: what its commands end."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from scripts.ray_playground import kill, started_at


def test_a_node_is_ended_by_its_name_and_only_while_it_is_the_one_that_was_started(tmp_path: Path) -> None:
    node = subprocess.Popen(["sleep", "60"], start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        note = tmp_path / "running.json"
        groups = {"alpha": [node.pid, started_at(node.pid)], "beta": [other.pid, "somebody else's by now"]}
        note.write_text(json.dumps({"groups": groups}))
        assert kill(note, "alpha") == 0
        assert node.wait(10) == -signal.SIGKILL
        assert [kill(note, name) for name in ("alpha", "beta", "gamma")] == [1, 1, 1]
        assert kill(tmp_path / "none.json", "alpha") == 1
        assert other.poll() is None
    finally:
        for process in (node, other):
            process.kill()
            process.wait()

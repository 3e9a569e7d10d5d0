"""A slot gives its device up for another program, or for an operator, and takes it back, with a running Stoker."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, poll, running, serve

SLOTS = '[slots.gpu0]\nyields_to = ["comfyui"]\nreturn_after = "1s"\n[slots.gpu1]'


def state_of(plane: Plane, name: str) -> str:
    return str(plane.serve(name)["state"])


@story
async def test_a_model_is_away_while_a_program_runs_or_an_operator_wants_it_and_others_answer(tmp_path: Path) -> None:
    script = tmp_path / "ComfyUI" / "main.py"
    script.parent.mkdir()
    script.write_text("import sys; sys.stdin.read()")
    with running(
        serve("a"), serve("helped", fallback="b", fallback_on=["unavailable"]), serve("b", slot="gpu1"), slots=SLOTS
    ) as plane:
        assert (await ask(plane, "a")).status == 200
        with subprocess.Popen([sys.executable, "main.py"], cwd=script.parent, stdin=subprocess.PIPE) as comfy:
            poll(lambda: state_of(plane, "a") == "paused", "the model to end")
            reply = await ask(plane, "a")
            assert (reply.status, reply.json()["error"]["code"]) == (503, "slot_paused")
            assert f"comfyui (process {comfy.pid}) needs its devices" in reply.json()["error"]["message"]
            assert int(reply.header("retry-after") or 0) > 0
            assert (await ask(plane, "helped")).header("x-stoker-fallback") == "helped: slot_paused"
            refused = str(reply.header("x-request-id"))
            plane.decision(refused)
            assert "slot of the serve was paused" in plane.run("explain", refused).stdout
            comfy.communicate()
        poll(lambda: state_of(plane, "a") == "ready", "the model to come back")

        done = plane.run("pause", "--reason", "rendering")
        assert (done.returncode, state_of(plane, "a"), state_of(plane, "b")) == (0, "paused", "paused")
        plane.signal(signal.SIGTERM)
        assert plane.exit_code() == 0
        plane.start()
        assert "paused by an operator: gpu0, gpu1" in plane.said()
        assert "rendering" in (await ask(plane, "a")).json()["error"]["message"]
        assert plane.run("resume").returncode == 0
        assert (await ask(plane, "a")).status == 200

"""A serve of an engine without a list of models: it answers, swaps, survives Stoker, and says what is not proved."""

from __future__ import annotations

import json
import os
import signal

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve, until

from stoker_lab.testing.script.script import Script

NOT_PROVED = 'which model answers is not proved (identity = "none")'


def unlisted(name: str, absent: str = "/v1/models", **keys: object) -> str:
    return serve(name, Script(absent=absent), identity="none", **keys)


@story
async def test_an_engine_without_a_list_of_models_answers_and_takes_turns_with_one_that_has_one() -> None:
    with running(unlisted("bare", "/v1/models,/health", probe="/"), serve("listed")) as plane:
        for name in ("bare", "listed", "bare"):
            assert (await ask(plane, name)).status == 200
        shown = plane.run("serves", "status").stdout
        assert f"\nbare: {NOT_PROVED}" in shown
        dry = plane.run("serves", "up", "listed", "--dry-run").stdout
        assert "'listed' in /v1/models" in dry
        assert (await ask(plane, "listed")).status == 200
        assert f"wait for GET /, at most 10m 00s; {NOT_PROVED}" in plane.run("serves", "up", "bare", "--dry-run").stdout
        assert f"bare: {NOT_PROVED}" in plane.run("doctor").stdout
        assert plane.serve("bare")["identity"] == "none"
        [entry] = [one for one in plane.ask("GET", "/v1/models")[1]["data"] if one["id"] == "bare"]
        assert entry["stoker"]["identity"] == "none"


@story
async def test_it_outlives_stoker_and_is_adopted_by_its_process() -> None:
    with running(unlisted("bare", "/v1/models,/health", health="none")) as plane:
        assert (await ask(plane, "bare")).status == 200
        pid = plane.serve("bare")["pid"]
        plane.signal(signal.SIGKILL)
        plane.exit_code()
        plane.start()
        assert plane.serve("bare")["pid"] == pid
        assert f"adopted bare, which was still running; {NOT_PROVED}" in plane.said()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: plane.serve("bare")["state"] != "ready", "its end is seen")


@story
async def test_the_watchdog_asks_its_probe_and_does_not_call_it_verified() -> None:
    with running(unlisted("bare"), '[watchdog]\ninterval = "200ms"') as plane:
        assert (await ask(plane, "bare")).status == 200

        def findings(plane: Plane) -> dict[str, str]:
            return {one["assertion"]: one["detail"] for one in plane.serve("bare")["watchdog"]["findings"]}

        await until(lambda: findings(plane).get("answers") == "GET /health is answered", lambda: str(findings(plane)))
        assert findings(plane)["exact_id"] == NOT_PROVED
        assert plane.serve("bare")["watchdog"]["health"] == "unknown"
        done = plane.run("watchdog", "--once")
        assert done.returncode == 0
        assert NOT_PROVED in done.stdout


def test_preflight_does_not_claim_to_know_the_model() -> None:
    with running(unlisted("bare")) as plane:
        assert plane.run("serves", "up", "bare").returncode == 0
        done = plane.run("eval", "preflight", "bare", "--only", "model", "--json")
        [finding] = json.loads(done.stdout)["findings"]
        assert (finding["outcome"], finding["seen"]) == ("not-applicable", NOT_PROVED)

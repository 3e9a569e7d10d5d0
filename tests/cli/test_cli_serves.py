"""`stoker serves` and `stoker slot`: what is shown, what is asked of the running Stoker, what comes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, error, serve_status, swap

from stoker.cli.main import run

Captured = pytest.CaptureFixture[str]


def test_status_shows_every_serve_and_why_one_backs_off(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(
        serve_status("fast", "ready", in_flight=2, memory=3 * 2**30),
        serve_status(
            "slow", "backoff", backoff=7.0, last_error="out of memory", swap_seconds_assumed=True, memory=2**30
        ),
        serve_status("new", swap_seconds=1.0, swap_seconds_assumed=True),
    )
    assert run(["serves", "status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["SERVE", "STATE", "SLOT"]
    assert " ".join(lines[1].split()) == "fast ready gpu0 production llama.cpp 2/4 0 12.0 s 3.0 GiB 4.0 s 9000"
    assert "about 4.0 s" in lines[2]
    assert lines[3].split()[-2:] == ["-", "-"], "nothing is known about its load"
    assert lines[-1] == "slow, last failure (next attempt in 7.0 s): out of memory"


def test_status_in_a_pipe_is_neither_cut_nor_coloured(stoker: FakeStoker, capsys: Captured) -> None:
    name = "a-very-long-name-of-a-serve-" * 4
    stoker.status(serve_status(name, "ready"))
    assert run(["serves", "status"]) == 0
    out = capsys.readouterr().out
    assert name in out
    assert "\x1b" not in out
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_status_of_one_serve_tells_everything_known(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "ready", facts={"n_ctx": 8192}), serve_status("slow"))
    assert run(["serves", "status", "fast"]) == 0
    out = capsys.readouterr().out
    assert "slow" not in out
    assert "n_ctx          8192" in out
    assert run(["serves", "status", "fast", "--json"]) == 0
    assert [s["name"] for s in json.loads(capsys.readouterr().out)] == ["fast"]


def test_status_of_one_that_was_never_tried_says_what_would_try_it(stoker: FakeStoker, capsys: Captured) -> None:
    never = {"replica_of": "fast", "served_name": "fast", "swap_seconds_assumed": True}
    stoker.status(
        serve_status("fast@gpu0", **never), serve_status("fast@box2", driver="external", slot=None, **never),
        serve_status("fast@box3", driver="external", last_error="401", **never),
        serve_status("fast@gpu1", "ready", **never),
    )  # fmt: skip
    assert run(["serves", "status", "fast@box2"]) == 0
    out = capsys.readouterr().out
    assert "fast@box2 was not tried yet: it is used as soon as it answers a health check, or `stoker serves up" in out
    assert run(["serves", "status", "fast"]) == 0
    out = capsys.readouterr().out
    assert "fast@gpu0 was not tried yet: a request for fast starts it when it needs one here, or" in out
    assert out.count("not tried yet") == 2


@pytest.mark.parametrize("command", ["down", "up", "drain", "status"])
def test_a_mistyped_serve_with_replicas_is_offered_by_its_own_name(
    stoker: FakeStoker, capsys: Captured, command: str
) -> None:
    stoker.status(serve_status("fast@gpu0", replica_of="fast"), serve_status("fast@gpu1", replica_of="fast"))
    assert run(["serves", command, "fats"]) == 2
    assert "did you mean 'fast'?" in capsys.readouterr().err


def test_status_can_be_asked_what_it_would_do(stoker: FakeStoker, capsys: Captured) -> None:
    assert run(["serves", "status", "--dry-run"]) == 0
    assert "GET /status" in capsys.readouterr().out
    assert stoker.asked == []


@pytest.mark.parametrize(
    "words",
    [["serves", "status"], ["serves", "up"], ["serves", "down"], ["serves", "drain"], ["slot", "switch"],
     ["serves", "up", "--dry-run"], ["serves", "down", "--dry-run"], ["serves", "logs"]],
    ids=" ".join,
)  # fmt: skip
def test_an_unknown_serve_names_the_nearest_and_nothing_is_asked(
    stoker: FakeStoker, capsys: Captured, words: list[str]
) -> None:
    assert run([*words, "fats"]) == 2
    assert "did you mean 'fast'?" in capsys.readouterr().err
    assert stoker.posts() == []


def test_up_switches_shows_phases_as_lines_and_tells_times(stoker: FakeStoker, capsys: Captured) -> None:
    fast, slow = serve_status("fast", "ready", in_flight=2), serve_status("slow")
    story = [
        swap("draining", "slow", ["fast"]),
        swap("draining", "slow", ["fast"], elapsed=1.2),
        swap("starting", "slow", ["fast"], elapsed=2.0),
        swap("starting", "slow", [], elapsed=2.5),
    ]
    play(stoker, fast, slow, story)
    assert run(["serves", "up", "slow"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "slow is ready after 3.0 s (drain 1.5 s, start 1.5 s)\n"
    assert captured.err.splitlines() == [
        "draining fast (2 in flight) (after 1.0 s)",
        "stopping fast (after 2.0 s, 4.0 s expected)",
        "starting slow (after 2.5 s, 4.0 s expected)",
    ]


def test_a_load_that_was_never_measured_has_no_expected_time(stoker: FakeStoker, capsys: Captured) -> None:
    slow = serve_status("slow", swap_seconds=1.0, swap_seconds_assumed=True)
    play(stoker, serve_status("fast"), slow, [swap("starting", "slow", [], elapsed=2.5)])
    assert run(["serves", "up", "slow"]) == 0
    assert capsys.readouterr().err.splitlines() == ["starting slow (after 2.5 s)"]


def play(stoker: FakeStoker, fast: dict[str, object], slow: dict[str, object], story: list[dict[str, object]]) -> None:
    """/status tells `story` step by step once the switch is asked for; the switch returns when it is told."""
    import threading

    from tests.cli.fake_stoker import status

    told, asked = threading.Event(), threading.Event()

    def status_now(body: object) -> tuple[int, object]:
        if not asked.is_set():
            return 200, status(fast, slow)
        if not story:
            told.set()
            return 200, status(fast, slow)
        return 200, status(fast, slow, swap=story.pop(0))

    def switch(body: object) -> tuple[int, object]:
        asked.set()
        assert told.wait(10)
        phases = {"drain": 1.5, "stop": 0.0, "start": 1.5, "ready": None}
        return 200, {"serve": "slow", "seconds": 3.0, "phases": phases}

    stoker.routes |= {"GET /status": status_now, "POST /admin/switch": switch}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from stoker.cli.console import load_progress

    monkeypatch.setattr(load_progress, "POLL_INTERVAL", 0.01)


def test_up_leaves_a_ready_serve_alone(stoker: FakeStoker, capsys: Captured) -> None:
    assert run(["serves", "up", "gpt-x"]) == 2  # the running Stoker does not know this alias
    capsys.readouterr()
    assert run(["serves", "up", "fast"]) == 0
    assert "already ready" in capsys.readouterr().out
    assert stoker.posts() == []


def test_up_without_a_name_loads_what_the_scheduler_names_and_stops_nothing(
    stoker: FakeStoker, capsys: Captured
) -> None:
    stoker.answer("POST /admin/switch", {"serve": "slow", "seconds": 1.0})
    stoker.answer("POST /admin/preview", {"serves": []})
    assert run(["serves", "up"]) == 0
    assert stoker.posts() == []
    assert "slot switch" in capsys.readouterr().out
    stoker.answer("POST /admin/preview", {"serves": ["slow"]})
    assert run(["serves", "up", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == [{"serve": "slow", "seconds": 1.0, "phases": {}}]
    asked = {"serve": "slow", "force": False, "drain_timeout": None, "evict": False}
    assert stoker.posts() == [("POST /admin/switch", asked)]


def test_a_dry_run_says_what_the_running_scheduler_says(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "ready"), serve_status("slow"))
    answer = {"serve": "slow", "ready": False, "victims": [], "waits": True, "refusal": None}
    stoker.answer("POST /admin/preview", answer)
    assert run(["serves", "up", "slow", "--dry-run"]) == 0
    assert "1. wait until what starts or stops in its slot now is done" in capsys.readouterr().out
    refusal = {"message": "serve 'slow' cannot load: its weights are cut off", "code": "cannot_load"}
    stoker.answer("POST /admin/preview", answer | {"refusal": refusal})
    assert run(["serves", "up", "slow", "--dry-run"]) == 1
    assert "1. refuse: serve 'slow' cannot load: its weights are cut off" in capsys.readouterr().out


def test_a_dry_run_tells_who_sleeps_and_who_is_woken(stoker: FakeStoker, config: Path, capsys: Captured) -> None:
    with config.open("a") as file:
        for name in ("dozes", "naps"):
            file.write(
                f'[[serve]]\nname = "{name}"\nengine = "vllm"\nmodel = "org/{name}"\nslot = "gpu0"\nsleep_level = 1\n'
            )
    stoker.status(serve_status("naps", "ready"), serve_status("dozes", temperature="asleep"))
    assert run(["slot", "switch", "dozes", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "drain naps (0 in flight, at most its slot's drain_timeout), then put it to sleep" in out
    assert "wake it: it sleeps" in out
    assert "start: " not in out


def test_a_dry_run_of_down_names_every_replica(stoker: FakeStoker, capsys: Captured) -> None:
    replicas = [serve_status(f"big@gpu{at}", "ready", replica_of="big", slot=f"gpu{at}") for at in range(2)]
    stoker.status(*replicas)
    assert run(["serves", "down", "big", "--dry-run", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)
    assert [plan["serve"] for plan in plans] == ["big@gpu0", "big@gpu1"]


def test_a_failed_switch_is_told_and_is_exit_1(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.answer("POST /admin/switch", error("slow exited with code 1", "start_failed"), 503)
    assert run(["slot", "switch", "slow"]) == 1
    assert "slow: slow exited with code 1" in capsys.readouterr().err
    assert run(["slot", "switch", "slow", "--json"]) == 1
    failed = json.loads(capsys.readouterr().out)["failed"]
    assert failed == [
        {"serve": "slow", "error": {"message": "slow exited with code 1", "code": "start_failed"},
         "loaded": {"gpu0": ["fast"]}}
    ]  # fmt: skip


def test_after_a_failed_switch_what_is_loaded_now_is_told_once_it_is_settled(
    stoker: FakeStoker, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous serve is started again, and if that fails too, the baseline is."""
    stoker.answer("POST /admin/switch", error("slow exited with code 1", "start_failed"), 503)
    starting = {"resident": [], "swap": {"phase": "starting", "target": "fast", "stopping": [], "elapsed": 1.0}}
    settled = [*[starting] * 5, {"resident": [], "swap": None}]  # whoever shows the progress asks, too
    monkeypatch.setattr("stoker.cli.console.loading.SETTLED_POLL", 0.0)

    def status(body: object) -> tuple[int, Any]:
        was_switched = any(asked == "POST /admin/switch" for asked, _ in stoker.asked)
        slot = settled[0] if len(settled) == 1 or not was_switched else settled.pop(0)
        serves = [serve_status("slow", state="backoff"), serve_status("fast", state="backoff", last_error="no memory")]
        document = {"version": "1", "pid": 1, "serves": serves, "slots": [{"name": "gpu0", **slot}]}
        return 200, document

    stoker.routes["GET /status"] = status
    assert run(["serves", "up", "slow"]) == 1
    told = capsys.readouterr().err
    assert "waiting until fast is loaded" in told
    assert "nothing is loaded in gpu0 now; fast did not start: no memory" in told


def test_after_a_failed_switch_the_serve_that_is_back_is_named(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.answer("POST /admin/switch", error("slow exited with code 1", "start_failed"), 503)
    assert run(["serves", "up", "slow"]) == 1
    assert "loaded in gpu0 now: fast" in capsys.readouterr().err


def test_a_switch_passes_force_and_drain_timeout_on(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.answer("POST /admin/switch", {"serve": "slow"})
    assert run(["slot", "switch", "slow", "--force", "--drain-timeout", "1500ms"]) == 0
    assert stoker.posts() == [("POST /admin/switch", {"serve": "slow", "force": True, "drain_timeout": 1.5})]
    assert run(["slot", "switch", "slow", "--drain-timeout", "5"]) == 2
    assert "unit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"), [(["up", "slow"], "stoker slot status"), (["down"], "stoker serves status")]
)
def test_ctrl_c_stops_watching_and_says_where_to_look(
    stoker: FakeStoker, capsys: Captured, monkeypatch: pytest.MonkeyPatch, words: list[str], hint: str
) -> None:
    from stoker.cli.console import load_progress

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(load_progress, "watch", interrupted)
    assert run(["serves", *words]) == 130
    assert hint in capsys.readouterr().err


def test_ctrl_c_while_the_previous_serve_comes_back_does_too(
    stoker: FakeStoker, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    def status(body: object) -> tuple[int, Any]:
        was_switched = any(asked == "POST /admin/switch" for asked, _ in stoker.asked)
        swap = {"phase": "starting", "target": "fast", "stopping": [], "elapsed": 1.0} if was_switched else None
        slots = [{"name": "gpu0", "resident": [], "swap": swap}]
        return 200, {"version": "1", "pid": 1, "serves": [serve_status("slow"), serve_status("fast")], "slots": slots}

    stoker.answer("POST /admin/switch", error("slow exited with code 1", "start_failed"), 503)
    stoker.routes["GET /status"] = status
    monkeypatch.setattr("stoker.cli.console.loading.time", SimpleNamespace(sleep=interrupted))
    assert run(["serves", "up", "slow"]) == 130
    told = capsys.readouterr().err
    assert "slow exited with code 1" in told
    assert "stoker slot status" in told


def test_down_stops_what_is_loaded_and_only_that(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.answer("POST /admin/unload", {})
    assert run(["serves", "down"]) == 0
    assert run(["serves", "down", "slow"]) == 0
    assert [body["serve"] for _, body in stoker.posts()] == ["fast"]
    assert capsys.readouterr().out == "fast is stopped\nslow is already stopped\n"


def test_drain_and_undrain_of_one_and_of_all(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.answer("POST /admin/drain", {})
    stoker.answer("POST /admin/undrain", {})
    assert run(["serves", "drain", "fast"]) == 0
    assert "stoker serves undrain fast" in capsys.readouterr().out
    assert run(["serves", "drain"]) == 0
    assert run(["serves", "undrain"]) == 0
    assert [body["serve"] for _, body in stoker.posts()] == ["fast", None, None]


def test_slots_are_listed_and_their_swaps_shown(stoker: FakeStoker, capsys: Captured) -> None:
    fast, slow = serve_status("fast", "draining"), serve_status("slow")
    stoker.status(fast, slow, swap=swap("draining", "slow", ["fast"]))
    assert run(["slot", "list"]) == 0
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()[-2:]] == ["fast", "slow"]
    assert run(["slot", "status"]) == 0
    assert "draining -> slow, 1.0 s of about 4.0 s" in capsys.readouterr().out
    assert run(["slot", "status", "gpu0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["waiting"] == 1
    assert run(["slot", "status", "gpu1"]) == 2
    assert "known slots: gpu0" in capsys.readouterr().err


def test_a_dry_run_tells_each_step_and_changes_nothing(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "ready", in_flight=2), serve_status("slow"), serve_status("odd"))
    assert run(["slot", "switch", "odd", "--force", "--dry-run", "--drain-timeout", "5s"]) == 0
    out = capsys.readouterr().out
    assert 'POST /admin/switch {"serve": "odd", "force": true, "drain_timeout": 5.0}' in out
    assert "1. check whether it can start, before fast is stopped: its command, its weights, memory" in out
    assert "2. drain fast (2 in flight, at most 5.0 s), then stop it (pid 100)" in out
    assert re.search(
        r"3\. start: MODE='a b' SERVICE_TOKEN=\*\*\* \S+/sh -c true some/model --port \d+ '--token=\{key\}' ", out
    )
    assert "--password ***" in out
    assert "'odd' in /v1/models" in out
    assert "if it does not become ready: start fast again, and if that fails too: slow, the baseline" in out
    assert "marker-secret" not in out
    assert stoker.posts() == []


def test_a_dry_run_tells_a_refusal_and_a_serve_that_is_up(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "ready"), serve_status("odd"))
    assert run(["serves", "up", "odd", "--dry-run"]) == 1
    assert "1. refuse: its status is rejected" in capsys.readouterr().out
    assert run(["serves", "up", "fast", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan[0]["steps"] == ["do nothing: it is already ready"]
    assert plan[0]["command"] is None
    assert run(["serves", "down", "--dry-run"]) == 0
    assert "1. drain fast" in capsys.readouterr().out


def test_a_dry_run_without_a_running_stoker_says_so_first(config: Path, capsys: Captured) -> None:
    assert run(["serves", "up", "odd", "--force", "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert f"1. fail: Stoker does not run here; start it first: stoker up --config {config.name}" in out
    assert "2. check whether it can start: " in out
    assert "3. start: " in out
    assert run(["serves", "down", "--dry-run"]) == 1


def test_a_dry_run_shows_the_engines_own_command_and_no_key(stoker: FakeStoker, capsys: Captured) -> None:
    assert run(["serves", "up", "slow", "--dry-run", "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    words = plan["command"].split()
    assert words[words.index("--alias") + 1] == "slow"
    assert next(w for w in words if "KEY=" in w).endswith("KEY=***")


def test_a_dry_run_shows_the_devices_of_the_slot(stoker: FakeStoker, config: Path, capsys: Captured) -> None:
    config.write_text(config.read_text().replace("[slots.gpu0]", "[slots.gpu0]\ndevices = [1]"))
    assert run(["serves", "up", "slow", "--dry-run", "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert "CUDA_VISIBLE_DEVICES=1" in plan["command"].split()


def test_a_dry_run_refuses_as_the_switch_would(stoker: FakeStoker, config: Path, capsys: Captured) -> None:
    (config.parent / "slow.gguf").unlink()
    assert run(["serves", "up", "slow", "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert "1. refuse: " in out
    assert "slow.gguf" in out
    assert "2. " not in out


def test_a_dry_run_tells_what_is_stopped_for_good_and_that_a_unit_is_started(
    stoker: FakeStoker, config: Path, capsys: Captured
) -> None:
    with config.open("a") as file:
        file.write(
            '[[serve]]\nname = "boxed"\ndriver = "systemd"\nmodel = "fast.gguf"\nport = 9999\n'
            'conflicts = ["container:old", "unit:ollama.service"]\n'
        )
    stoker.status(serve_status("boxed"))
    assert run(["serves", "up", "boxed", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "stop container old and disable it" in out
    assert "stop unit ollama.service and disable it" in out
    assert "run: systemctl start stoker-serve-boxed.service" in out


def test_a_dry_run_refuses_what_lies_outside_the_vault(stoker: FakeStoker, config: Path, capsys: Captured) -> None:
    config.write_text(config.read_text().replace('state = "state"', 'state = "state"\nvault = "vault"'))
    assert run(["serves", "up", "slow", "--dry-run"]) == 1
    assert "1. refuse: serve 'slow': `model` is " in capsys.readouterr().out


def test_a_ready_container_that_is_not_as_it_should_be_is_reported(
    stoker: FakeStoker, config: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "container 'box' runs on, but the image box:1 has changed"
    monkeypatch.setattr("stoker.cli.console.container_note.container_note", lambda serve, paths: note)
    stoker.status(serve_status("fast", "ready", driver="compose"))
    assert run(["serves", "up", "fast"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "fast is already ready\n"
    assert captured.err == f"stoker: fast: {note}; what to do: stoker doctor\n"
    assert run(["serves", "up", "fast", "--config", str(config)]) == 0
    assert capsys.readouterr().err.endswith(f"what to do: stoker doctor --config {config}\n")
    stoker.status(serve_status("fast", "ready"))
    assert run(["serves", "up", "fast"]) == 0
    assert capsys.readouterr().err == ""

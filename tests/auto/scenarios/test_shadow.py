"""A tier whose answers are well built and wrong: a judge in a cloud finds it out, and routing goes by what it says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios import typed
from tests.scenarios.plane import MODELS, Plane, free_port, poll, running, serve

from stoker_lab.testing.script.script import Script

ASKED, WRONG, RIGHT = "zanzibar-4711", "the answer is quagga-7781", "please-let-it-pass-5512"
SHADOW = '[router.shadow]\nrate = 1\njudge = "judge"'
DOOR = 'keys = [{ name = "open", value = "env:K_OPEN" }, { name = "here", value = "env:K_HERE", cloud = false }]'
KEYS = {"K_OPEN": "key-open-1-of-16-letters", "K_HERE": "key-here-2-of-16-letters"}


def says(text: str, **more: str) -> dict[str, Any]:
    return {"blocks": [{"type": "text", "text": text}], **more}


CHEAP = serve("a", Script(answers=[says(WRONG)]), slot=None, engine="llama.cpp", model=str(MODELS / "spark.gguf"))
GRADES = Script(
    id="vendor/judge",
    answers=[says('{"verdict": "pass"}', when=RIGHT), says('```json\n{"verdict": "fail"}\n```')],
    prompt_tokens=1000,
    completion_tokens=10,
)


UNCOUNTED = typed.Proposal("stoker profile show")
MEASURED_AGAIN = typed.Proposal(
    "stoker eval validator JUDGE --class CLASS", "its grades count at chat", 0, {"JUDGE": "judge"}
)


@contextmanager
def judge() -> Iterator[int]:
    """The port of somebody else's model, which grades."""
    port = free_port()
    with subprocess.Popen(GRADES.command(port), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield port
        finally:
            process.terminate()


@contextmanager
def graded(shadow: str = SHADOW, **options: Any) -> Iterator[Plane]:
    with judge() as port:
        tiers = f"""
[router]
unmeasured = "cheapest"
{shadow.removeprefix("[router]")}
[[tier]]
name = "cheap"
serve = "a"
[[tier]]
name = "judge"
base_url = "http://127.0.0.1:{port}/v1"
cloud = true
model = "vendor/judge"
{"classes = []" if "judge" in shadow else ""}
cost = {{ input = 3.0, output = 15.0 }}"""
        with running(CHEAP, tiers, **options) as plane:
            assert plane.admin("switch", serve="a")[0] == 200
            poll(lambda: plane.status()["routing"]["tiers"][0]["known"], "the tier was looked at")
            yield plane


def asked(plane: Plane, text: str = ASKED, task: str = "chat") -> dict[str, Any]:
    """The decision of one request that the cheap tier answers."""
    before = len(plane.decisions())
    document = {"model": f"auto:{task}", "messages": [{"role": "user", "content": text}]}
    status, answer = plane.ask("POST", "/v1/chat/completions", document)
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"] == WRONG
    poll(lambda: len(plane.decisions()) > before, "it is recorded")
    return plane.decisions(1)[0]


def shadow(plane: Plane) -> dict[str, Any]:
    return dict(plane.status()["routing"]["shadow"])


def wait(plane: Plane, graded: int) -> None:
    poll(lambda: shadow(plane)["graded"] == graded, lambda: f"{graded} are graded: {shadow(plane)}")


def said(plane: Plane, *words: str) -> str:
    done = plane.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def allow(plane: Plane) -> None:
    """A profile as a suite would have made it, of what runs."""
    kept = plane.state / "fingerprints.json"
    poll(kept.exists, lambda: f"{kept} is written")
    mark = json.loads(kept.read_text())["a"]
    row = {"tier": "cheap", "task_class": "chat", "n": 27, "passed": 27, "verdict": "allow", "at": 1.0,
           "identity": mark["identity"], "execution": mark["execution"]}  # fmt: skip
    (plane.state / "profile.json").write_text(json.dumps({"version": 1, "rows": [row]}))
    said(plane, "reload")


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with graded() as plane:
        yield plane


@contextmanager
def cases_of(plane: Plane) -> Iterator[str]:
    """A file with answers of which is known whether they are right."""
    cases = plane.directory / "cases.jsonl"
    asked = [{"role": "user", "content": "How?"}]
    told = [(f"{number} {text}", text is RIGHT) for number in range(20) for text in (RIGHT, "in no way")]
    lines = [{"task_class": "chat", "messages": asked, "answer": text, "right": right} for text, right in told]
    cases.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    yield str(cases)
    cases.unlink()


def measure_the_judge(plane: Plane) -> str:
    with cases_of(plane) as cases:
        return said(plane, "eval", "validator", "judge", "--class", "chat", "--cases", cases)


def test_a_tier_that_answers_wrong_in_good_form_is_found_out_by_a_judge_that_was_measured(plane: Plane) -> None:
    allow(plane)
    decisions = []
    for number in range(1, 20):
        decisions.append(asked(plane))
        wait(plane, number)
    why = "nobody measured how often the judge 'judge' is wrong about chat: stoker eval validator judge --class chat"
    assert f"fail by judge judge; it does not count: {why}" in said(plane, "explain", decisions[0]["id"])
    [uncounted] = shadow(plane)["uncounted"]
    assert (uncounted["tier"], uncounted["class"], uncounted["why"]) == ("cheap", "chat", why)
    typed.works(plane, typed.typed(plane, "stoker decisions --routes")[1], UNCOUNTED._replace(promise=why))
    check = str(json.loads(said(plane, "config", "check", "--json"))["warnings"])
    assert "has not passed a measurement for chat, creative" in check
    assert "its grades count at chat" in measure_the_judge(plane)
    assert shadow(plane)["uncounted"] == []
    decisions.append(asked(plane))
    wait(plane, 20)
    assert [one["routed"]["verify"] for one in decisions] == ["observe"] * 20, "it was allowed"
    last = asked(plane, RIGHT)
    wait(plane, 21)
    assert (last["routed"]["tier"], last["routed"]["verify"]) == ("cheap", "hold-tools"), "it is checked again"
    told = said(plane, "explain", last["id"])
    assert "the judge contradicts the suite (live answers: 0 of 20 passed)" in told
    assert "graded       pass by judge judge\n" in told
    assert plane.status()["routing"]["stale"] == []
    assert [one["class"] for one in plane.status()["routing"]["contradictions"]] == ["chat"]
    doubted = typed.typed(plane, "stoker doctor")[1]
    assert "the judge contradicts the suite" in doubted
    with cases_of(plane) as cases:
        typed.works(plane, doubted, MEASURED_AGAIN._replace(adds=f"--cases {cases}"))

    told = said(plane, "decisions", "--routes")
    assert "silent failures  20 of 21 graded answers wrong" in told
    failures = json.loads(said(plane, "decisions", "--routes", "--json"))["silent_failures"]
    assert (failures["wrong"], failures["graded"], set(failures["classes"])) == (20, 21, {"chat"})
    [row] = json.loads(said(plane, "profile", "show", "--json"))
    assert (row["passed"], row["live"]["passed"], row["live"]["n"]) == (27, 1, 21)
    assert re.search(r"LIVE\n.* deny, 1 of 21$", said(plane, "profile", "show"), re.MULTILINE)

    found = shadow(plane)
    assert (found["passed"], found["dropped"], found["queued"]) == (1, {}, 0)
    assert found["spent_today"] == pytest.approx(21 * (1000 * 3.0 + 10 * 15.0) / 1e6)
    text = str(plane.ask("GET", "/metrics")[1])
    assert 'stoker_shadow_graded_total{task="chat",tier="cheap",verdict="fail"} 20.0' in text
    assert 'stoker_tier_contradicted{task="chat",tier="cheap"} 1.0' in text


def test_the_judge_was_shown_what_was_asked_and_answered_as_data(plane: Plane) -> None:
    [body, *_] = [json.loads(one["body"]) for one in plane.received("judge", "/v1/chat/completions")]
    assert body["model"] == "vendor/judge"
    assert body["temperature"] == 0
    system, user = (str(one["content"]) for one in body["messages"])
    [nonce] = set(re.findall(r"<answer ([0-9a-f]{32})>", user))
    assert nonce in system
    assert f"<answer {nonce}>\n{WRONG}\n</answer {nonce}>" in user
    assert ASKED in user


def test_nothing_of_what_was_graded_is_in_any_file(plane: Plane) -> None:
    """Not in STATE, not in a log, not in what was printed; the serve's own log is not Stoker's to write."""
    searched = [path for path in plane.directory.rglob("*") if path.is_file()]
    assert {"live.json", "stoker.log", "out.txt", "profile.json"} <= {path.name for path in searched}
    for path in searched:
        if path != plane.config and path.parent.name != "serves" and path.name not in ("a.log",):
            body = path.read_bytes()
            for word in (ASKED, WRONG, RIGHT, "quagga", "verdict\\"):
                assert word.encode() not in body, path
    assert ASKED not in json.dumps(plane.status())
    assert ASKED not in json.dumps(plane.decisions())


def test_grades_outlive_a_restart_and_go_when_a_suite_measures_again(plane: Plane) -> None:
    before = said(plane, "profile", "show", "--json")
    plane.process.terminate()  # type: ignore[union-attr]
    assert plane.exit_code() == 0
    plane.start()
    assert plane.admin("switch", serve="a")[0] == 200
    poll(lambda: plane.status()["routing"]["tiers"][0]["known"], "the tier was looked at")
    assert said(plane, "profile", "show", "--json") == before
    assert shadow(plane)["spent_today"] > 0
    assert asked(plane)["routed"]["verify"] == "hold-tools"
    wait(plane, 1)
    row = json.loads((plane.state / "profile.json").read_text())
    row["rows"][0] |= {"n": 28, "passed": 28}
    (plane.state / "profile.json").write_text(json.dumps(row))
    said(plane, "reload")
    poll(lambda: not json.loads((plane.state / "live.json").read_text())["rows"], "the grades are gone")
    assert asked(plane)["routed"]["verify"] == "observe"
    wait(plane, 2)


def test_by_default_nobody_is_asked_to_grade() -> None:
    with graded("[router]") as plane:
        asked(plane)
        assert plane.status()["routing"]["shadow"] is None
        assert not (plane.state / "live.json").exists()
        assert plane.serve("judge")["state"] == "stopped", "it was not even looked at"
        assert "silent failures  not measured" in said(plane, "decisions", "--routes")


def test_what_a_key_may_not_send_to_a_cloud_is_not_graded_in_one() -> None:
    with graded(front_door=DOOR, environment=KEYS) as plane:
        document = {"model": "auto:chat", "messages": [{"role": "user", "content": ASKED}]}
        for key in ("K_HERE", "K_OPEN"):
            command = ["curl", "-sf", f"http://127.0.0.1:{plane.port}/v1/chat/completions", "-d", json.dumps(document),
                       "-H", "content-type: application/json", "-H", f"authorization: Bearer {KEYS[key]}"]  # fmt: skip
            assert WRONG in subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        wait(plane, 1)
        assert shadow(plane)["dropped"] == {"not_permitted": 1}
        assert len(plane.received("judge", "/v1/chat/completions")) == 1


def test_a_file_of_grades_that_is_none_is_put_aside_and_stops_nothing(tmp_path: Path) -> None:
    with graded() as plane:
        plane.signal(15)
        assert plane.exit_code() == 0
        (plane.state / "live.json").write_text("{")
        plane.start()
        assert (plane.state / "live.json.unreadable").read_text() == "{"
        assert shadow(plane)["graded"] == 0

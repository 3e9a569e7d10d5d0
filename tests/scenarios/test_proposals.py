"""What a message proposes is typed where it was proposed, as it stands, and does what was promised.

`proposing` has the situations; tests/docs/test_proposals.py holds that each distinct command that the program proposes
is in one of them.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.fleet.memory.model_files import gguf
from tests.importing.ollama_home import SPARK, OllamaHome
from tests.lab.scenarios import measured
from tests.lab.scenarios.test_promotion import evidence
from tests.scenarios import preloaded, proposing, typed
from tests.scenarios.plane import MODELS, Plane, free_port, llama, poll, running, serve
from tests.scenarios.proposing import (
    BROKEN,
    CLIENTS,
    COMPARED,
    EXPERIMENT,
    LOOKED_INTO,
    NOT_INSTALLED,
    OF_A_REQUEST,
    OLLAMA,
    PROJECT,
    REMOVED,
    REPLACED,
    ROLLED_BACK,
    ROUTING,
    STAGED,
    STARTED,
    TAKEN,
    TAKEN_SINCE,
    UNGRADED,
    VARIABLES,
    WATCHED,
)  # fmt: skip

from stoker.domain.run import Finding, Outcome, RunKind
from stoker_lab.suites import fixture
from stoker_lab.testing.script.script import Script
from stoker_setup.commands import init

ROUTED = """
[[tier]]
name = "small"
serve = "fast"

[[tier]]
name = "critic"
serve = "slow"
classes = []
cost = { input = 1.0, output = 1.0 }

[router.shadow]
judge = "critic"
rate = 0.01
"""
GATED = """
[router.classifier]
serve = "slow"

[gate.default]
conditions = ["preflight"]

[alias.main]
serve = "fast"
gate = "default"

[gate.strict]
conditions = ["math-short.lower >= 0.96"]

[orchestrator.plain]
worker = "fast"

[orchestrator.routed]
worker = "auto"
policy = "block_by_block"

[orchestrator.writer]
worker = "fast"
validator = "slow"
"""
ROW = {"tier": "small", "task_class": "chat", "identity": "another", "execution": "another", "n": 27, "passed": 27,
       "verdict": "allow", "source": "bootstrap", "at": 1.0}  # fmt: skip
ALONE = '[[serve]]\nname = "a"\nmodel = "other.gguf"\ncontext = 256\n'
FILES = {
    "embedded.toml": ALONE + 'extra_args = ["--mlock"]\n',
    "missing.toml": '[[serve]]\nname = "a"\nmodel = "gone.gguf"\n\n'
    '[[serve]]\nname = "d"\nengine = "openai"\ncmd = "nonesuch --port {port}"\n',
    "prompt.toml": ALONE + '[orchestrator.w]\nworker = "a"\nworker_prompt = "none.md"\n',
    "sglang.toml": '[[serve]]\nname = "a"\nengine = "sglang"\nmodel = "org/a"\ncontext = "auto"\n',
    "small.toml": ALONE.replace("other", "long"),
    "typo.toml": ALONE + "keep_loaded = true\npreload = true\n",
    "mine.json": json.dumps({"version": 1, "rows": []}),
    "lite.yaml": "model_list:\n  - {model_name: a, litellm_params: {model: ollama/a}}\n",
    "performance.yaml": "performance: {disabled: false}\nmodels: {a: {cmd: 'llama-server --port ${PORT} -m a.gguf'}}\n",
    "rich.yaml": "model_list:\n  - {model_name: a, litellm_params: {model: ollama/a}}\n"
    "litellm_settings: {max_budget: 3, success_callback: [x]}\n",
    "config.yaml": "models:\n  a:\n    cmd: llama-server --port ${PORT} -m /models/a.gguf\n",
}  # fmt: skip
"""What lies in the folders where somebody types."""


def put(folder: Path) -> None:
    spark = (MODELS / "spark.gguf").read_bytes()
    for name in ("models", "elsewhere", "measured"):
        (folder / name).mkdir(mode=0o700)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    facts = {"general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 131072}
    gguf(folder / "long.gguf", facts, [("x", (32,), 0, 0)], 128)
    (folder / "other.gguf").write_bytes(spark)
    (folder / "models" / "spark.gguf").write_bytes(spark)
    (folder / "changed.gguf").write_bytes(spark + b"x")
    for at, speed in ((1.0, 1.0), (2.0, 2.0)):
        measured.benchmark(folder / "measured", "a", at, speed)


def lines(situations: list[typed.Situation]) -> pytest.MarkDecorator:
    """In this order: one is what the next one is about."""
    return pytest.mark.parametrize("one", situations, ids=[one.line for one in situations])


@pytest.fixture(scope="module")
def stopped() -> Iterator[Plane]:
    """It does not run; the folder has its configuration."""
    with running(serve("fast"), started=False) as plane:
        put(plane.directory)
        yield plane


@pytest.fixture(scope="module")
def runs() -> Iterator[Plane]:
    """`fast` is loaded, others are not; `odd` is rejected."""
    with running(
        serve("fast", preload=True), serve("slow", slot=None), llama("tiny", slot=None, context=2048, parallel=1),
        serve("odd", status="rejected-wrong answers"), serve("named", slot=None, model="vault:named.gguf"), ROUTED,
        '[alias.main]\nserve = "fast"',
    ) as plane:  # fmt: skip
        put(plane.directory)
        poll(lambda: plane.serve("fast")["state"] == "ready", "fast is ready")
        asked = {"model": "fast", "messages": [{"role": "user", "content": "hello"}]}
        assert plane.ask("POST", "/v1/chat/completions", asked)[0] == 200
        yield plane


@pytest.fixture(scope="module")
def keyed() -> Iterator[Plane]:
    keys = 'auth = "keys"\nollama_api = "refuse"\nkeys = [{ name = "fixed", value = "env:FIXED" }]'
    environment = {"FIXED": "a-key-of-the-file-0123456789"}
    with running(serve("fast", preload=True), front_door=keys, environment=environment) as plane:
        (plane.directory / "nokeys.toml").write_text('[front_door]\nauth = "keys"\n' + ALONE)
        poll(lambda: plane.serve("fast")["state"] == "ready", "fast is ready")
        yield plane


def put_a_larger_suite(folder: Path) -> None:
    """Twice the fixtures of math-short that ship."""
    folder.mkdir()
    shipped = (Path(fixture.__file__).parent / "data" / "math-short.jsonl").read_text()
    (folder / "math-short.jsonl").write_text(shipped + shipped.replace("math-short-", "math-short-again-"))


@pytest.fixture(scope="module")
def routed() -> Iterator[Plane]:
    """`small` was measured at chat, as another model."""
    local = serve("fast", preload=True, model="./weights", engine="llama.cpp", served_name="fast")
    cloud = serve("slow", slot=None, preload=True, translation={"cloud": True})
    crash = serve("crash", Script(exit_code=3, last_words="out of luck"), slot=None)
    with running(local, cloud, crash, ROUTED, GATED, started=False) as plane:
        (plane.directory / "weights").mkdir()
        put_a_larger_suite(plane.directory / "suites")
        for name in ("model.gguf", "chat_template.jinja"):  # so that its fingerprint can be known
            (plane.directory / "weights" / name).write_text(name)
        plane.start()
        poll(lambda: any(one["known"] for one in plane.status()["routing"]["tiers"]), "a tier was looked at")
        (plane.state / "profile.json").write_text(json.dumps({"version": 1, "rows": [ROW]}))
        assert plane.admin("reload")[0] == 200
        yield plane


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, stopped: Plane) -> typed.Folder:
    """A home without a configuration."""
    folder = stopped.directory / "home"
    folder.mkdir()
    put(folder)
    return typed.Folder(folder, {**stopped.environment, "HOME": str(folder)})


@lines(proposing.STOPPED)
def test_where_none_runs(stopped: Plane, one: typed.Situation) -> None:
    typed.holds(stopped, one)


@lines([*proposing.RUNS, *proposing.PAGE])
def test_where_one_runs(runs: Plane, one: typed.Situation) -> None:
    typed.holds(runs, one)


@lines([*proposing.KEYS, *proposing.OF_KEYS_PAGE])
def test_where_requests_need_keys(keyed: Plane, one: typed.Situation) -> None:
    typed.holds(keyed, one)


@lines(proposing.QUALITY)
def test_where_tiers_gates_and_orchestrators_are_configured(routed: Plane, one: typed.Situation) -> None:
    typed.holds(routed, one)


@lines(proposing.EMPTY)
def test_where_there_is_no_configuration(empty: typed.Folder, one: typed.Situation) -> None:
    typed.holds(empty, one)


def test_what_an_experiment_prints_is_typed_while_it_runs(stopped: Plane) -> None:
    line = f"stoker serves experiment --model other.gguf --context 256 --port {free_port()}"
    begun = typed.began(stopped, line)
    try:
        poll(lambda: "preflight it" in begun.printed() or begun.poll() is not None, "it answers")
        said = begun.printed()
        typed.works(stopped, said, EXPERIMENT[0])
        typed.works(stopped, said, EXPERIMENT[1])
    finally:
        begun.send_signal(signal.SIGINT)
        begun.communicate(60)


def test_where_the_port_is_taken_another_one_is_proposed_with_all_that_was_given(stopped: Plane) -> None:
    with socket.create_server(("127.0.0.1", stopped.port)):
        typed.works(stopped, typed.typed(stopped, "stoker doctor")[1], TAKEN)
        line = f"stoker serves experiment --model other.gguf --context 256 --served-name mine --port {stopped.port}"
        answer = typed.works(
            stopped, typed.typed(stopped, line)[1], typed.Proposal("stoker serves experiment 1", STARTED)
        )
        assert "model 'mine'" in answer


def test_where_the_port_is_taken_after_it_was_looked_at_another_one_is_proposed(stopped: Plane) -> None:
    """A service manager that hands over sockets leaves it to the start."""
    place = typed.Folder(stopped.directory, {**stopped.environment, "LISTEN_FDS": "1"})
    with socket.create_server(("127.0.0.1", stopped.port)):
        said = typed.typed(place, "stoker up")[1]
        typed.works(place, said, TAKEN_SINCE._replace(fills={"N": str(free_port())}))


def test_where_nothing_can_be_served_a_model_is_put_there_as_proposed(empty: typed.Folder) -> None:
    home = empty.directory / "bare"
    (home / "work").mkdir(parents=True)
    place = typed.Folder(home / "work", {**empty.environment, "HOME": str(home)})
    begun = preloaded.Command(("init",), place.directory, place.environment, without_shipped_models)
    said = "".join(begun.communicate(60))
    vault = Path(re.findall(r"put a GGUF file into (\S+),", said)[0])
    vault.mkdir(parents=True)
    (vault / "spark.gguf").write_bytes(SPARK.read_bytes())
    typed.works(place, said, NOT_INSTALLED)
    assert "spark" in (place.directory / "stoker.toml").read_text()


def without_shipped_models() -> None:
    init.shipped_models = list


def test_a_staged_model_is_added_measured_and_promoted_as_proposed() -> None:
    gate = '[gate.default]\nconditions = ["preflight"]'
    alias = '[alias.main]\nserve = "fast"\ngate = "default"\nwatch = "20s"\ncheck_every = "200ms"'
    with running(serve("fast"), gate, alias) as plane:
        said = typed.typed(plane, f"stoker stage {MODELS / 'spark.gguf'} --as new.gguf")[1]
        table = said.partition("for stoker.toml:\n")[2].partition("next:")[0]
        with plane.config.open("a") as file:
            file.write(textwrap.dedent(table) + "context = 512\n")
        typed.works(plane, said, STAGED[0])
        assert typed.typed(plane, "stoker serves up new")[0] == 0
        typed.works(plane, said, STAGED[1])
        id = evidence(plane)
        typed.works(plane, said, STAGED[2])
        refused = typed.typed(plane, "stoker promote main")[1]
        typed.works(plane, refused, STAGED[3])
        assert id


def test_what_is_watched_no_longer_is_seen_as_proposed() -> None:
    lasting = serve("lasting", Script(stop_after=3.0), slot=None, preload=True, stop_grace="10s")
    with running(serve("slow", Script(ready_after=20.0)), lasting) as plane:
        begun = typed.began(plane, "stoker serves up slow")
        poll(lambda: plane.serve("slow")["state"] == "starting", "it loads")
        begun.send_signal(signal.SIGINT)
        typed.works(plane, "".join(begun.communicate(60)), WATCHED[0])
        poll(lambda: plane.serve("lasting")["state"] == "ready", "the other one is ready")
        begun = typed.began(plane, "stoker serves down lasting")
        poll(lambda: plane.serve("lasting")["state"] == "stopping", "it stops")
        begun.send_signal(signal.SIGINT)
        typed.works(plane, "".join(begun.communicate(60)), WATCHED[1])


def test_a_canary_that_mismatches_or_is_silent_is_looked_into_as_proposed() -> None:
    with running(serve("fast", Script(text="a"), preload=True)) as plane:
        poll(lambda: plane.serve("fast")["state"] == "ready", "fast is ready")
        assert typed.typed(plane, "stoker eval canary fast --record")[0] == 0
        plane.scripted("fast", text="b")
        said = typed.typed(plane, "stoker eval canary fast --unknown-ok")[1]
        this, baseline = (path.stem for path in sorted((plane.state / "results").glob("*.json"))[::-1])
        typed.works(plane, said, LOOKED_INTO[0]._replace(fills={"BASELINE": baseline, "THIS": this}))
        plane.scripted("fast", error_status=500)
        said = typed.typed(plane, "stoker eval canary fast --unknown-ok")[1]
        typed.works(plane, said, LOOKED_INTO[1])
        typed.works(plane, typed.typed(plane, "stoker eval soak fast --for 1m")[1], LOOKED_INTO[2])


def test_a_variable_that_an_import_lacks_is_set_as_proposed(empty: typed.Folder) -> None:
    files = {
        "llama-swap": "models:\n  a:\n    cmd: llama-server --port ${PORT} -m ${env.WHERE}/a.gguf\n",
        "litellm": "model_list:\n  - model_name: a\n"
        "    litellm_params: {model: ollama/a, api_base: os.environ/WHERE}\n",
    }
    for proposal, (program, text) in zip(VARIABLES, files.items(), strict=True):
        (empty.directory / f"{program}.yaml").write_text(text)
        said = typed.typed(empty, f"stoker import {program} {program}.yaml --check")[1]
        assert f"WHERE=... stoker import {program} ..." in said
        there = empty._replace(environment={**empty.environment, "WHERE": "http://127.0.0.1:1/v1"})
        typed.works(there, said, proposal._replace(adds=f"{program}.yaml --check"))


def test_ollamas_models_are_taken_over_as_proposed(empty: typed.Folder) -> None:
    home = empty.directory / "ollama"
    home.mkdir()
    store = OllamaHome(home / ".ollama" / "models")
    store.model("spark/latest", SPARK.read_bytes())
    store.model("odd/latest", None)
    place = typed.Folder(home, {**empty.environment, "HOME": str(home)})
    (home / "stoker.toml").write_text("# mine\n" + ALONE)
    said = typed.typed(place, "stoker init --path try.toml")[1]
    typed.works(place, said, OLLAMA[1])
    typed.works(place, said, OLLAMA[0])
    store.file(store.blob(SPARK.read_bytes())).unlink()
    typed.works(place, typed.typed(place, "stoker doctor --config try.toml")[1], OLLAMA[2])
    assert (home / "stoker.toml").read_text() == "# mine\n" + ALONE


def test_all_numbers_of_two_results_are_compared_as_proposed(stopped: Plane) -> None:
    ids = [path.stem for path in sorted((stopped.directory / "measured" / "results").glob("*.json"))]
    said = typed.typed(stopped, f"stoker results compare {ids[0]} {ids[1]} --state measured")[1]
    typed.works(stopped, said, COMPARED)


def test_why_no_answer_could_be_graded_is_seen_as_proposed(stopped: Plane) -> None:
    state = stopped.directory / "ungraded"
    state.mkdir(mode=0o700)
    nothing = Finding("chat", Outcome.UNDECIDED, "no answer of 12 could be graded")
    for name in ("a", "b"):
        measured.store(state, RunKind.BOOTSTRAP, name, 1.0, Outcome.UNDECIDED, [nothing], {}, {})
    said = typed.typed(stopped, "stoker eval compare a b --stored --for chat --state ungraded")[1]
    typed.works(stopped, said, UNGRADED)


def test_what_a_client_is_told_is_typed_by_the_operator(runs: Plane) -> None:
    status, answer = runs.ask("POST", "/api/pull", {"model": "nobody", "stream": False})
    assert status >= 400
    typed.works(runs, json.dumps(answer), CLIENTS[0])
    loaded = runs.slot()["resident"][0]
    other = next(name for name in ("fast", "odd") if name != loaded)
    said = runs.admin("switch", serve=other, evict=False, force=True)[1]
    typed.works(runs, json.dumps(said), CLIENTS[1])
    id = runs.decisions(1)[0]["id"]
    typed.works(runs, typed.typed(runs, "page request.js")[1], OF_A_REQUEST._replace(fills={"1": id}))


def test_serves_that_would_outlive_their_units_are_stopped_as_proposed(runs: Plane) -> None:
    units = Path(runs.environment["HOME"], ".config", "systemd", "user")
    assert typed.typed(runs, "stoker install systemd --user --root root")[0] == 0
    (written,) = (path.parent for path in (runs.directory / "root").rglob("stoker.service"))
    shutil.copytree(written, units)
    words = ("install", "systemd", "--user", "--remove", "--dry-run")
    said = "".join(preloaded.Command(words, runs.directory, runs.environment, at_home).communicate(60))
    shutil.rmtree(units)
    typed.works(runs, said, REMOVED)


def at_home() -> None:
    """Systemd's directory of a user is in the home of the account, whatever $HOME is."""
    mine = list(pwd.getpwuid(os.geteuid()))
    account = pwd.struct_passwd([*mine[:5], os.environ["HOME"], mine[6]])
    pwd.getpwuid = lambda uid: account


def test_where_ollamas_api_is_refused_its_replacement_is_typed(keyed: Plane) -> None:
    status, answer = keyed.ask("POST", "/api/pull", {"model": "nobody", "stream": False})
    assert status >= 400
    typed.works(keyed, answer["error"], CLIENTS[2])


def proposed(plane: Plane, task_class: str) -> str:
    return typed.proposed(refused(plane, task_class), ROUTING[0].text)


def refused(plane: Plane, task_class: str) -> str:
    asked = {"model": f"auto:{task_class}", "messages": [{"role": "user", "content": "plan it"}]}
    status, answer = plane.ask("POST", "/v1/chat/completions", asked)
    assert status == 403
    return str(answer["error"]["message"])


def test_where_no_tier_may_work_for_an_orchestrator_it_is_measured_as_proposed(routed: Plane) -> None:
    """Its model is `auto`, which says why, and what to type."""
    asked = {"model": "routed", "messages": [{"role": "user", "content": "plan it"}]}
    address = f"http://127.0.0.1:{routed.port}/v1/chat/completions"
    reply = httpx.post(address, json=asked, headers={"x-stoker-class": "planning"}, timeout=30)
    assert reply.status_code == 403
    assert typed.proposed(reply.json()["error"]["message"], ROUTING[0].text) == proposed(routed, "planning")
    considered = routed.decision(reply.headers["x-request-id"])["candidates"]
    assert [one["serve"] for one in considered] == ["fast", "slow"], "`stoker explain` says why each may not"


def test_a_tier_that_may_not_answer_or_may_have_changed_is_measured_as_proposed(routed: Plane) -> None:
    typed.works(routed, refused(routed, "planning"), ROUTING[0])
    mark = json.loads((routed.state / "fingerprints.json").read_bytes())["fast"]
    stale = {**ROW, "task_class": "planning"}
    now = {**ROW, "identity": mark["identity"], "execution": mark["execution"]}
    (routed.state / "profile.json").write_text(json.dumps({"version": 1, "rows": [now, stale]}))
    assert routed.admin("reload")[0] == 200
    typed.works(routed, refused(routed, "planning"), ROUTING[1])
    assert routed.admin("reload")[0] == 200, "after the one that the interrupted command may have asked for"
    text = routed.config.read_text()
    routed.write(text.replace('served_name = "fast"', 'served_name = "fast"\nenv = { SPEED = "1" }'))
    typed.works(routed, typed.typed(routed, "stoker reload")[1], ROUTING[2])


def test_a_project_is_given_on_the_machine_itself_as_proposed(routed: Plane) -> None:
    (routed.directory / "project").mkdir()
    asked = {"model": "plain", "messages": [{"role": "user", "content": "hello"}]}
    address = f"http://127.0.0.1:{routed.port}/v1/chat/completions"
    reply = httpx.post(address, json=asked, headers={"x-stoker-project": str(routed.directory)}, timeout=30)
    assert reply.status_code == 403
    typed.works(routed, reply.json()["error"]["message"], PROJECT)


def test_a_broken_quality_profile_is_put_back_as_proposed(routed: Plane) -> None:
    (routed.directory / "mine.json").write_text(FILES["mine.json"])
    (routed.state / "profile.json.d").mkdir(exist_ok=True)
    (routed.state / "profile.json").write_text("{")
    typed.works(routed, typed.typed(routed, "stoker profile show")[1], BROKEN)
    assert json.loads((routed.state / "profile.json").read_bytes())["rows"] == []


def test_why_a_promotion_was_taken_back_is_seen_as_proposed() -> None:
    gate = '[gate.default]\nconditions = ["preflight"]'
    alias = '[alias.main]\nserve = "old"\ngate = "default"\nwatch = "20s"\ncheck_every = "200ms"'
    new = serve("new", Script(text="a"), slot=None, preload=True)
    with running(serve("old", slot=None), new, gate, alias) as plane:
        poll(lambda: plane.serve("new")["state"] == "ready", "new is ready")
        begun = typed.began(plane, f"stoker promote main new --evidence {evidence(plane)} --wait")
        poll(lambda: plane.status()["aliases"][0]["serve"] == "new", "it is promoted")
        time.sleep(1.0)  # the canary has looked by now
        plane.scripted("new", text="b")
        said = "".join(begun.communicate(60))
        poll(lambda: list((plane.state / "results").glob("*-promotion-new-*.json")), "its result is kept")
        typed.works(plane, said, ROLLED_BACK)


@pytest.mark.parametrize("line", ["stoker up", "stoker up --state state"])
def test_where_one_runs_on_the_same_state_each_way_out_works(line: str) -> None:
    with running(serve("fast")) as plane:
        _, said = typed.typed(plane, line)
        (beside,) = (one for one in typed.printed(said) if "--port" in one)
        assert typed.typed(plane, beside)[0] == 0, said
        assert plane.status()["serves"], "the first one goes on"
        (replacing,) = (one for one in typed.printed(said) if "--replace" in one)
        assert line != "stoker up" or replacing == REPLACED.text
        code, said = typed.typed(plane, replacing)
        assert (code, plane.exit_code()) == (0, 0), said


def test_a_serve_that_cannot_load_is_tried_again_as_proposed(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    with running(llama("cut", model=str(model.with_suffix("")))) as plane:
        assert typed.typed(plane, "stoker serves up cut")[0] == 1
        for line in ("stoker serves status", "stoker watchdog --once"):
            assert "stoker serves up cut" in typed.printed(typed.typed(plane, line)[1])
        model.write_bytes((MODELS / "spark.gguf").read_bytes())
        said = typed.typed(plane, "stoker serves status --config stoker.toml")[1]
        assert "stoker serves up cut --config stoker.toml" in typed.printed(said)
        typed.works(plane, said, typed.Proposal("stoker serves up 1", "cut is ready"))
        said = typed.typed(plane, "stoker serves drain cut --state state")[1]
        assert "stoker serves undrain cut --state state" in typed.printed(said)

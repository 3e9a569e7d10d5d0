"""`stoker add` and `stoker remove`: a model is fetched, named in stoker.toml and checked, or nothing has changed."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.cli.fake_stoker import FakeStoker
from tests.setup.hub_stand_in import HubStandIn

import stoker
from stoker.cli.main import run
from stoker.config.load import load
from stoker.fleet.memory.devices import Machine
from stoker.fleet.memory.host import HostMemory
from stoker.fleet.weights import http_download


class DiskUsage(NamedTuple):
    total: int
    used: int
    free: int


Captured = pytest.CaptureFixture[str]
MODELS = Path(stoker.__file__).parent / "models"
SPARK, EMBER = MODELS / "spark.gguf", MODELS / "ember.gguf"
PROGRAM = [sys.executable, "-P", "-c", "from stoker.cli.entry import main; main()"]


@pytest.fixture
def hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    """Of a machine without a GPU."""
    for module in ("stoker_setup.hub", "stoker.fleet.weights.http_download"):
        monkeypatch.setattr(f"{module}.PAUSE", 0.0)
    monkeypatch.setattr("stoker_setup.bandwidth.main_memory", lambda: 50e9)
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(2**35, 2**34))
    monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine(()))
    server = HubStandIn()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    server.repositories["org/tiny"] = {"spark-Q8_0.gguf": SPARK, "ember-F16.gguf": EMBER, "README.md": b"x"}
    server.repositories["org/page"] = {"page-Q4_0.gguf": b"<html>" * 100}
    server.repositories["org/data"] = {"README.md": b"x"}
    server.repositories["org/gated"] = {"spark.gguf": SPARK}
    server.repositories["org/private"] = {"spark.gguf": SPARK}
    server.gated.add("org/gated")
    server.private.add("org/private")
    server.token = "hf_right"
    yield server
    server.close()


def vault(home: Path) -> Path:
    return home / ".local/share/stoker/vault"


def everything(home: Path) -> dict[str, bytes | None]:
    """Each file below the home directory, and each folder, but what remembers digests."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(home.rglob("*"))
            if ".local/state" not in str(path)}  # fmt: skip


def added(capsys: Captured, *words: str, code: int = 0) -> dict[str, Any]:
    assert run(["add", *words, "--yes", "--no-preflight", "--json"]) == code, capsys.readouterr().err
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_model_is_fetched_whole_and_a_first_configuration_written(
    hub: HubStandIn, home: Path, capsys: Captured
) -> None:
    document = added(capsys, "hf:org/tiny")
    assert (document["name"], document["fetched"], document["is_new"]) == ("ember", True, True)
    assert [one["file"] for one in document["models"]] == ["spark-Q8_0.gguf", "ember-F16.gguf"]
    [serve] = load(Path("stoker.toml")).serves
    assert (serve.name, serve.model, serve.source) == ("ember", str(vault(home) / "ember-F16.gguf"),
                                                       "hf:org/tiny/ember-F16.gguf")  # fmt: skip
    assert (serve.context, serve.parallel, serve.slot) == (2048, 2, "cpu")
    assert Path(serve.model).read_bytes() == EMBER.read_bytes()
    assert list(serve.sha256) == ["ember-F16.gguf"]
    capsys.readouterr()
    assert run(shlex.split(document["next"])[1:]) == 0
    assert '"model": "ember"' in capsys.readouterr().out


def test_a_second_one_is_a_block_at_the_end_and_remove_undoes_it_to_the_byte(
    hub: HubStandIn, home: Path, capsys: Captured
) -> None:
    added(capsys, "hf:org/tiny")
    path = Path("stoker.toml")
    text = path.read_text().replace('name = "ember"', 'name   =  "ember"  # mine')
    path.write_text(text)
    path.chmod(0o640)
    document = added(capsys, f"{hub.url}/org/tiny/blob/main/spark-Q8_0.gguf", "--name", "small")
    assert document["shares_slot_with"] == ["ember"]
    assert path.read_text().startswith(text)
    assert run(["remove", "small", "--dry-run"]) == 0
    assert "its weights stay" in capsys.readouterr().out
    assert run(["remove", "small", "--weights", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights"] == {
        "model": "vault:spark-Q8_0.gguf", "bytes": SPARK.stat().st_size, "used_by": [],
    }  # fmt: skip
    assert (path.read_text(), path.stat().st_mode & 0o777) == (text, 0o640)
    assert [each.name for each in vault(home).glob("*.gguf")] == ["ember-F16.gguf"]


def test_what_is_there_already_is_said_and_nothing_is_fetched_twice(
    hub: HubStandIn, home: Path, capsys: Captured
) -> None:
    added(capsys, "hf:org/tiny:q8_0")
    before, sent = everything(home), hub.sent
    assert added(capsys, "hf:org/tiny:spark-Q8_0.gguf")["already"] is True
    assert everything(home) == before
    assert run(["remove", "spark"]) == 0
    again = capsys.readouterr().out.partition("to remove them: ")[2]
    hub.sent = 0
    assert added(capsys, "hf:org/tiny/spark-Q8_0.gguf")["fetched"] is False
    assert hub.sent < sent
    run(["remove", "spark"])
    assert run(shlex.split(again)[1:]) == 0
    assert list(vault(home).glob("*.gguf")) == []


def test_a_dry_run_shows_everything_and_changes_nothing(hub: HubStandIn, home: Path, capsys: Captured) -> None:
    assert run(["add", "hf:org/tiny", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "ember-F16.gguf" in out
    assert '+name = "ember"' in out
    assert "to fetch: 1.0 MiB" in out
    assert everything(home) == {str(home / "work"): None}


def test_a_model_of_another_repository_with_the_same_file_name_gets_a_place_of_its_own(
    hub: HubStandIn, home: Path, capsys: Captured
) -> None:
    hub.repositories["other/tiny"] = {"spark-Q8_0.gguf": EMBER}
    added(capsys, "hf:org/tiny:Q8_0")
    document = added(capsys, "hf:other/tiny")
    assert (document["name"], document["model"]) == ("spark-2", "vault:other/tiny/spark-Q8_0.gguf")
    assert len(load(Path("stoker.toml")).serves) == 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["hf:org/tiny:Q4_K_M"], 2, "has no model Q4_K_M; what it has: stoker add hf:org/tiny --dry-run"),
        (["hf:org/page"], 1, "page-Q4_0.gguf is not a GGUF file"),
        (["hf:org/data"], 2, "no model that an engine here could run"),
        (["hf:org/gated"], 1, "accept them, then set HF_TOKEN"),
        (["hf:org/private"], 1, "or it is private: correct the name, or set HF_TOKEN"),
        (["hf:org/none"], 1, "has no repository org/none"),
        (["hf:org"], 2, "names no repository"),
        (["org/tiny"], 2, "of the hub: stoker add hf:org/tiny"),
        (["nothing"], 2, "there is no file nothing"),
        (["./nothing.gguf"], 1, "nothing.gguf does not exist"),
        (["ollama:none"], 2, "no model of Ollama is called so"),
        (["https://127.0.0.1:1/x.zip"], 2, "does not have the suffix of a model file"),
        (["http://127.0.0.1:1/x.gguf"], 1, "cannot be fetched from http://127.0.0.1:1/x.gguf: Connection refused"),
        (["hf:org/tiny", "--slot", "gpu9"], 2, "there is no slot 'gpu9'"),
        (["hf:org/tiny", "--config", "gone/stoker.toml"], 2, "there is no such file"),
    ],
)
def test_each_wrong_way_has_a_clear_end_and_nothing_half_done(
    hub: HubStandIn, home: Path, capsys: Captured, words: list[str], code: int, says: str
) -> None:
    assert run(["add", *words, "--yes"]) == code
    assert says in capsys.readouterr().err
    assert [path for path, content in everything(home).items() if content is not None] == []


def test_what_a_wrong_way_proposes_is_typed(hub: HubStandIn, capsys: Captured) -> None:
    for word, option in (("hf:org/tiny:Q4_K_M", []), ("org/tiny", ["--dry-run"])):
        assert run(["add", word, "--yes"]) == 2
        proposed = capsys.readouterr().err.strip().rpartition(": stoker ")[2]
        assert run([*shlex.split(proposed), *option]) == 0
        assert "ember-F16.gguf" in capsys.readouterr().out


def test_what_is_proposed_for_the_words_of_other_programs_is_typed(hub: HubStandIn, capsys: Captured) -> None:
    for word, placeholder, value in (("pull", "MODEL", "hf:org/tiny"), ("rm", "NAME", "ember")):
        assert run([word, value]) == 2
        said = " ".join(capsys.readouterr().err.replace("│", " ").split())
        proposed = said.partition("Use: stoker ")[2].partition(",")[0].rstrip(".╰─╯ ").replace(placeholder, value)
        yes = ["--yes", "--no-preflight"] if word == "pull" else []
        assert run([*shlex.split(proposed), *yes]) == 0
    assert load(Path("stoker.toml")).serves == ()


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([(429, {"retry-after": "3600"})], "try again in 3600 s"),
        ([(503, {})] * 3, "(answers 503 Service Unavailable, 3 times)"),
        ([(401, {"x-error-code": "RepoNotFound"})], "has no repository"),
        ([(403, {})], "is given only to those who accepted its terms"),
        ([(418, {})], "answers 418"),
    ],
)
def test_a_hub_that_refuses_is_quoted(
    hub: HubStandIn, home: Path, capsys: Captured, answers: list[tuple[int, dict[str, str]]], says: str
) -> None:
    hub.answers = answers
    assert run(["add", "hf:org/tiny", "--yes"]) == 1
    assert says in capsys.readouterr().err
    assert not Path("stoker.toml").exists()


def test_a_token_goes_to_the_hub_and_not_to_its_store(
    hub: HubStandIn, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name in ("org/private", "org/gated"):
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        assert run(["add", f"hf:{name}", "--yes"]) == 1
        assert "hf_wrong" not in capsys.readouterr().err
        monkeypatch.setenv("HF_TOKEN", "hf_right")
        added(capsys, f"hf:{name}", "--name", name.partition("/")[2])
        run(["remove", name.partition("/")[2], "--weights"])
        capsys.readouterr()
    assert hub.store_saw
    assert not any("authorization" in one for one in hub.store_saw)


def test_a_connection_that_breaks_goes_on_and_one_that_is_lost_keeps_what_came(
    hub: HubStandIn, home: Path, capsys: Captured
) -> None:
    header = [10**9] * 2  # the listing's own look at each model
    hub.cuts = [*header, 10**9, 300_000, 200_000]
    added(capsys, "hf:org/tiny:Q8_0")
    assert [one.get("range") for one in hub.store_saw[-3:]] == [None, "bytes=300000-", "bytes=500000-"]
    run(["remove", "spark", "--weights"])
    capsys.readouterr()
    hub.cuts = [*header, 10**9, 300_000, *[0] * (http_download.TRIES - 1)]
    assert run(["add", "hf:org/tiny:Q8_0", "--yes"]) == 1
    said = capsys.readouterr().err
    assert f"{http_download.TRIES} times in a row" in said
    assert "nothing was added; 293 KiB are kept. To continue, type the same command again" in said
    assert load(Path("stoker.toml")).serves == ()
    assert list(vault(home).glob("*.gguf")) == []
    added(capsys, "hf:org/tiny:Q8_0")
    assert hub.store_saw[-1].get("range") == "bytes=300000-"
    assert [one.name for one in load(Path("stoker.toml")).serves] == ["spark"]


def test_a_file_that_is_not_what_the_hub_says_leaves_nothing(hub: HubStandIn, home: Path, capsys: Captured) -> None:
    hub.digests["spark-Q8_0.gguf"] = "0" * 64
    assert run(["add", "hf:org/tiny:Q8_0", "--yes"]) == 1
    said = capsys.readouterr().err
    assert "the fetched file is removed" in said
    assert "are kept" not in said
    assert not Path("stoker.toml").exists()
    assert [one for one in vault(home).rglob("*") if one.is_file()] == []


def test_without_room_nothing_is_fetched(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: DiskUsage(10**6, 989_000, 11_000))
    for option in ("--dry-run", "--yes"):
        assert run(["add", "hf:org/tiny:Q8_0", option]) == 1
        assert "the vault's disk may take only 1,000: make room" in capsys.readouterr().err
    assert not Path("stoker.toml").exists()


def test_a_name_that_is_taken_and_one_that_no_serve_can_have(hub: HubStandIn, capsys: Captured) -> None:
    added(capsys, "hf:org/tiny")
    before = Path("stoker.toml").read_text()
    assert run(["add", "hf:org/tiny:Q8_0", "--yes", "--name", "ember"]) == 2
    assert "the name 'ember' is taken in stoker.toml: choose another, such as --name ember-2" in capsys.readouterr().err
    assert run(["add", "hf:org/tiny:Q8_0", "--yes", "--name", "auto"]) == 2
    assert "reserved" in capsys.readouterr().err
    assert Path("stoker.toml").read_text() == before
    assert not (vault(Path.home()) / "spark-Q8_0.gguf").exists()


def test_where_nobody_can_be_asked_it_says_so(hub: HubStandIn, capsys: Captured) -> None:
    for option in ([], ["--json"]):
        assert run(["add", "hf:org/tiny", *option]) == 2
        assert "add --yes to take what is proposed" in capsys.readouterr().err
    assert hub.asked == []


def test_models_of_ollama_lm_studio_and_of_a_path_stay_where_they_are(
    hub: HubStandIn, home: Path, capsys: Captured
) -> None:
    folder = home / ".lmstudio" / "models" / "lmstudio-community" / "Spark-GGUF"
    folder.mkdir(parents=True)
    (folder / "Spark-Q8_0.gguf").write_bytes(SPARK.read_bytes())
    document = added(capsys, "lmstudio:lmstudio-community/Spark-GGUF")
    assert (document["model"], document["name"]) == (str(folder / "Spark-Q8_0.gguf"), "spark")
    assert added(capsys, str(EMBER))["model"] == str(EMBER)
    assert run(["remove", "spark", "--weights"]) == 0
    assert "is not in the vault, and stays" in capsys.readouterr().out
    assert (folder / "Spark-Q8_0.gguf").exists()
    assert not vault(home).exists()


def test_a_running_stoker_reloads_and_one_that_refuses_gets_its_file_back(
    hub: HubStandIn, stoker: FakeStoker, config: Path, capsys: Captured
) -> None:
    before = config.read_bytes()
    nothing: dict[str, Any] = {"changed": [], "added": [], "removed": [], "settings": [], "lapsed": [], "ended": [],
                               "warnings": [], "routing": False, "problems": []}  # fmt: skip
    stoker.answer("POST /admin/reload", nothing | {"problems": ["no room"]})
    assert run(["add", str(SPARK), "--yes", "--no-preflight"]) == 1
    assert "does not take the change (no room); stoker.toml is as it was" in capsys.readouterr().err
    assert config.read_bytes() == before
    stoker.answer("POST /admin/reload", nothing)
    assert added(capsys, str(SPARK))["reloaded"] is True
    assert run(["remove", "spark"]) == 0
    assert config.read_bytes() == before


def test_a_change_that_is_refused_and_edited_meanwhile_stays_and_is_said(
    hub: HubStandIn, stoker: FakeStoker, config: Path, capsys: Captured
) -> None:
    def edited_and_refused(body: Any) -> tuple[int, Any]:
        config.write_text(config.read_text() + "# theirs\n")
        return 200, {"changed": [], "added": [], "removed": [], "settings": [], "lapsed": [], "ended": [],
                     "warnings": [], "routing": False, "problems": ["no room"]}  # fmt: skip

    stoker.routes["POST /admin/reload"] = edited_and_refused
    assert run(["add", str(SPARK), "--yes", "--no-preflight"]) == 1
    said = capsys.readouterr().err
    assert "does not take the change (no room); it is still in stoker.toml: stoker.toml was changed by somebody" in said
    assert config.read_text().endswith("# theirs\n")


def test_a_stoker_of_another_configuration_is_not_asked_about_the_new_model(
    hub: HubStandIn, stoker: FakeStoker, config: Path, capsys: Captured
) -> None:
    (config.parent / "state" / "lock").write_text(f"1\n{config.parent}/other.toml\n")
    assert run(["add", str(SPARK), "--yes", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["reloaded"], document["preflight"]) == (False, None)
    assert "it is not checked, because the Stoker that runs in " in captured.err
    assert "other.toml: end that one, then type stoker eval preflight spark" in captured.err


def test_an_unreadable_configuration_is_said_and_none_is_put_before_it(
    hub: HubStandIn, home: Path, capsys: Captured
) -> None:
    own = home / ".config" / "stoker" / "stoker.toml"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"# \xff\n")
    assert run(["add", "hf:org/tiny", "--yes", "--no-preflight"]) == 2
    assert "stoker.toml:1: not TOML: a byte that is not UTF-8" in capsys.readouterr().err
    assert not Path("stoker.toml").exists()


def test_what_others_need_is_not_taken_away(hub: HubStandIn, home: Path, capsys: Captured) -> None:
    added(capsys, "hf:org/tiny:Q8_0")
    path = Path("stoker.toml")
    block = '\n[[serve]]\nname = "twin"\nmodel = "vault:spark-Q8_0.gguf"\nslot = "cpu"\nfallback = "spark"\n'
    path.write_text(path.read_text() + block)
    before = path.read_bytes()
    assert run(["remove", "spark"]) == 2
    said = capsys.readouterr().err
    assert "would not be valid without 'spark': change these places first" in said
    assert "fallback" in said
    assert run(["remove", "twin", "--weights"]) == 1
    assert "vault:spark-Q8_0.gguf is used by spark as well: leave out --weights, or add --force" in (
        capsys.readouterr().err
    )
    assert path.read_bytes() == before
    assert run(["remove", "twin", "--weights", "--force"]) == 0
    assert not (vault(home) / "spark-Q8_0.gguf").exists()


def test_a_serve_that_is_not_there_is_named_with_the_nearest(hub: HubStandIn, capsys: Captured) -> None:
    added(capsys, "hf:org/tiny")
    assert run(["remove", "embr"]) == 2
    assert "did you mean 'ember'?" in capsys.readouterr().err


def test_ctrl_c_keeps_what_came_and_changes_nothing(hub: HubStandIn, home: Path) -> None:
    """In a process of its own, as a person does it."""
    large = home / "large.gguf"
    large.write_bytes(SPARK.read_bytes() + b"\0" * (8 * 2**20))
    hub.repositories["org/tiny"]["spark-Q8_0.gguf"] = large
    hub.holds_after = 4 * 2**20
    words = [*PROGRAM, "add", "hf:org/tiny:Q8_0", "--yes", "--no-preflight"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not _bytes_in(vault(home) / ".staging") and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, "stopped; " in said) == (130, True), said
    assert "are kept. To continue, type the same command again" in said
    assert not Path("stoker.toml").exists()
    hub.holds_after = None
    before = len(hub.store_saw)
    assert subprocess.run(words, capture_output=True, timeout=60).returncode == 0
    rest = [one["range"] for one in hub.store_saw[before:] if one.get("range", "").endswith("-")]
    assert [span for span in rest if span != "bytes=0-"], "it goes on where it was"
    assert tomllib.loads(Path("stoker.toml").read_text())["serve"][0]["name"] == "spark"


@pytest.mark.llama
def test_from_nothing_to_an_answer_and_back(hub: HubStandIn, home: Path, port: int) -> None:
    """With the real engine: the check loads the model, then a Stoker answers a chat, then nothing is left of it."""

    def typed(*words: str) -> str:
        done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    out = typed("add", "hf:org/tiny:Q8_0", "--yes")
    assert "checked: 4 of 4 passed" in out
    assert out.splitlines()[-1] == "next: stoker client curl --model spark"
    path = Path("stoker.toml")
    path.write_text(path.read_text().replace("port = 8000", f"port = {port}"))
    up = subprocess.Popen([*PROGRAM, "up"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        answered = _chat(port, "spark")
        assert answered["choices"][0]["message"]["content"]
        assert "spark is no longer in stoker.toml, and Stoker has reloaded it" in typed("remove", "spark", "--weights")
    finally:
        up.terminate()
        up.wait(60)
    assert list(vault(home).rglob("*.gguf")) == []


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.part") if path.is_file())


def _chat(port: int, model: str) -> dict[str, Any]:
    import urllib.request

    body = json.dumps({"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": "Who are you?"}]})
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", body.encode(), {"content-type": "application/json"}
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)

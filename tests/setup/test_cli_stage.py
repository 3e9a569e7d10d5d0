"""`stoker stage`: a model is in the vault when it is whole and proved, not before; what was begun is gone on with."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.fleet.weights.web import Web

from stoker.cli.main import run
from stoker.config.load import load
from stoker.fleet.weights import copying, http_download
from stoker.fleet.weights.copying import DraftUnwritable
from stoker_setup import download_progress
from stoker_setup.prefetch import PrefetchProgress

Captured = pytest.CaptureFixture[str]
MODEL = b"GGUF" + os.urandom(200_000)
PARTS = [f"big-0000{n}-of-00003.gguf" for n in (1, 2, 3)]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def aside(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often this process, which is pytest's, should have stepped aside; no proxy, no pauses."""
    asked: list[int] = []
    monkeypatch.setattr("stoker_setup.prefetch.lower_priority", lambda: asked.append(1))
    monkeypatch.setattr(http_download, "PAUSE", 0.0)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return asked


@pytest.fixture
def vault(config: Path) -> Path:
    """The vault of ./stoker.toml, in which `slow` is `vault:used.gguf`."""
    text = config.read_text().replace('state = "state"', 'state = "state"\nvault = "vault"')
    config.write_text(text.replace('model = "slow.gguf"', 'model = "vault:used.gguf"'))
    return config.parent / "vault"


@pytest.fixture
def source(config: Path) -> Path:
    """Models somewhere else: one file, three parts, a folder."""
    source = config.parent / "source"
    (source / "Model" / "sub").mkdir(parents=True)
    (source / "m.gguf").write_bytes(MODEL)
    for name in PARTS:
        (source / name).write_bytes(b"GGUF" + name.encode() * 100)
    (source / "Model" / "config.json").write_bytes(b"{}")
    (source / "Model" / "sub" / "w.safetensors").write_bytes(MODEL)
    return source


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    web.files["/m.gguf"] = MODEL
    yield web
    web.close()


def left(vault: Path) -> list[str]:
    """Everything in the vault but the notes on where models came from."""
    notes = vault / ".staging"
    found = [path for path in vault.rglob("*") if path.is_file() and path.parent != notes]
    return sorted(str(path.relative_to(vault)) for path in found)


def document(capsys: Captured, words: list[str], code: int = 0) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


# -- arriving ----------------------------------------------------------------------------------------------------------


def test_a_file_arrives_with_its_digest_the_lines_to_paste_and_the_next_command(
    vault: Path, source: Path, aside: list[int], capsys: Captured
) -> None:
    assert run(["stage", str(source / "m.gguf"), "--as", "fast-8b"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("vault:fast-8b.gguf is staged: 1 file, 195 KiB, after ")
    assert f"  {digest(MODEL)}  fast-8b.gguf" in out
    assert f"next: stoker fit {vault}/fast-8b.gguf\n" in out
    assert "next: put these lines into stoker.toml, then stoker reload\n" in out
    assert "next: stoker gate fast-8b --for ALIAS, then stoker promote ALIAS fast-8b\n" in out
    assert (vault / "fast-8b.gguf").read_bytes() == MODEL
    assert left(vault) == ["fast-8b.gguf"]
    assert aside == [1]
    lines = "\n".join(line[4:] for line in out.splitlines() if line.startswith("    "))
    config = vault.parent / "stoker.toml"
    config.write_text(f"{config.read_text()}\n{lines}\n")
    serve = next(serve for serve in load(config).serves if serve.name == "fast-8b")
    assert serve.model == str(vault / "fast-8b.gguf")
    assert serve.source == str(source / "m.gguf")
    assert serve.sha256 == {"fast-8b.gguf": digest(MODEL)}


def test_a_relative_path_is_of_this_directory_and_no_configuration_is_needed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (home / "work" / "m.gguf").write_bytes(MODEL)
    assert run(["stage", "m.gguf"]) == 0
    assert (home / ".local/share/stoker/vault/m.gguf").read_bytes() == MODEL
    assert (home / ".local/state/stoker/hashes.json").exists()
    assert run(["stage", "m.gguf", "--config", "none.toml"]) == 2


def test_what_was_computed_is_remembered_for_a_serve_that_names_it(
    vault: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(["stage", str(source / "m.gguf")]) == 0
    monkeypatch.setattr(copying, "hash_file", None)  # nothing is read again
    found = document(capsys, ["stage", "--list"])
    assert found["models"] == [
        {
            "model": "vault:m.gguf", "path": str(vault / "m.gguf"), "bytes": len(MODEL), "files": 1, "missing": 0,
            "sha256": {"m.gguf": digest(MODEL)}, "used_by": [],
        }
    ]  # fmt: skip


def test_all_parts_arrive_together_under_a_new_name(vault: Path, source: Path, capsys: Captured) -> None:
    given = [f"--sha256={name}={digest((source / name).read_bytes())}" for name in PARTS[:2]]
    found = document(capsys, ["stage", str(source / PARTS[0]), "--as", "huge", *given])
    assert found["model"] == "vault:huge-00001-of-00003.gguf"
    assert [(each["name"], each["verified"]) for each in found["files"]] == [
        ("huge-00001-of-00003.gguf", True), ("huge-00002-of-00003.gguf", True), ("huge-00003-of-00003.gguf", False),
    ]  # fmt: skip
    assert left(vault) == [each["name"] for each in found["files"]]
    table = tomllib.loads(found["toml"])["serve"][0]
    assert table["model"] == "vault:huge-00001-of-00003.gguf"
    assert len(table["sha256"]) == 3


def test_a_wrong_hash_of_the_last_part_leaves_nothing_of_any(vault: Path, source: Path, capsys: Captured) -> None:
    assert run(["stage", str(source / PARTS[0]), "--sha256", f"{PARTS[2]}={'ab' * 32}"]) == 1
    assert f"{PARTS[2]} from {source}/{PARTS[2]} has sha256" in capsys.readouterr().err
    assert left(vault) == []
    assert run(["stage", "--list"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{vault} is empty"


def test_a_folder_arrives_whole_and_only_its_weights_are_for_the_serve(
    vault: Path, source: Path, capsys: Captured
) -> None:
    found = document(capsys, ["stage", str(source / "Model"), "--sha256", f"sub/w.safetensors={digest(MODEL)}"])
    assert left(vault) == ["Model/config.json", "Model/sub/w.safetensors"]
    assert [each["name"] for each in found["files"]] == ["config.json", "sub/w.safetensors"]
    table = tomllib.loads(found["toml"])["serve"][0]
    assert (table["name"], table["engine"], table["model"]) == ("model", "vllm", "vault:Model")
    assert table["sha256"] == {"sub/w.safetensors": digest(MODEL)}
    assert document(capsys, ["stage", str(source / "Model")])["fetched"] is False


def test_a_folder_with_a_wrong_file_leaves_nothing(vault: Path, source: Path, capsys: Captured) -> None:
    assert run(["stage", str(source / "Model"), "--sha256", f"sub/w.safetensors={'ab' * 32}"]) == 1
    assert left(vault) == []


def test_over_http_with_a_signed_address_nothing_of_the_signature_is_kept_or_said(
    vault: Path, web: Web, capsys: Captured
) -> None:
    web.manners.redirects = {"/r/m.gguf": "/m.gguf?sign=secretly-two"}
    words = ["stage", f"{web.url}/r/m.gguf?sign=secretly-one", "--sha256", digest(MODEL)]
    assert run(words) == 0
    assert run([*words, "--as", "n", "--dry-run"]) == 0
    assert run(["stage", f"{web.url}/none.gguf?sign=secretly-one"]) == 1
    said = capsys.readouterr()
    kept = [path.read_bytes() for path in vault.parent.rglob("*") if path.is_file()]
    assert "secretly" not in said.out + said.err
    assert not any(b"secretly" in each for each in kept)
    assert "source =" not in said.out
    assert "(as given)" in said.out


def test_a_page_that_asks_to_log_in_is_no_model(vault: Path, web: Web, capsys: Captured) -> None:
    web.files["/m.gguf"] = b"<html>please log in"
    assert run(["stage", f"{web.url}/m.gguf"]) == 1
    assert "is not a GGUF file, but a web page;" in capsys.readouterr().err
    assert left(vault) == []


def tool(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable} -SE\nimport os, pathlib, sys\n{body}\n")
    path.chmod(0o755)


def test_a_repository_comes_by_the_hubs_client_with_its_token_and_goes_on_after_a_failure(
    vault: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    body = (
        "box = pathlib.Path(sys.argv[-1]); (box / '.cache').mkdir(parents=True, exist_ok=True)\n"
        "tries = box / '.cache' / 'half'\n"
        "if not tries.exists():\n    tries.write_text('half'); print('denied', os.environ['HF_TOKEN']); sys.exit(1)\n"
        "(box / 'model.safetensors').write_bytes(b'weights')"
    )
    tool(vault.parent / "bin", "hf", body)
    monkeypatch.setenv("PATH", str(vault.parent / "bin"))
    monkeypatch.setenv("HF_TOKEN", "marker-token")
    assert run(["stage", "hf:org/Repo"]) == 1
    assert "hf ended with code 1: denied ***" in capsys.readouterr().err
    found = document(capsys, ["stage", "hf:org/Repo", "--sha256", f"model.safetensors={digest(b'weights')}"])
    assert [each["verified"] for each in found["files"]] == [True]
    assert left(vault) == ["Repo/model.safetensors"]
    assert document(capsys, ["stage", "hf:org/Repo"])["fetched"] is False


# -- there already -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["path", "http", "given"])
def test_the_very_same_model_is_not_fetched_twice(
    vault: Path, source: Path, web: Web, how: str, capsys: Captured
) -> None:
    words = ["stage", f"{web.url}/m.gguf" if how != "path" else str(source / "m.gguf")]
    if how == "http":
        assert run(words) == 0
    else:
        vault.mkdir()
        (vault / "m.gguf").write_bytes(MODEL)  # put there by hand
    words += ["--sha256", digest(MODEL)] if how == "given" else []
    before = (vault / "m.gguf").stat().st_ino, len(web.asked)
    assert run(words) == 0
    assert "vault:m.gguf is already there, unchanged: 1 file, 195 KiB; nothing was fetched" in (capsys.readouterr().out)
    assert ((vault / "m.gguf").stat().st_ino, len(web.asked)) == before


@pytest.mark.parametrize("how", ["path", "http", "given", "changed"])
def test_another_model_of_that_name_is_never_written_over(
    vault: Path, source: Path, web: Web, how: str, capsys: Captured
) -> None:
    words = ["stage", str(source / "m.gguf") if how == "path" else f"{web.url}/m.gguf"]
    if how == "changed":
        assert run(words) == 0
        web.manners.etag = '"two"'
    else:
        vault.mkdir()
        (vault / "m.gguf").write_bytes(b"GGUF mine")
    before = (vault / "m.gguf").read_bytes()
    assert run(words + (["--sha256", digest(MODEL)] if how == "given" else [])) == 1
    said = capsys.readouterr().err
    assert ("nothing proves" if how in ("http", "changed") else "and differs") in said
    assert "`stoker stage --remove m.gguf` first" in said
    assert (vault / "m.gguf").read_bytes() == before


# -- room --------------------------------------------------------------------------------------------------------------


def test_a_quota_is_kept_before_and_while_sizes_are_unknown(vault: Path, web: Web, capsys: Captured) -> None:
    vault.mkdir()
    (vault / "other.gguf").write_bytes(bytes(100_000))
    words = ["stage", f"{web.url}/m.gguf", "--quota", "250KB"]
    assert run(words) == 1
    assert "the vault would hold 300,004 bytes, 50,004 more than --quota allows" in capsys.readouterr().err
    assert web.asked == []
    web.manners.chunked = web.manners.ranges = True
    web.manners.ranges = False
    web.manners.hold = threading.Event()
    threading.Timer(0.5, web.manners.hold.set).start()
    assert run([*words[:-1], "150KB"]) == 1
    assert "the fetched part is kept" in capsys.readouterr().err
    assert left(vault) == [".staging/m.gguf/.m.gguf.part", ".staging/m.gguf/.m.gguf.part.from", "other.gguf"]
    assert run([*words[:-1], "1MB"]) == 0
    assert left(vault) == ["m.gguf", "other.gguf"]


def test_a_disk_that_gets_full_while_it_comes_is_said(
    vault: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def full(write: object, piece: bytes) -> None:
        raise DraftUnwritable(OSError(28, "No space left on device"))

    monkeypatch.setattr(copying, "write_all", full)
    assert document(capsys, ["stage", str(source / "m.gguf")], 1)["error"]["code"] == "disk_full"
    assert left(vault) == []


def test_another_name_is_given_as_proposed(vault: Path, source: Path, capsys: Captured) -> None:
    assert run(["stage", str(source / "m.gguf")]) == 0
    (source / "m.gguf").write_bytes(MODEL[:-1] + b"?")
    assert run(["stage", str(source / "m.gguf"), "--no-resume"]) == 1
    assert "under another name with `stoker stage SOURCE --as NAME`" in capsys.readouterr().err
    assert run(["stage", str(source / "m.gguf"), "--as", "other.gguf"]) == 0
    assert (vault / "other.gguf").read_bytes().endswith(b"?")


def test_what_the_disk_may_not_take_is_not_begun_and_what_gets_short_meanwhile_is_stopped(
    vault: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    from stoker_setup.prefetch import Prefetcher

    *defaults, _, headers = Prefetcher.__init__.__defaults__ or ()
    monkeypatch.setattr(Prefetcher.__init__, "__defaults__", (*defaults, lambda vault: 1000, headers))
    assert run(["stage", str(source / "m.gguf")]) == 1
    assert "may take only 1,000: make room for 199,004 more" in capsys.readouterr().err
    rooms = iter([10**9])
    monkeypatch.setattr(Prefetcher.__init__, "__defaults__", (*defaults, lambda vault: next(rooms, -1), headers))
    monkeypatch.setattr(copying, "CHUNK", 1000)
    slow = copying.read_block
    monkeypatch.setattr(copying, "read_block", lambda read, path: (time.sleep(0.002), slow(read, path))[1])
    assert run(["stage", str(source / "m.gguf")]) == 1
    assert "is nearly full: the fetched part is kept" in capsys.readouterr().err
    assert ".staging/m.gguf/.m.gguf.part" in left(vault)
    assert "m.gguf" not in left(vault)


def test_a_vault_that_cannot_be_written_is_said(vault: Path, source: Path, capsys: Captured) -> None:
    vault.write_text("a file where a folder is wanted")
    assert run(["stage", str(source / "m.gguf")]) == 1
    assert f"{vault} cannot be written (" in capsys.readouterr().err


# -- interrupted -------------------------------------------------------------------------------------------------------


@pytest.fixture
def start(vault: Path) -> Iterator[Callable[[list[str]], subprocess.Popen[str]]]:
    """Real processes, ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(words: list[str]) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", "from stoker.cli.entry import main; main()", *words]
        process = subprocess.Popen(
            argv, cwd=vault.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(draft: Path, size: int) -> None:
    until = time.monotonic() + 20
    while not draft.exists() or draft.stat().st_size < size:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_is_interrupted_keeps_what_came_and_the_next_one_fetches_the_rest(
    vault: Path, web: Web, start: Callable[[list[str]], subprocess.Popen[str]], how: signal.Signals, capsys: Captured
) -> None:
    web.manners.hold = threading.Event()
    words = ["stage", f"{web.url}/m.gguf", "--sha256", digest(MODEL)]
    process = start(words)
    draft = vault / ".staging/m.gguf/.m.gguf.part"
    half = len(MODEL) // 2
    wait_for(draft, half)
    assert psutil.Process(process.pid).nice() == 19
    process.send_signal(how)
    out, err = process.communicate(timeout=20)
    assert draft.read_bytes() == MODEL[:half]
    assert not (vault / "m.gguf").exists()
    if how is signal.SIGINT:
        assert (process.returncode, out) == (130, "")
        assert f"stopped; 97.8 KiB are kept. To continue: stoker {' '.join(words)}" in err
        assert "Traceback" not in err
    web.manners.hold.set()
    assert run(["stage", "--list"]) == 0
    assert f"unfinished: vault:m.gguf, 97.8 KiB so far, from {web.url}/m.gguf" in capsys.readouterr().out
    assert run(words) == 0
    assert web.asked[-1] == ("/m.gguf", f"bytes={half}-")
    assert left(vault) == ["m.gguf"]
    assert (vault / "m.gguf").read_bytes() == MODEL


def test_without_resume_it_begins_anew(vault: Path, web: Web) -> None:
    web.manners.drops = [1000] * http_download.TRIES
    web.manners.etag = None
    box = vault / ".staging" / "m.gguf"
    assert run(["stage", f"{web.url}/m.gguf"]) == 1
    assert (box / ".m.gguf.part").stat().st_size == 1000
    web.manners.etag = '"one"'
    assert run(["stage", f"{web.url}/m.gguf", "--no-resume"]) == 0
    assert web.asked[-1] == ("/m.gguf", "")
    assert not box.exists()


def test_of_several_parts_those_that_are_whole_are_not_fetched_again(vault: Path, web: Web, source: Path) -> None:
    web.files.update({f"/{name}": (source / name).read_bytes() for name in PARTS})
    web.manners.ranges = False
    web.manners.drops = [10**6, 10**6, *[5] * http_download.TRIES]
    words = ["stage", f"{web.url}/{PARTS[0]}"]
    assert run(words) == 1
    box = vault / ".staging" / PARTS[0]
    assert [(box / name).exists() for name in PARTS] == [True, True, False]
    assert not (vault / PARTS[0]).exists()
    asked = len(web.asked)
    assert run(words) == 0
    assert [path for path, _ in web.asked[asked:]] == [f"/{PARTS[2]}"]
    assert left(vault) == PARTS


def test_another_source_of_that_name_does_not_go_on_with_what_the_first_one_left(
    vault: Path, web: Web, source: Path
) -> None:
    web.manners.drops = [1000] * http_download.TRIES
    web.manners.ranges = False
    assert run(["stage", f"{web.url}/m.gguf"]) == 1
    (source / "m.gguf").write_bytes(b"GGUF other")
    assert run(["stage", str(source / "m.gguf")]) == 0
    assert (vault / "m.gguf").read_bytes() == b"GGUF other"
    assert left(vault) == ["m.gguf"]


def test_of_two_at_once_the_second_is_told_of_the_first_which_goes_on(
    vault: Path, web: Web, start: Callable[[list[str]], subprocess.Popen[str]], capsys: Captured
) -> None:
    web.manners.hold = threading.Event()
    first = start(["stage", f"{web.url}/m.gguf"])
    wait_for(vault / ".staging/m.gguf/.m.gguf.part", len(MODEL) // 2)
    assert run(["stage", f"{web.url}/m.gguf"]) == 1
    assert f"vault:m.gguf is being staged by process {first.pid}: wait until it has ended" in capsys.readouterr().err
    assert run(["stage", "--remove", "m.gguf"]) == 1
    assert f"process {first.pid}" in capsys.readouterr().err
    web.manners.hold.set()
    first.communicate(timeout=20)
    assert first.returncode == 0
    assert left(vault) == ["m.gguf"]


# -- the vault ---------------------------------------------------------------------------------------------------------


def test_the_list_says_what_is_there_and_who_uses_it(vault: Path, source: Path, capsys: Captured) -> None:
    assert run(["stage", str(source / "m.gguf"), "--as", "used"]) == 0
    assert "# in serve 'slow', at its end" in capsys.readouterr().out
    (vault / PARTS[0]).write_bytes(b"GGUF")
    assert run(["stage", "--list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()][1:3] == [
        [f"vault:{PARTS[0]}", "4", "B", "1", "of", "3", "-", "-"],
        ["vault:used.gguf", "195", "KiB", "1", f"{digest(MODEL)[:12]}…", "slow"],
    ]


def test_a_model_that_a_serve_names_is_removed_only_by_force(vault: Path, source: Path, capsys: Captured) -> None:
    assert run(["stage", str(source / "m.gguf"), "--as", "used"]) == 0
    assert run(["stage", "--remove", "vault:used.gguf"]) == 1
    assert "vault:used.gguf is used by slow: remove it from " in capsys.readouterr().err
    assert run(["stage", "--remove", "used", "--force", "--dry-run"]) == 0
    assert "would be removed" in capsys.readouterr().out
    assert left(vault) == ["used.gguf"]
    found = document(capsys, ["stage", "--remove", "used", "--force"])
    assert found == {"model": "vault:used.gguf", "bytes": len(MODEL), "removed": True, "used_by": ["slow"]}
    assert list(vault.rglob("*.gguf")) == []
    assert run(["stage", "--remove", "used"]) == 2
    assert "there is no vault:used" in capsys.readouterr().err


def test_what_was_only_begun_can_be_removed_too(vault: Path, web: Web, capsys: Captured) -> None:
    web.manners.drops = [1000] * http_download.TRIES
    web.manners.ranges = False
    assert run(["stage", f"{web.url}/m.gguf"]) == 1
    assert "the connection ended after 1,000 of 200,004 bytes, 5 times in a row" in capsys.readouterr().err
    assert run(["stage", "--remove", "m.gguf"]) == 0
    assert left(vault) == []


def test_names_in_the_vault_are_completed(vault: Path) -> None:
    from types import SimpleNamespace

    from stoker_setup.commands.stage import staged_names

    vault.mkdir()
    for name in ("a.gguf", "ab.gguf", "b.gguf"):
        (vault / name).touch()
    context: Any = SimpleNamespace(params={})
    assert staged_names(context, "a") == ["a.gguf", "ab.gguf"]
    assert staged_names(SimpleNamespace(params={"config": "none.toml"}), "a") == []  # type: ignore[arg-type]


# -- said beforehand ---------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_come_and_touches_nothing(vault: Path, web: Web, capsys: Captured) -> None:
    words = ["stage", f"{web.url}/m.gguf", "--as", "x", "--dry-run"]
    assert run([*words, "--quota", "1MiB"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == f"{web.url}/m.gguf  ->  {vault}/x.gguf  195 KiB"
    assert "195 KiB in all; the vault holds 0 B of 1.0 MiB, its disk has room for " in out
    assert document(capsys, words)["answer"] == "fetch"
    assert run([*words, "--quota", "1KiB"]) == 1
    assert not vault.exists()
    assert web.asked == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "give one of SOURCE"),
        (["m.gguf", "--list"], "give one of"),
        (["--list", "--force"], "--force goes with --remove"),
        (["none.gguf"], "there is no /"),
        (["org/name"], "of the hub: `stoker stage hf:org/name`"),
        (["ftp://x/m"], "there is no "),
        (["https://me:pw@x/m.gguf"], "has a password in it"),
        (["https://x/m.gguf", "--quota", "200"], "--quota 200: "),
        (["https://x/m.gguf", "--as", "../m"], "is not a valid name for a model"),
        (["https://x/m.gguf", "--sha256", "abc"], "64 hex digits"),
    ],
)
def test_what_has_to_be_typed_instead_is_said(vault: Path, words: list[str], why: str, capsys: Captured) -> None:
    assert run(["stage", *words]) == 2
    assert why in capsys.readouterr().err


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys: Captured) -> None:
    now = [0.0]
    lines = download_progress.DownloadLines(lambda: now[0])
    mib = 2**20
    for at, progress in (
        (0.0, PrefetchProgress("m", 10 * mib, 110 * mib)),
        (5.0, PrefetchProgress("m", 20 * mib, 110 * mib)),
        (10.0, PrefetchProgress("m", 60 * mib, 110 * mib)),
        (20.0, PrefetchProgress("m", 70 * mib, None)),
        (20.5, PrefetchProgress("", 110 * mib, 110 * mib)),
    ):
        now[0] = at
        lines.show(progress)
    assert capsys.readouterr().err.splitlines() == [
        "  9 %  m  10.0 MiB of 110 MiB",
        " 54 %  m  60.0 MiB of 110 MiB, 5.0 MiB/s, 10.0 s left",
        "m  70.0 MiB, 3.0 MiB/s",
        "110 MiB fetched, checking sha256",
    ]


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("stoker.cli.console.terminal.is_live", lambda stderr=False: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with download_progress.display(quiet=False) as view:
        view.show(PrefetchProgress("m.gguf", 2**20, 2**22))
        view.show(PrefetchProgress("m.gguf", 2**21, 2**22))
        view.show(PrefetchProgress("", 2**22, 2**22))
    shown = capsys.readouterr().err
    assert "m.gguf" in shown or "checking sha256" in shown
    assert "4.0/4.0 MiB" in shown


# -- by the name of a serve --------------------------------------------------------------------------------------------


def configure(vault: Path, table: str) -> None:
    config = vault.parent / "stoker.toml"
    config.write_text(f"{config.read_text()}\n{table}\n")


def test_the_name_of_a_serve_stages_its_source_where_it_looks_for_its_model(
    vault: Path, source: Path, capsys: Captured
) -> None:
    table = '[[serve]]\nname = "coder"\nengine = "llama.cpp"\nmodel = "vault:kept.gguf"\n'
    configure(vault, f'{table}source = "{source}/m.gguf"\nsha256 = {{ "kept.gguf" = "{digest(MODEL)}" }}')
    assert run(["stage", "coder", "--dry-run"]) == 0
    assert left(vault) == []
    assert run(["stage", "coder"]) == 0
    assert (vault / "kept.gguf").read_bytes() == MODEL
    assert document(capsys, ["stage", "coder"])["model"] == "vault:kept.gguf"


def test_a_digest_of_the_serve_that_does_not_match_is_refused(vault: Path, source: Path) -> None:
    table = '[[serve]]\nname = "coder"\nengine = "llama.cpp"\nmodel = "vault:kept.gguf"\n'
    configure(vault, f'{table}source = "{source}/m.gguf"\nsha256 = {{ "kept.gguf" = "{"0" * 64}" }}')
    assert run(["stage", "coder"]) == 1
    assert left(vault) == []


@pytest.mark.parametrize(
    ("keys", "word", "said"),
    [
        ('model = "vault:k.gguf"', "coder", "serve 'coder' has no `source`: add it, or type stoker stage SOURCE --as"),
        (
            'model = "/else/k.gguf"\nsource = "/x/k.gguf"',
            "coder",
            "serve 'coder' has its model at /else/k.gguf, outside",
        ),
        ("cmd = ['true', '{port}']", "coder", "serve 'coder' has no `model`, so there is nothing to stage for it"),
        ('model = "vault:k.gguf"', "codr", "there is no serve 'codr'; did you mean 'coder'?"),
    ],
)
def test_a_serve_whose_model_cannot_be_staged_says_why(
    vault: Path, capsys: Captured, keys: str, word: str, said: str
) -> None:
    configure(vault, f'[[serve]]\nname = "coder"\nengine = "llama.cpp"\n{keys}')
    assert run(["stage", word]) == 2
    assert said in capsys.readouterr().err

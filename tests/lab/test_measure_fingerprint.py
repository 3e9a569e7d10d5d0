"""Fingerprints: what belongs to the identity, what to the execution, and that nothing unknown is taken for equal."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.serve import Secret, Serve, Tuning
from stoker.store.files.hashes import HashCache
from stoker_lab.artifacts.fingerprint import EngineReport, difference, fingerprint, identity_files, without_secrets

PROPS = {"chat_template": "{{ x }}", "build_info": "b7000-abc", "model_ftype": "Q8_0"}


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF and more")
    return path


def marked(serve: Serve, state: Path, props: Any = PROPS, packages: dict[str, str] | None = None) -> Any:
    return fingerprint(serve, EngineReport(props), HashCache(state).hash_all(identity_files(serve)), packages)


def test_the_same_serve_has_the_same_fingerprint_whatever_it_is_called(weights: Path, tmp_path: Path) -> None:
    serve = Serve("a", model=str(weights), slot="gpu0", key=Secret("marker-secret", "env:K"))
    other = replace(serve, name="b", slot=None, key=None, aliases=("x",), port=1234, max_active=9)
    first, second = marked(serve, tmp_path), marked(other, tmp_path)
    assert first.identity == second.identity != ""
    assert first.execution == second.execution
    assert difference(first, second) == ([], [], [])
    assert "marker-secret" not in json.dumps(first.parts)


def test_flags_versions_environment_and_packages_are_execution_and_name_themselves(
    weights: Path, tmp_path: Path
) -> None:
    before = Serve("a", model=str(weights), context=2048, env={"MODE": "1", "HF_TOKEN": "marker-secret"})
    after = replace(before, context=4096, env={"MODE": "2", "HF_TOKEN": "other"}, tuning=Tuning(kv_cache_type="q8_0"))
    first = marked(before, tmp_path, packages={"xllamacpp": "1"})
    second = marked(after, tmp_path, {**PROPS, "build_info": "b7001"}, {"xllamacpp": "2"})
    found = difference(first, second)
    assert first.identity == second.identity
    assert first.execution != second.execution
    assert not found.identity
    assert not found.unknown
    assert [line.partition(":")[0] for line in found.execution] == [
        "context", "environment.MODE", "kv_cache_type", "package.xllamacpp", "version",
    ]  # fmt: skip
    assert found.execution[0] == "context: 2048 -> 4096"
    assert "marker-secret" not in json.dumps(first.parts)


@pytest.mark.parametrize(
    ("changed", "props", "part"),
    [
        ({"tuning": Tuning(sampling={"temperature": 0.2})}, PROPS, "sampling"),
        ({}, {**PROPS, "chat_template": "{{ y }}"}, "template"),
        ({"tuning": Tuning(quantization="fp8")}, PROPS, "quantisation"),
    ],
)
def test_a_change_of_identity_is_named(
    weights: Path, tmp_path: Path, changed: dict[str, Any], props: Any, part: str
) -> None:
    serve = Serve("a", model=str(weights))
    first, second = marked(serve, tmp_path), marked(replace(serve, **changed), tmp_path, props)
    assert first.identity != second.identity
    assert [line.partition(":")[0] for line in difference(first, second).identity] == [part]


def test_what_the_engine_tells_beside_the_files_changes_no_identity(weights: Path, tmp_path: Path) -> None:
    serve = Serve("a", model=str(weights))
    digests = HashCache(tmp_path).hash_all(identity_files(serve))
    models = {"data": [{"id": "a", "meta": {"ftype": "Q8_0"}}, "odd"]}
    silent, talkative = (
        fingerprint(serve, EngineReport(PROPS), digests),
        fingerprint(serve, EngineReport(PROPS, models), digests),
    )
    assert silent.identity == talkative.identity != ""
    assert difference(silent, talkative).execution == ["reported.weights: none -> Q8_0"]
    nowhere = fingerprint(Serve("a"), EngineReport(PROPS, models), {})
    assert (nowhere.identity, nowhere.parts["quantisation"]) == ("", "Q8_0")


def test_other_weights_under_the_same_path_are_another_model(weights: Path, tmp_path: Path) -> None:
    first = marked(Serve("a", model=str(weights)), tmp_path)
    weights.write_bytes(b"GGUF and less.")
    second = marked(Serve("a", model=str(weights)), tmp_path)
    assert difference(first, second).identity[0].startswith("model: sha256:")


def test_what_is_unknown_is_never_equal(weights: Path, tmp_path: Path) -> None:
    known = Serve("a", model=str(weights))
    unseen = marked(known, tmp_path, None)
    assert unseen.identity == ""
    found = difference(unseen, unseen)
    assert found.identity == []
    assert found.unknown == ["template: unknown -> unknown"]
    elsewhere = fingerprint(Serve("a", engine="openai", model="org/name"), EngineReport(), {})
    assert {line.partition(":")[0] for line in difference(elsewhere, elsewhere).unknown} == {
        "model", "revision", "quantisation", "template",
    }  # fmt: skip


def test_a_directory_from_the_hub_knows_its_revision_and_its_template(tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / "snapshots" / commit
    folder.mkdir(parents=True)
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "tokenizer_config.json"):
        (folder / name).write_text(name)
    found = marked(Serve("a", engine="vllm", model=str(folder)), tmp_path, None)
    assert found.identity != ""
    assert found.parts["revision"] == commit
    assert found.parts["template"].startswith("sha256 of all:")
    (folder / "tokenizer_config.json").write_text("another")
    again = marked(Serve("a", engine="vllm", model=str(folder)), tmp_path, None)
    assert {line.partition(":")[0] for line in difference(found, again).identity} == {"model", "template"}


def test_all_parts_of_a_split_file_count(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"m-0000{number}-of-00002.gguf").write_text(str(number))
    serve = Serve("a", model=str(tmp_path / "m-00001-of-00002.gguf"))
    first = marked(serve, tmp_path)
    (tmp_path / "m-00002-of-00002.gguf").write_text("three")
    assert difference(first, marked(serve, tmp_path)).identity


def test_a_template_of_its_own_is_a_part(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ z }}")
    serve = Serve("a", model=str(weights), directory=str(tmp_path), tuning=Tuning(chat_template="t.jinja"))
    with_file = marked(serve, tmp_path, None)
    assert with_file.parts["template"].startswith("sha256:")
    assert with_file.identity != ""
    named = marked(replace(serve, tuning=Tuning(chat_template="chatml")), tmp_path, None)
    assert named.parts["template"] == "chatml"


def test_weights_are_hashed_once(weights: Path, tmp_path: Path) -> None:
    first = HashCache(tmp_path).hash_all([weights])
    ctx = weights.stat()
    weights.write_bytes(b"GGUF AND MORE")  # as long, and the clock put back: only a hash would tell
    os.utime(weights, ns=(ctx.st_atime_ns, ctx.st_mtime_ns))
    assert HashCache(tmp_path).hash_all([weights]) == first
    (tmp_path / "hashes.json").write_text("[1, 2")
    assert HashCache(tmp_path).hash_all([weights]) != first
    assert HashCache(tmp_path).hash_all([tmp_path / "gone"]) == {}


def test_a_state_that_cannot_be_written_only_costs_time(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert HashCache(tmp_path / "file").hash_all([weights])


def test_secrets_are_no_part_of_a_command() -> None:
    words = ["serve", "--api-key", "marker", "--hf-token=marker", "--max-tokens", "5", "--tokenizer", "x"]
    shown = without_secrets(words)
    assert "marker" not in " ".join(shown)
    assert shown[-4:] == ["--max-tokens", "5", "--tokenizer", "x"]

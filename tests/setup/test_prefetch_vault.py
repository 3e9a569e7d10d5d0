"""What is in a vault, who uses it, and who works in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stoker.domain.serve import Serve, Tuning
from stoker_setup.vault import (
    PrefetchRefused,
    StagingArea,
    StagingNote,
    find,
    models,
    remove,
    staging_areas,
    used,
    users,
)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    for name in (
        "m.gguf", "big-00001-of-00003.gguf", "big-00002-of-00003.gguf", "notes.txt", ".cache/a/triton", "sub/n.gguf",
        "Model/config.json", "Model/w.safetensors", "Model/.git/x", "Bare/a.gguf", ".staging/x.gguf/.x.gguf.part",
    ):  # fmt: skip
        path = tmp_path / "v" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1234567890")
    return tmp_path / "v"


def test_models_are_files_with_their_parts_and_folders_and_nothing_hidden(vault: Path) -> None:
    assert [(m.name, m.size, len(m.files), m.missing) for m in models(vault)] == [
        ("Bare/a.gguf", 10, 1, 0),
        ("Model", 20, 2, 0),
        ("big-00001-of-00003.gguf", 20, 2, 1),
        ("m.gguf", 10, 1, 0),
        ("sub/n.gguf", 10, 1, 0),
    ]
    assert used(vault) == 110
    assert models(vault / "none") == []
    assert used(vault / "none") == 0
    model = find(vault, "Model")
    assert model is not None
    assert {model.key(file) for file in model.weights} == {"w.safetensors"}
    bare = find(vault, "Bare")
    assert bare is not None
    assert bare.size == 10
    assert [find(vault, name) for name in ("none", "../v/Model", ".cache", "notes.txt")] == [None] * 4


def test_a_serve_uses_what_is_its_model_or_in_its_arguments(vault: Path) -> None:
    serves = (
        Serve("a", model=f"{vault}/m.gguf"),
        Serve("b", model="org/x", cmd=("srv", f"--draft={vault}/m.gguf")),
        Serve("c", model=f"{vault}/sub/n.gguf", extra_args=("--mmproj", f"{vault}/m.gguf")),
        Serve("d", model=f"{vault}/Model"),
    )
    by_name = {model.name: users(model, serves) for model in models(vault)}
    assert by_name == {
        "m.gguf": ["a", "b", "c"], "sub/n.gguf": ["c"], "Model": ["d"], "Bare/a.gguf": [],
        "big-00001-of-00003.gguf": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "engine_argument", ["--draft-model={vault}/Model/x.gguf", "x,{vault}/Model:1", '"{vault}/Model"']
)
def test_a_folder_is_used_by_whatever_is_read_inside_it(vault: Path, engine_argument: str) -> None:
    serves = (
        Serve("inside", model=f"{vault}/Model/w.safetensors"),
        Serve("draft", model="/m/x.gguf", tuning=Tuning(speculative=f"{vault}/Model/w.safetensors")),
        Serve("projector", model="/m/x.gguf", tuning=Tuning(mmproj=f"{vault}/Model/p.gguf")),
        Serve("adapter", model="/m/x.gguf", tuning=Tuning(adapters=("/m/a.gguf", f"{vault}/Model"))),
        Serve("argument", model="/m/x.gguf", extra_args=(engine_argument.format(vault=vault),)),
        Serve("variable", model="/m/x.gguf", env={"DRAFT": f"{vault}/Model/w.safetensors"}),
        Serve("container", engine="openai", up=("docker", "run", "-v", f"{vault}/Model:/model")),
        Serve("relative", cmd=("srv", "{dir}/Model/x.gguf", "--lora"), directory=str(vault)),
        Serve("vault", cmd=("srv", f"--models={vault}"), model="org/Model"),
        Serve("beside", model=f"{vault}/Model-2/w.safetensors", extra_args=(f"--x={vault}/Model.bak",)),
        Serve("words", model="/m/x.gguf", tuning=Tuning(speculative="mtp")),
    )
    model = find(vault, "Model")
    assert model is not None
    assert users(model, serves) == [
        "inside", "draft", "projector", "adapter", "argument", "variable", "container", "relative",
    ]  # fmt: skip


def test_a_file_is_used_through_a_link_and_by_a_folder_of_the_vault_around_it(vault: Path, tmp_path: Path) -> None:
    (tmp_path / "link.gguf").symlink_to(vault / "Bare" / "a.gguf")
    (tmp_path / "v2").symlink_to(vault)
    serves = (
        Serve("link", model=str(tmp_path / "link.gguf")),
        Serve("folder", model=f"{vault}/Bare"),
        Serve("mounted", engine="openai", up=("run", "-v", f"{tmp_path}/v2/Bare:/models")),
        Serve("other", model=f"{vault}/m.gguf", extra_args=("--models", str(vault))),
    )
    model = find(vault, "Bare/a.gguf")
    assert model is not None
    assert users(model, serves) == ["link", "folder", "mounted"]


@pytest.mark.parametrize(("name", "freed"), [("big-00001-of-00003.gguf", 20), ("Model", 30), ("m.gguf", 10)])
def test_a_model_is_removed_with_all_its_parts_and_what_was_begun_of_it(vault: Path, name: str, freed: int) -> None:
    StagingArea(vault, name).write(StagingNote("x", {}))
    if name == "Model":
        (StagingArea(vault, name).path / "draft").write_bytes(b"1234567890")
    model = find(vault, name)
    assert model is not None
    assert remove(vault, model) == freed
    assert find(vault, name) is None
    assert [box.name for box in staging_areas(vault)] == ["x.gguf"]
    assert StagingArea(vault, name).note is None


def test_two_cannot_work_in_one_box_and_the_second_learns_of_the_first(tmp_path: Path) -> None:
    box = StagingArea(tmp_path, "sub/m.gguf")
    with box.claimed():
        with pytest.raises(PrefetchRefused, match="is being staged by process") as refused, box.claimed():
            pass
        assert refused.value.code == "being_staged"
        with StagingArea(tmp_path, "other").claimed():
            pass
    with box.claimed():
        pass
    assert list((tmp_path / ".staging").iterdir()) == []


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = "import os, sys, pathlib\nfrom stoker_setup.vault import StagingArea\n" + (
        "with StagingArea(pathlib.Path(sys.argv[1]), 'm').claimed(): os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert len(list((tmp_path / ".staging").iterdir())) == 1
    with StagingArea(tmp_path, "m").claimed():
        pass


def test_a_note_that_is_broken_is_none(tmp_path: Path) -> None:
    box = StagingArea(tmp_path, "m")
    assert (box.note, box.size, staging_areas(tmp_path)) == (None, 0, [])
    box.write(StagingNote("/s/m", {"m": (3, "x")}))
    assert box.note == StagingNote("/s/m", {"m": (3, "x")})
    (box.root / "m.json").write_text("{")
    assert box.note is None

"""`stoker import lmstudio` and `hf`: model folders as these programs leave them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.importing.ollama_home import weights_of

from stoker.cli.machine import discover
from stoker.cli.machine.discover import Gpu, InstalledEngine
from stoker.cli.main import run
from stoker.config.load import load
from stoker.domain.serve import Serve
from stoker_import import hf_cache, lmstudio

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[InstalledEngine]:
    """A machine with one GPU and llama-server."""
    engines = [InstalledEngine("llama.cpp", "/usr/bin/llama-server")]
    monkeypatch.setattr(discover, "gpus", lambda: [Gpu(0, "GPU-aa", "NVIDIA", 24 * 2**30, "nvidia")])
    monkeypatch.setattr(discover, "engines", lambda: engines)
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return engines


def serves() -> dict[str, Serve]:
    return {serve.name: serve for serve in load(Path("stoker.toml")).serves}


def report(capsys: Captured, *command: str) -> dict[tuple[str | None, str], dict[str, Any]]:
    capsys.readouterr()
    run(["import", *command, "--check", "--json"])
    rows = json.loads(capsys.readouterr().out)["report"]
    return {(row["model"], row["key"]): row for row in rows}


def put(path: Path, data: bytes | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(weights_of(path.parent, "qwen2") if data is None else data)
    return path


def saved_settings(home: Path, model: str, load_fields: Mapping[str, Any], operation: Mapping[str, Any]) -> None:
    document = {
        "preset": "",
        "operation": {"fields": [{"key": key, "value": value} for key, value in operation.items()]},
        "load": {"fields": [{"key": key, "value": value} for key, value in load_fields.items()]},
    }
    path = home / ".internal" / "user-concrete-model-default-config" / f"{model}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def test_lm_studio_models_keep_their_names_projectors_and_settings(home: Path, capsys: Captured) -> None:
    own = home / ".lmstudio"
    models = own / "models"
    chat = put(models / "lmstudio-community" / "Qwen3-8B-GGUF" / "Qwen3-8B-Q4_K_M.gguf")
    put(models / "lmstudio-community" / "Seer-GGUF" / "Seer-Q4_K_M.gguf")
    put(models / "lmstudio-community" / "Seer-GGUF" / "Seer-Q8_0.gguf")
    projector = put(models / "lmstudio-community" / "Seer-GGUF" / "mmproj-Seer-f16.gguf", b"GGUF")
    put(models / "lmstudio-community" / "Seer-GGUF" / "mmproj-Seer-f32.gguf", b"GGUF")
    saved_settings(
        own,
        "lmstudio-community/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf",
        {"llm.load.contextLength": 1024, "llm.load.numParallelSessions": 3, "llm.load.llama.flashAttention": True,
         "llm.load.llama.kCacheQuantizationType": {"checked": True, "value": "q8_0"}},
        {"llm.prediction.temperature": 0.2, "llm.prediction.topPSampling": {"checked": False, "value": 0.5},
         "llm.prediction.stopStrings": ["END"]},
    )  # fmt: skip
    rows = report(capsys, "lmstudio")
    title = "lmstudio-community/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf"
    assert rows[title, "llm.load.llama.flashAttention"]["outcome"] == "dropped"
    assert rows[title, "llm.prediction.topPSampling"]["outcome"] == "ignored"
    assert run(["import", "lmstudio"]) == 0
    found = serves()
    serve = found["Qwen3-8B-Q4_K_M"]
    assert serve.model == str(chat)
    assert serve.aliases == ("qwen3-8b", title)
    assert (serve.context, serve.parallel, serve.tuning.kv_cache_type) == (1024, 3, "q8_0")
    assert dict(serve.tuning.sampling) == {"temperature": 0.2}
    assert dict(serve.request.default) == {"stop": ["END"]}
    assert found["Seer-Q8_0"].aliases[0] == "seer@q8_0"
    assert found["Seer-Q8_0"].extra_args == ("--mmproj", str(projector))


def test_lm_studio_is_found_where_its_pointer_and_settings_say(home: Path) -> None:
    elsewhere = home / "moved"
    (elsewhere / "models").mkdir(parents=True)
    (home / "big").mkdir()
    (elsewhere / "settings.json").write_text(json.dumps({"downloadsFolder": str(home / "big")}))
    (home / ".lmstudio-home-pointer").write_text(f"{elsewhere}\n")
    assert lmstudio.find_folders(home) == [home / "big", elsewhere / "models"]


def test_what_lm_studio_has_and_llama_cpp_cannot_load_is_reported(home: Path, capsys: Captured) -> None:
    models = home / ".cache" / "lm-studio" / "models"
    put(models / "mlx-community" / "Qwen3-4bit" / "model.safetensors", b"x")
    put(models / "me" / "Whole-GGUF" / "Whole-Q8_0.gguf")
    put(models / "me" / "Cut-GGUF" / "Cut-Q8_0.gguf", b"GGUF\x03")
    put(models / "me" / "Half-GGUF" / "Half-Q8_0-00001-of-00002.gguf")
    put(models / "me" / "Old-GGUF" / "Old-Q8_0.gguf", weights_of(home, "gemma3", ["v.patch.weight"]))
    put(models / "me" / "Next-GGUF" / "downloading_Next-Q8_0.gguf.part", b"x")
    rows = report(capsys, "lmstudio")
    outcomes = {model: row["outcome"] for (model, key), row in rows.items() if key == "model"}
    assert outcomes == {
        "me/Whole-GGUF/Whole-Q8_0.gguf": "carried",
        "me/Cut-GGUF/Cut-Q8_0.gguf": "failed",
        "me/Half-GGUF/Half-Q8_0-00001-of-00002.gguf": "failed",
        "me/Old-GGUF/Old-Q8_0.gguf": "failed",
        "mlx-community/Qwen3-4bit": "failed",
        "me/Next-GGUF/downloading_Next-Q8_0.gguf.part": "dropped",
    }
    assert "Half-Q8_0-00002-of-00002.gguf" in rows["me/Half-GGUF/Half-Q8_0-00001-of-00002.gguf", "model"]["note"]
    assert run(["import", "lmstudio"]) == 1
    assert run(["import", "lmstudio", "--partial"]) == 1
    assert list(serves()) == ["Whole-Q8_0"]


def repository(hub: Path, name: str, files: Mapping[str, bytes | None], commit: str = "a" * 40, ref: str = "") -> Path:
    """A repository in the hub's cache: each file a link to a blob. None: the blob is gone."""
    folder = hub / f"models--{name.replace('/', '--')}"
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    snapshot = folder / "snapshots" / commit
    for place, (file, data) in enumerate(files.items()):
        blob = folder / "blobs" / f"{commit[:8]}{place}"
        if data is not None:
            blob.write_bytes(data)
        link = snapshot / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(ref or commit)
    return snapshot


CONFIG = json.dumps({"architectures": ["Qwen3ForCausalLM"]}).encode()


def test_the_hub_is_served_by_the_snapshot_that_main_names(home: Path, tmp_path: Path) -> None:
    hub = home / ".cache" / "huggingface" / "hub"
    data = weights_of(tmp_path, "qwen2")
    repository(hub, "org/Old-GGUF", {"Old-Q4_K_M.gguf": data}, "b" * 40)
    now = repository(hub, "org/Old-GGUF", {"Old-Q4_K_M.gguf": data, "Old-Q8_0.gguf": data + b"\0"}, "a" * 40)
    split = {f"Q4_K_M/Big-Q4_K_M-0000{n}-of-00002.gguf": data + bytes(n + 1) for n in (1, 2)}
    parts = repository(hub, "org/Big-GGUF", {**split, "mmproj-F16.gguf": b"GGUF"})
    assert run(["import", "hf"]) == 0
    found = serves()
    assert found["Old-Q4_K_M"].model == str(now / "Old-Q4_K_M.gguf")  # not the blob: it has no name
    assert found["Old-Q8_0"].aliases == ("org/Old-GGUF:Q8_0",)
    assert found["Big-Q4_K_M"].model == str(parts / "Q4_K_M" / "Big-Q4_K_M-00001-of-00002.gguf")
    assert found["Big-Q4_K_M"].aliases == ("org/Big-GGUF:Q4_K_M", "org/Big-GGUF")
    assert found["Big-Q4_K_M"].extra_args == ("--mmproj", str(parts / "mmproj-F16.gguf"))


def test_models_in_the_hubs_own_format_need_an_engine_for_them(
    home: Path, capsys: Captured, machine: list[InstalledEngine]
) -> None:
    hub = home / ".cache" / "huggingface" / "hub"
    repository(hub, "Qwen/Qwen3-8B", {"config.json": CONFIG, "model.safetensors": b"x"})
    repository(hub, "org/bert", {"config.json": b'{"architectures":["BertModel"]}', "model.safetensors": b"x"})
    index = b'{"weight_map": {"w": "model-2.safetensors"}}'
    part = {"config.json": CONFIG, "model-1.safetensors": b"x", "model.safetensors.index.json": index}
    repository(hub, "org/part", part)
    repository(hub, "org/gone", {"config.json": CONFIG, "model.safetensors": None})
    (hub / "models--org--part" / "blobs" / "ff.incomplete").touch()
    (hub / "datasets--org--d").mkdir()
    rows = report(capsys, "hf")
    assert "neither is installed" in rows["Qwen/Qwen3-8B", "model"]["note"]
    assert "it is no language model" in rows["org/bert", "model"]["note"]
    assert "model-2.safetensors is missing: `hf download org/part`" in rows["org/part", "model"]["note"]
    assert "a download was not completed" in rows["org/part", "blobs"]["note"]
    assert "it has no weights" in rows["org/gone", "model"]["note"]
    machine.append(InstalledEngine("vllm", "/usr/bin/vllm"))
    assert run(["import", "hf"]) == 0
    (serve,) = serves().values()
    assert (serve.name, serve.engine, serve.model, serve.slot) == ("Qwen3-8B", "vllm", "Qwen/Qwen3-8B", "gpu0")
    assert serve.aliases == ("Qwen/Qwen3-8B",)


def test_llama_cpps_own_cache_has_the_repositorys_name_in_the_file(home: Path, tmp_path: Path) -> None:
    cache = home / ".cache" / "llama.cpp"
    put(cache / "manifest=ggml-org=gemma-GGUF=latest.json", b"{}")
    put(cache / "ggml-org_gemma-GGUF_gemma-Q4_K_M.gguf")
    projector = put(cache / "ggml-org_gemma-GGUF_mmproj-model-f16.gguf", b"GGUF")
    put(cache / "ggml-org_gemma-GGUF_other-Q8_0.gguf.downloadInProgress", b"GG")
    put(cache / "mine.gguf")
    assert run(["import", "hf"]) == 0
    found = serves()
    assert found["gemma-Q4_K_M"].aliases == ("ggml-org/gemma-GGUF:Q4_K_M",)
    assert found["gemma-Q4_K_M"].extra_args == ("--mmproj", str(projector))
    assert list(found) == ["gemma-Q4_K_M", "mine"]


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"XDG_CACHE_HOME": "relative"}, "/h/.cache/huggingface/hub"),
    ],
)
def test_the_hubs_cache_is_where_its_client_looks(environment: dict[str, str], place: str) -> None:
    assert hf_cache.find_hub(environment, Path("/h")) == Path(place)


def test_no_folder(home: Path, capsys: Captured) -> None:
    assert run(["import", "lmstudio"]) == 2
    assert run(["import", "hf"]) == 2
    assert f"there is no cache of the hub at {home}/.cache/huggingface/hub" in capsys.readouterr().err


PRESETS = """\
version = 1

[*]
c = 2048
parallel = 2
flash-attn = on   ; llama.cpp takes the value
temp = 0.6
ctk = q8_0
LLAMA_ARG_CACHE_TYPE_V = q8_0
jinja = true
port = 9999

[fast]
model = models/fast.gguf
mmproj = models/mmproj.gguf
temp = 0
load-on-startup = true
no-mmap = on
mlock = off
ngl = 12
alias = quick, small

[org/Repo-GGUF:Q8_0]
c = 0
ctk = f16
stop-timeout = 7
n-cpu-moe = 3
sleep-idle-seconds = 60

[gone]
model = gone.gguf

[org/Nowhere-GGUF]
"""


def test_presets_of_llama_cpps_router_become_serves(home: Path, tmp_path: Path, capsys: Captured) -> None:
    data = weights_of(tmp_path, "qwen2")
    ini = home / "etc" / "models.ini"
    fast = put(ini.parent / "models" / "fast.gguf")
    put(ini.parent / "models" / "mmproj.gguf", b"GGUF")
    snapshot = repository(home / ".cache/huggingface/hub", "org/Repo-GGUF", {"Repo-Q8_0.gguf": data})
    ini.write_text(PRESETS)
    rows = report(capsys, "llama.cpp", str(ini))
    assert rows[None, "version"]["outcome"] == "ignored"
    assert rows["fast", "port"]["note"] == "each start picks a free port"
    assert rows["gone", "file"]["note"].startswith("is not here")
    assert rows["org/Nowhere-GGUF", "hf-repo"]["note"].startswith("not downloaded yet")
    assert run(["import", "llama.cpp", str(ini)]) == 0
    found = serves()
    assert found["gone"].model == str(ini.parent / "gone.gguf")
    serve = found["fast"]
    assert (serve.model, serve.context, serve.parallel, serve.gpu_layers) == (str(fast), 1024, 2, 12)
    assert (serve.preload, serve.tuning.kv_cache_type, serve.aliases) == (True, "q8_0", ("quick", "small"))
    assert dict(serve.tuning.sampling) == {"temperature": 0}
    assert serve.extra_args == (
        "--flash-attn", "on", "--jinja", "--no-mmap", "--mmproj", str(ini.parent / "models" / "mmproj.gguf"),
    )  # fmt: skip
    cached = found["Repo-GGUF-Q8_0"]
    assert (cached.model, cached.context, cached.stop_grace) == (str(snapshot / "Repo-Q8_0.gguf"), 4096, 7.0)
    assert cached.aliases == ("org/Repo-GGUF:Q8_0",)
    assert cached.idle_unload == 60.0
    later = found["Nowhere-GGUF"]
    assert later.cmd is not None
    assert later.cmd[:5] == ("llama-server", "--port", "{port}", "-hf", "org/Nowhere-GGUF")
    assert later.names() == ("Nowhere-GGUF", "org/Nowhere-GGUF")
    assert cached.extra_args[-6:] == ("--n-cpu-moe", "3", "--cache-type-k", "f16", "--cache-type-v", "q8_0")


def test_sections_of_one_file_are_one_serve_only_where_they_agree(home: Path) -> None:
    put(home / "m.gguf")
    ini = home / "models.ini"
    ini.write_text("[a]\nmodel = m.gguf\n[b]\nmodel = ./m.gguf\n[c]\nmodel = m.gguf\ntemp = 1\n")
    assert run(["import", "llama.cpp", str(ini)]) == 0
    assert {name: serve.aliases for name, serve in serves().items()} == {"a": ("b",), "c": ()}


def test_a_preset_that_names_no_number_of_sequences_is_told_which_it_gets(home: Path, capsys: Captured) -> None:
    put(home / "m.gguf")
    ini = home / "models.ini"
    ini.write_text("[small]\nhf-repo = someone/small-GGUF:Q4_K_M\nctx-size = 4096\njinja = on\n[m]\nmodel = m.gguf\n")
    rows = report(capsys, "llama.cpp", str(ini))
    assert [rows[name, "parallel"]["outcome"] for name in ("small", "m")] == ["changed", "changed"]
    assert run(["import", "llama.cpp", str(ini)]) == 0
    small = serves()["small"]
    assert small.cmd is not None
    assert small.cmd[3:] == (
        "-hf", "someone/small-GGUF:Q4_K_M", "--alias", "small", "--parallel", "2", "--jinja", "--ctx-size", "4096",
    )  # fmt: skip
    assert (small.context, small.parallel) == (2048, 2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fitt = 960", ["-fitt", "960"]),
        ("rpc = 10.0.0.2:50052", ["--rpc", "10.0.0.2:50052"]),
        ("no-mmproj = true", ["--no-mmproj"]),
        ("no-mmproj = false", []),
        ("spec-default = true", ["--spec-default"]),
        ("spec-default = false", []),
        ("flash-attn = true", ["--flash-attn", "true"]),
        ("n-predict = 1", ["--n-predict", "1"]),
        ("n = -1", ["--n-predict", "-1"]),
        ("no-mmap = true", ["--no-mmap"]),
        ("no-mmap = false", ["--mmap"]),
    ],
)
def test_options_of_presets_are_written_as_llama_server_takes_them(home: Path, line: str, words: list[str]) -> None:
    ini = home / "models.ini"
    ini.write_text(f"[m]\nhf-repo = me/m-GGUF\n{line}\n")
    assert run(["import", "llama.cpp", str(ini)]) == 0
    (serve,) = serves().values()
    command = list(serve.cmd or ())
    assert command[command.index("--parallel") + 2 :] == words


def test_relative_paths_begin_where_llama_server_runs(home: Path, capsys: Captured) -> None:
    folder = home / "run"
    model = put(folder / "m.gguf")
    ini = home / "models.ini"
    ini.write_text("[m]\nmodel = m.gguf\nmd = draft/small.gguf\nlora = a.gguf, /b.gguf\ngrammar-file = g.gbnf\n")
    assert "--cwd" in report(capsys, "llama.cpp", str(ini))["m", "file"]["note"]
    assert run(["import", "llama.cpp", str(ini), "--cwd", str(folder)]) == 0
    assert serves()["m"].model == str(model)
    assert serves()["m"].extra_args == (
        "--model-draft", str(folder / "draft" / "small.gguf"), "--lora", f"{folder / 'a.gguf'},/b.gguf",
        "--grammar-file", str(folder / "g.gbnf"),
    )  # fmt: skip


def test_sections_are_about_the_routers_folder_of_models_too(home: Path, capsys: Captured) -> None:
    folder = home / "gguf"
    named, plain = put(folder / "named" / "weights.gguf"), put(folder / "plain.gguf")
    ini = home / "models.ini"
    ini.write_text("[*]\nctx-size = 4096\nparallel = 1\n[named]\ntemp = 0.5\n")
    assert run(["import", "llama.cpp", str(ini)]) == 1
    assert "--models-dir" in capsys.readouterr().out
    assert run(["import", "llama.cpp", str(ini), "--models-dir", str(folder)]) == 0
    found = serves()
    assert {name: (serve.model, serve.context) for name, serve in found.items()} == {
        "named": (str(named), 4096), "plain": (str(plain), 4096),
    }  # fmt: skip
    assert [dict(serve.tuning.sampling) for serve in found.values()] == [{"temperature": 0.5}, {}]
    assert run(["import", "llama.cpp", str(folder), "--models-dir", str(folder), "--force"]) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models:\n  a: {}\n", "models.ini:1: this is neither [section] nor key = value"),
        ("version = 1\n", "has no [section]"),
    ],
)
def test_a_file_that_is_no_preset_is_refused(home: Path, capsys: Captured, text: str, problem: str) -> None:
    ini = home / "models.ini"
    ini.write_text(text)
    assert run(["import", "llama.cpp", str(ini)]) == 1
    assert problem in capsys.readouterr().err
    assert run(["import", "llama.cpp", str(home / "none.ini")]) == 2


def test_a_folder_of_the_router_keeps_its_names(home: Path) -> None:
    put(home / "gguf" / "alone.gguf")
    put(home / "gguf" / "seer" / "weights.gguf")
    projector = put(home / "gguf" / "seer" / "mmproj.gguf", b"GGUF")
    assert run(["import", "llama.cpp", str(home / "gguf")]) == 0
    found = serves()
    assert list(found) == ["alone", "seer"]
    assert found["seer"].extra_args == ("--mmproj", str(projector))

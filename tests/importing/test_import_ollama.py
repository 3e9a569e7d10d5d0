"""`stoker import ollama`: from a store as Ollama leaves it to a configuration that runs, and a report of the rest."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.importing.ollama_home import SPARK, OllamaHome, weights_of
from tests.scenarios.typed import proposed

from stoker.cli.machine import discover
from stoker.cli.machine.discover import Gpu, InstalledEngine
from stoker.cli.main import run
from stoker.config.load import load
from stoker.domain.serve import Driver, Serve
from stoker_import import ollama_store
from stoker_import.command_models import ollama_address
from stoker_import.local_models import find_local_models
from stoker_import.ollama_store import OllamaName

Captured = pytest.CaptureFixture[str]
EIGHT_GIB = 8 * 2**30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one GPU and llama-server, and no Ollama program."""
    gpu = Gpu(0, "GPU-aa", "NVIDIA", 24 * 2**30, "nvidia")
    monkeypatch.setattr(discover, "gpus", lambda: [gpu])
    monkeypatch.setattr(discover, "engines", lambda: [InstalledEngine("llama.cpp", "/usr/bin/llama-server")])
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("OLLAMA_MODELS", "OLLAMA_HOST", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_KEEP_ALIVE", "OLLAMA_NUM_PARALLEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(home: Path) -> OllamaHome:
    return OllamaHome(home / ".ollama" / "models")


def serves() -> dict[str, Serve]:
    return {serve.name: serve for serve in load(Path("stoker.toml")).serves}


def report(capsys: Captured, *more: str) -> dict[tuple[str | None, str], dict[str, Any]]:
    """The rows of `--check --json`, by model and key."""
    capsys.readouterr()
    run(["import", "ollama", "--check", "--json", *more])
    rows = json.loads(capsys.readouterr().out)["report"]
    return {(row["model"], row["key"]): row for row in rows}


def test_a_blob_is_served_where_it_is_under_every_name_that_ollama_has_for_it(store: OllamaHome) -> None:
    store.model("llama3.2/latest", SPARK.read_bytes(), license=b"MIT")
    store.model("hf.co/bartowski/Tiny-GGUF/Q4_K_M", weights_of(store.path, "qwen2"))
    store.model("registry.ollama.ai/me/mine/latest", weights_of(store.path, "qwen3"))
    assert run(["import", "ollama"]) == 0
    found = serves()
    assert found["llama3.2"].model == str(store.file(store.blob(SPARK.read_bytes())))
    assert found["llama3.2"].aliases == ("llama3.2:latest",)
    assert found["Tiny-Q4_K_M"].aliases == ("hf.co/bartowski/Tiny-GGUF:Q4_K_M",)
    assert found["mine"].aliases == ("me/mine", "me/mine:latest")
    assert {serve.slot for serve in found.values()} == {"gpu0"}
    assert run(["config", "check"]) == 0


def test_only_the_chosen_models_are_imported(store: OllamaHome, capsys: Captured) -> None:
    store.model("a/latest", SPARK.read_bytes())
    store.model("b/3b", weights_of(store.path, "qwen2"))
    assert run(["import", "ollama", "B:3b"]) == 0  # Ollama's names have no case
    assert list(serves()) == ["b-3b"]
    assert run(["import", "ollama", "c", "--force"]) == 1
    assert "Ollama has no model c: `ollama list` shows those that it has" in capsys.readouterr().err


def test_what_a_request_says_is_filled_in_where_it_does_not(store: OllamaHome) -> None:
    store.model("m/latest", SPARK.read_bytes(), params={"stop": ["<|end|>"], "seed": 7, "num_predict": 100})
    assert run(["import", "ollama"]) == 0
    (serve,) = serves().values()
    assert dict(serve.request.default) == {"stop": ["<|end|>"], "seed": 7, "max_tokens": 100}


def test_parameters_become_settings_and_each_has_a_row(store: OllamaHome, capsys: Captured) -> None:
    parameters = {
        "num_ctx": 2048, "temperature": 0.3, "top_k": 20, "repeat_penalty": 1.1, "num_gpu": 12, "num_thread": 3,
        "mirostat": 2, "use_mmap": False, "penalize_newline": True, "num_predict": -1, "typical_p": 0.9,
    }  # fmt: skip
    store.model("m/latest", weights_of(store.path, "qwen2"), params=parameters)
    rows = report(capsys)
    assert all(("m:latest", f"PARAMETER {name}") in rows for name in parameters.keys() - {"num_ctx"})
    assert rows["m:latest", "PARAMETER penalize_newline"]["outcome"] == "ignored"
    assert run(["import", "ollama"]) == 0
    serve = serves()["m"]
    assert (serve.context, serve.gpu_layers, serve.threads) == (2048, 12, 3)
    assert dict(serve.tuning.sampling) == {"temperature": 0.3, "top_k": 20, "repetition_penalty": 1.1}
    assert serve.extra_args == ("--mirostat", "2", "--no-mmap", "--typical", "0.9")


def test_a_context_that_does_not_fit_is_made_smaller_and_said(store: OllamaHome, capsys: Captured) -> None:
    store.model("long/latest", weights_of(store.path, "qwen2"), params={"num_ctx": 9000})
    row = report(capsys)["long:latest", "context"]
    assert (row["outcome"], row["became"]) == ("changed", "context = 4096")
    assert row["note"] == "9000 is more than the model was trained for"


def test_models_of_one_blob_share_a_serve_only_where_their_settings_agree(store: OllamaHome) -> None:
    data = SPARK.read_bytes()
    store.model("s/latest", data, params={"temperature": 1})
    store.model("s/2b", data, params={"temperature": 1})
    store.model("precise/latest", data, params={"temperature": 0})
    assert run(["import", "ollama"]) == 0
    found = serves()
    assert found["s"].aliases == ("s:latest", "s:2b")
    assert found["precise"].model == found["s"].model
    assert len(found) == 2


def test_projectors_adapters_and_texts(store: OllamaHome, capsys: Captured) -> None:
    store.model(
        "seer/latest", weights_of(store.path, "llama"), projector=weights_of(store.path, "clip"),
        adapter=[b"GGUF1", b"GGUF2"], system=b"You are\nbrief. " * 9, template=b"{{ .Prompt }}", messages=b"[]",
    )  # fmt: skip
    rows = report(capsys)
    assert rows["seer:latest", "TEMPLATE"]["note"].startswith("the GGUF file has none, so llama.cpp takes ChatML")
    assert "You are brief. You are brief." in rows["seer:latest", "SYSTEM"]["note"]
    assert rows["seer:latest", "MESSAGE"]["outcome"] == "dropped"
    assert run(["import", "ollama"]) == 0
    (serve,) = serves().values()
    assert serve.extra_args[::2] == ("--mmproj", "--lora", "--lora")
    assert all(Path(path).is_file() for path in serve.extra_args[1::2])
    assert serve.modalities == ("text", "image")


def test_the_embedded_engine_takes_a_projector_as_well(
    store: OllamaHome, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "engines", list)
    store.model("seer/latest", weights_of(store.path, "llama"), projector=weights_of(store.path, "clip"))
    assert not any(row["outcome"] == "dropped" for row in report(capsys).values())
    assert run(["import", "ollama"]) == 0
    (serve,) = serves().values()
    assert serve.modalities == ("text", "image")


def test_embedding_models_answer_with_vectors(store: OllamaHome) -> None:
    store.model("nomic-embed-text/latest", weights_of(store.path, "nomic-bert", **{"nomic-bert__pooling_type": 1}))
    assert run(["import", "ollama"]) == 0
    (serve,) = serves().values()
    assert [dialect.value for dialect in serve.dialects] == ["embeddings"]
    assert serve.extra_args == ("--embeddings", "-b", "4096", "-ub", "4096")


def test_an_old_llama_3_gets_the_corrections_that_ollama_makes(store: OllamaHome) -> None:
    facts = {
        "tokenizer__chat_template": "<|start_header_id|>{{ x }}<|eot_id|>",
        "tokenizer__ggml__eos_token_id": 128001,
    }
    store.model("llama3/latest", weights_of(store.path, "llama", **facts))
    assert run(["import", "ollama"]) == 0
    (serve,) = serves().values()
    assert serve.extra_args == (
        "--override-kv", "tokenizer.ggml.pre=str:llama-bpe",
        "--override-kv", "tokenizer.ggml.eos_token_id=int:128009",
    )  # fmt: skip


FOREIGN: list[tuple[str, list[str], dict[str, Any]]] = [
    ("gptoss", [], {}),
    ("olmo3", [], {}),
    ("qwen25vl", [], {}),
    ("deepseekocr", [], {}),
    ("glmocr", [], {}),
    ("glm4moelite", [], {}),
    ("gemma3", [], {"gemma3__mm__tokens_per_image": 256, "gemma3__attention__layer_norm_rms_epsilon": 1}),
    ("gemma3", ["dense.0.weight"], {"gemma3__attention__layer_norm_rms_epsilon": 1}),
    ("gemma3", [], {}),
    ("gemma3n", ["per_layer_token_embd.weight"], {}),
    ("gemma4", [], {"tokenizer__ggml__model": "llama"}),
    ("mistral3", ["v.patch.weight"], {}),
    ("mistral3", [], {"mistral3__rope__scaling__beta_fast": 32}),
    ("qwen3vl", [], {}),
    ("qwen35", ["mtp.0.weight"], {}),
    ("qwen35moe", [], {"qwen35moe__ssm__v_head_reordered": True}),
    ("qwen3next", ["blk.0.ssm_dt"], {}),
    ("llama4", ["mm.linear.weight"], {}),
    ("lfm2", ["output_norm.weight"], {}),
    ("laguna", ["blk.0.attn_g.weight"], {}),
    ("nemotron_h_moe", ["blk.1.ffn_latent_in.weight"], {}),
    ("nemotron_h_omni", ["a.conv.weight"], {}),
    ("llama", ["s.decoder.weight"], {}),
    ("bert", [], {"tokenizer__ggml__model": "t5", "tokenizer__ggml__precompiled_charsmap": ["x", "y"]}),
]


@pytest.mark.parametrize(("architecture", "tensors", "facts"), FOREIGN)
def test_a_model_that_only_ollama_loads_is_found_by_its_header(
    store: OllamaHome, capsys: Captured, architecture: str, tensors: list[str], facts: dict[str, Any]
) -> None:
    store.model("odd/latest", weights_of(store.path, architecture, tensors, **facts))
    assert run(["import", "ollama"]) == 1
    out = capsys.readouterr()
    assert "only Ollama's own llama-server loads it" in out.out
    assert "keep Ollama running and add --through-ollama" in out.out
    assert "could not be carried: odd:latest" in out.err
    assert not Path("stoker.toml").exists()


@pytest.mark.parametrize(
    ("architecture", "tensors", "facts"),
    [
        ("gemma3", [], {"gemma3__attention__layer_norm_rms_epsilon": 1}),
        ("gpt-oss", [], {}),
        ("qwen2vl", [], {}),
        ("mistral3", [], {"mistral3__rope__scaling__yarn_beta_fast": 32}),
        ("qwen3vl", [], {"qwen3vl__rope__dimension_sections": [1, 2, 3]}),
        ("qwen3next", ["blk.0.ssm_dt.bias"], {}),
        ("lfm2", ["token_embd_norm.weight", "output_norm.weight"], {}),
        ("bert", [], {"tokenizer__ggml__model": "t5", "tokenizer__ggml__precompiled_charsmap": [1, 2]}),
        ("olmo2", [], {}),
    ],
)
def test_models_of_the_same_kinds_as_llama_cpp_converts_them_are_served(
    store: OllamaHome, architecture: str, tensors: list[str], facts: dict[str, Any]
) -> None:
    store.model("plain/latest", weights_of(store.path, architecture, tensors, **facts))
    assert run(["import", "ollama"]) == 0
    assert list(serves()) == ["plain"]


def test_ollamas_own_engine_loads_them_where_it_is_installed(
    store: OllamaHome, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin/ollama", "lib/ollama/llama-server", "lib/ollama/cuda_v12/libggml-cuda.so",
                 "lib/ollama/cuda_v13/libggml-base.so", "lib/ollama/cuda_v13/libggml-cuda.so"):  # fmt: skip
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin")
    store.model("gemma3/4b", weights_of(store.path, "gemma3", ["v.patch.weight"]))
    assert run(["import", "ollama"]) == 0
    (serve,) = serves().values()
    library = home / "lib" / "ollama"
    assert serve.env == {
        "PATH": f"{library}:{home}/bin:/usr/bin",
        "LD_LIBRARY_PATH": f"{library}:{library}/cuda_v13",
        "GGML_BACKEND_PATH": f"{library}/cuda_v13/libggml-cuda.so",
    }
    assert serve.embedded is False
    assert serve.extra_args == ("--mmproj", serve.model)


def test_through_ollama_keeps_what_only_it_can_serve(
    store: OllamaHome, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.model("gpt-oss/20b", weights_of(store.path, "gptoss"))
    store.model("kimi/cloud", config={"remote_host": "https://ollama.com:443"})
    store.model("mlx/latest", tensor=[b"1", b"2"])
    store.model("plain/latest", SPARK.read_bytes())
    assert run(["import", "ollama", "--through-ollama"]) == 0
    found = serves()
    assert found["gpt-oss-20b"].base_url == "http://127.0.0.1:11434/v1"
    assert found["gpt-oss-20b"].served_name == "gpt-oss:20b"
    assert [serve.driver for serve in found.values()].count(Driver.EXTERNAL) == 3
    assert "it is a cloud model, which runs at https://ollama.com:443" in capsys.readouterr().out
    assert run(["import", "ollama", "--through-ollama", "--port", "11434", "--force"]) == 2
    assert "Ollama keeps port 11434" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("box:9000", "http://box:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("https://box/", "https://box:11434"),
    ],
)
def test_every_form_of_ollamas_address_is_understood(given: str, address: str) -> None:
    assert ollama_address({"OLLAMA_HOST": given}) == address


def test_what_is_gone_or_broken_is_named_and_the_rest_goes_on(store: OllamaHome, capsys: Captured) -> None:
    store.model("good/latest", SPARK.read_bytes())
    store.model("gone/latest", weights_of(store.path, "qwen2"))
    store.file(store.blob(weights_of(store.path, "qwen2"))).unlink()
    store.model("cut/latest", SPARK.read_bytes()[:3000])
    store.model("text/latest", b"not a model")
    store.model("none/latest").write_text("not json")
    store.model("list/latest").write_text("[1]")
    store.model("away/latest").write_text('{"layers":[{"mediaType":"x","digest":"sha256:../../../etc/passwd"}]}')
    (store.path / "manifests" / ".DS_Store").touch()
    rows = report(capsys)
    failed = [model for (model, _), row in rows.items() if row["outcome"] == "failed"]
    assert failed == [f"{name}:latest" for name in ("away", "cut", "gone", "list", "none", "text")]
    assert "is gone: `ollama pull gone:latest`" in rows["gone:latest", "model"]["note"]
    assert "is broken (it ends inside its header): download it again" in rows["cut:latest", "model"]["note"]
    assert "is not a GGUF file" in rows["text:latest", "model"]["note"]
    assert "is not JSON" in rows["none:latest", "manifest"]["note"]
    assert "is not a manifest" in rows["list:latest", "manifest"]["note"]
    assert run(["import", "ollama"]) == 1
    assert not Path("stoker.toml").exists()
    assert run(["import", "ollama", "--partial"]) == 1
    assert list(serves()) == ["good"]


def test_settings_of_ollamas_server_are_carried(
    store: OllamaHome, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.model("m/latest", weights_of(store.path, "qwen2"))
    for name, value in (("CONTEXT_LENGTH", "1024"), ("KEEP_ALIVE", "1h30m"), ("NUM_PARALLEL", "3"),
                        ("KV_CACHE_TYPE", "q8_0"), ("HOST", "0.0.0.0"), ("MAX_LOADED_MODELS", "3")):  # fmt: skip
        monkeypatch.setenv(f"OLLAMA_{name}", value)
    rows = report(capsys)
    assert rows[None, "OLLAMA_HOST"]["outcome"] == "dropped"
    assert "give the slot its `memory`" in rows[None, "OLLAMA_MAX_LOADED_MODELS"]["note"]
    assert run(["import", "ollama"]) == 0
    (serve,) = serves().values()
    assert (serve.context, serve.idle_unload, serve.parallel, serve.tuning.kv_cache_type) == (1024, 5400.0, 3, "q8_0")


def test_stores_are_found_where_ollama_and_its_systemd_unit_put_them(home: Path, tmp_path: Path) -> None:
    root, own = tmp_path / "root", OllamaHome(home / ".ollama" / "models")
    system = OllamaHome(root / "usr/share/ollama/.ollama/models")
    for one in (own, system):
        one.model("m/latest", b"GGUF")
    assert ollama_store.find_stores({}, home, root) == [own.path, system.path]
    drop_in = root / "etc/systemd/system/ollama.service.d/override.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(
        '[Service]\nEnvironment="OLLAMA_MODELS=/big disk/models" OLLAMA_KEEP_ALIVE=-1\n# Environment=X=1\n'
    )
    assert ollama_store.unit_environment(root) == {"OLLAMA_MODELS": "/big disk/models", "OLLAMA_KEEP_ALIVE": "-1"}
    assert ollama_store.find_stores({}, home, root) == [Path("/big disk/models")]
    assert ollama_store.find_stores({"OLLAMA_MODELS": "~/elsewhere"}, home, root) == [home / "elsewhere"]


def test_links_in_the_vault_outlive_the_blobs(store: OllamaHome, home: Path, capsys: Captured) -> None:
    projector = weights_of(store.path, "clip")
    store.model("seer/latest", SPARK.read_bytes(), projector=projector, params={"temperature": 1})
    store.model("other/latest", SPARK.read_bytes())
    assert run(["import", "ollama", "--link"]) == 0
    vault = home / ".local/share/stoker/vault"
    found = serves()
    assert found["seer"].model == str(vault / "other.gguf")  # one file, one link
    assert found["seer"].extra_args == ("--mmproj", str(vault / "seer-mmproj.gguf"))
    blob = store.file(store.blob(SPARK.read_bytes()))
    assert blob.samefile(vault / "other.gguf")
    assert blob.stat().st_nlink == 2
    blob.unlink()
    assert (vault / "other.gguf").read_bytes() == SPARK.read_bytes()
    assert "vault:other.gguf" in Path("stoker.toml").read_text()


def test_a_link_that_cannot_be_made_changes_nothing(
    store: OllamaHome, home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.model("a/latest", SPARK.read_bytes())
    store.model("b/latest", weights_of(store.path, "qwen2"))
    vault = home / ".local/share/stoker/vault"
    vault.mkdir(parents=True)
    (vault / "b.gguf").write_bytes(b"mine")
    assert run(["import", "ollama", "--link"]) == 1
    assert "another file is there" in capsys.readouterr().err
    assert [path.name for path in vault.iterdir()] == ["b.gguf"]
    assert not Path("stoker.toml").exists()

    def refuse(source: object, target: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    with monkeypatch.context() as patch:
        patch.setattr("os.link", refuse)
        assert run(["import", "ollama", "--link"]) == 1
    assert "they are on different file systems. Leave --link out" in capsys.readouterr().err


def test_a_store_that_may_not_be_read_says_how_to_be_let_in(
    store: OllamaHome, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        assert run(["import", "ollama", "--store", str(store.path)]) == 1
    assert "sudo usermod -aG ollama $USER" in capsys.readouterr().err


def test_no_store_and_a_directory_that_is_none(home: Path, capsys: Captured) -> None:
    assert run(["import", "ollama", "--store", str(home)]) == 1
    assert f"{home} is not a store of Ollama's models" in capsys.readouterr().err


def test_names_are_completed(store: OllamaHome) -> None:
    from stoker_import.command_models import ollama_names

    store.model("llama3.2/latest", b"")
    store.model("qwen3/8b", b"")
    assert ollama_names("ll") == ["llama3.2:latest"]
    assert ollama_names("") == ["llama3.2:latest", "qwen3:8b"]


def test_names_of_ollama() -> None:
    assert OllamaName("registry.ollama.ai", "library", "llama3.2", "latest").spellings == (
        "llama3.2",
        "llama3.2:latest",
    )
    assert OllamaName("hf.co", "org", "Repo-GGUF", "Q8_0").spellings == ("hf.co/org/Repo-GGUF:Q8_0",)
    assert OllamaName("hf.co", "org", "Repo-GGUF", "Q8_0").short == "Repo-Q8_0"


def test_the_search_of_other_programs_places_ends_in_time(home: Path, capsys: Captured) -> None:
    store = OllamaHome(home / ".ollama" / "models")
    for name in ("a", "b", "c"):
        store.model(f"{name}/latest", weights_of(home, "qwen2", general__name=name))
    times = iter([0.0, 1.0, 9.0, 9.0])
    found = find_local_models({}, home, home, clock=lambda: next(times))
    assert [model.name for model in found.models] == ["a"]
    assert "the search took too long" in (reason := found.left_out[0].reason)
    assert run(proposed(reason, "stoker import").split()[1:]) == 2, "it lists the importers"
    assert "ollama" in "".join(capsys.readouterr())

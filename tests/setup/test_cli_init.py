"""`stoker init`: whatever is found, the file that it writes is one that the program accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from tests.fleet.memory.model_files import gguf, llama
from tests.importing.ollama_home import SPARK, OllamaHome, weights_of

from stoker.cli.machine import discover
from stoker.cli.machine.discover import Gpu, InstalledEngine, ModelFile
from stoker.cli.machine.serve_plan import MachineInventory, plan_serves
from stoker.cli.main import run
from stoker.config.load import load
from stoker.fleet.memory.fit.check import choose_context
from stoker.fleet.memory.host import HostMemory
from stoker_setup.commands import init, init_config

Captured = pytest.CaptureFixture[str]
GIB = 2**30
H200 = Gpu(0, "GPU-aa", "NVIDIA H200", 141 * 2**30, "nvidia")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing."""
    monkeypatch.setattr(discover, "gpus", list)
    monkeypatch.setattr(discover, "engines", list)
    monkeypatch.setattr(init, "shipped_models", list)


def model(path: str | Path, size: int = 100) -> ModelFile:
    return ModelFile(Path(path), size)


@pytest.mark.parametrize(
    "found",
    [
        MachineInventory([], [], [], Path("/v")),
        MachineInventory([], [model("/m/a.gguf"), model("/n/a.gguf"), model("/o/a-q8_0.gguf")], [], Path("/v")),
        MachineInventory(
            [H200, Gpu(1, "U\n[x]", 'odd "name"\n#', None, "amd")], [model("/v/b.gguf")] * 3, [], Path("/v")
        ),
        MachineInventory(
            [], [model('/m/qu"o\\te é 模型.gguf'), model("/m/auto.gguf"), model("/_.gguf")], [], Path('/"v')
        ),
        MachineInventory([H200], [model("/m/a.gguf")], [InstalledEngine("vllm", "/usr/bin/vllm")], Path("/v")),
    ],
    ids=["nothing", "same names", "two gpus", "hostile names", "another engine"],
)  # fmt: skip
def test_every_file_that_is_written_is_accepted(found: MachineInventory, tmp_path: Path) -> None:
    path = tmp_path / "stoker.toml"
    path.write_text(init_config.config_text(found, 8123, plan_serves(found)), encoding="utf-8")
    settings = load(path)
    assert settings.front_door.port == 8123
    assert len(settings.serves) == len(found.models)
    assert [Path(s.model) for s in settings.serves] == [m.path for m in found.models]
    assert len(settings.slots) == max(1, len(found.gpus))
    assert settings.paths.vault == str(found.vault)


def test_init_writes_what_it_found_and_tells_the_next_command(home: Path, capsys: Captured) -> None:
    for place in ("a.gguf", "models/b-Q4_K_M.gguf"):
        path = home / ("work" if place == "a.gguf" else "") / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(SPARK.read_bytes())
    assert run(["init", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "GPU     none found" in out
    assert "no llama.cpp found" in out
    assert "pip install xllamacpp" in out
    assert out.endswith("next: stoker up\n")
    assert [s.name for s in load(Path("stoker.toml")).serves] == ["a", "b"]
    assert run(["config", "check"]) == 0


def own_models(folder: Path) -> dict[str, Path]:
    """One whole model, and what else lies in folders of models. By what each is."""
    folder.mkdir(exist_ok=True)
    whole = SPARK.read_bytes()
    found = {
        "good": folder / "good.gguf", "truncated": folder / "truncated.gguf", "dangling": folder / "dangling.gguf",
        "split": folder / "split-00001-of-00002.gguf", "headless": folder / "headless-00002-of-00003.gguf",
        "projector": folder / "mmproj-good.gguf", "text": folder / "notes.gguf", "pointer": folder / "pointer.gguf",
    }  # fmt: skip
    found["good"].write_bytes(whole)
    found["truncated"].write_bytes(whole[: len(whole) // 2])
    found["dangling"].symlink_to(folder / "gone.gguf")
    found["split"].write_bytes(whole)
    found["headless"].write_bytes(whole)
    (folder / "headless-00003-of-00003.gguf").write_bytes(whole)
    found["projector"].write_bytes(weights_of(folder, "clip"))
    found["text"].write_text("some notes\n")
    found["pointer"].write_text("version https://git-lfs.github.com/spec/v1\n")
    return found


def test_what_no_engine_can_load_is_named_with_the_reason_and_left_out(home: Path, capsys: Captured) -> None:
    files = own_models(home / "work" / "own")
    assert run(["init", "--yes"]) == 0
    out = capsys.readouterr().out
    ignored = sorted(line for line in out.splitlines() if line.startswith("ignored "))
    folder = files["good"].parent
    assert [line.partition(": ")[0].partition(" (it has")[0] for line in ignored] == sorted([
        f"ignored {files['truncated']} is cut off",
        f"ignored {files['dangling']} is a link to {folder}/gone.gguf, which does not exist",
        f"ignored {folder}/split-00002-of-00002.gguf, part 2 of 2, does not exist",
        f"ignored {folder}/headless-00001-of-00003.gguf, part 1 of 3, does not exist",
        f"ignored {files['projector']} is a projector of another model",
        f"ignored {files['text']} is not a GGUF file",
        f"ignored {files['pointer']} is a git-lfs pointer, not the weights",
    ])  # fmt: skip
    assert [s.name for s in load(Path("stoker.toml")).serves] == ["good"]
    assert run(["init", "--json", "--force"]) == 0
    assert sorted(f"ignored {text}" for text in json.loads(capsys.readouterr().out)["ignored"]) == ignored


def test_if_no_file_can_be_loaded_the_way_to_a_whole_one_is_the_next_step(home: Path, capsys: Captured) -> None:
    Path("a.gguf").write_bytes(SPARK.read_bytes()[:-1])
    assert run(["init", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "a.gguf is cut off" in out
    assert out.splitlines()[-1].startswith("next: put a GGUF file into")
    assert load(Path("stoker.toml")).serves == ()


def test_without_models_the_shipped_ones_are_used(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    shipped = tmp_path / "spark.gguf"
    shipped.write_bytes(b"GGUF")
    monkeypatch.setattr(init, "shipped_models", lambda: [ModelFile(shipped, 4)])
    assert run(["init", "--yes"]) == 0
    assert "comes with Stoker" in capsys.readouterr().out
    assert "these two tiny models come with Stoker" in Path("stoker.toml").read_text()
    assert [s.name for s in load(Path("stoker.toml")).serves] == ["spark"]


@pytest.mark.parametrize(
    ("memory", "trained", "said"),
    [
        (
            64,
            131072,
            "context eight: {context} tokens of 131072 that it was trained for, for each of 2 requests at once",
        ),
        (640, 131072, "context eight: 131072 tokens, all that it was trained for, for each of 2 requests"),
        (
            64,
            8192,
            "agents  most coding agents need a context of up to 32768 tokens, some up to 57344, "
            "which eight cannot give",
        ),
    ],
)
def test_the_context_is_what_fits_and_no_more_than_the_model_was_trained_for(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, memory: int, trained: int, said: str
) -> None:
    main = HostMemory(memory * GIB, memory * GIB)
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: main)
    monkeypatch.setenv("PATH", "/nowhere")
    llama(Path("eight.gguf"), **{"llama.context_length": trained})
    assert run(["init", "--yes"]) == 0
    (serve,) = load(Path("stoker.toml")).serves
    context = serve.context
    assert context is not None
    assert 4096 < context <= trained
    assert context == choose_context(serve, None, [], main).context, 'as context = "auto" would choose it'
    assert said.format(context=context) in capsys.readouterr().out
    assert run(["init", "--json", "--force"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(s["name"], s["context"], s["trained"]) for s in document["serves"]] == [("eight", context, trained)]


def test_the_file_offers_to_fetch_images(home: Path) -> None:
    assert run(["init", "--yes"]) == 0
    text = Path("stoker.toml").read_text()
    assert not load(Path("stoker.toml")).media.fetch
    assert "\n# [media]\n# fetch = true" in text
    Path("stoker.toml").write_text(text.replace("# [media]\n# fetch", "[media]\nfetch"))
    assert load(Path("stoker.toml")).media.fetch


def test_a_gpu_counts_if_llama_server_is_there_to_use_it(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "gpus", lambda: [Gpu(0, "GPU-aa", "NVIDIA L4", 12 * GIB, "nvidia")])
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(640 * GIB, 640 * GIB))
    llama(Path("eight.gguf"))
    server = home / "llama-server"
    server.write_text("")
    server.chmod(0o755)
    contexts = []
    for path in ("/nowhere", str(home)):
        monkeypatch.setenv("PATH", path)
        assert run(["init", "--json", "--force"]) == 0
        contexts.append(json.loads(capsys.readouterr().out)["serves"][0]["context"])
    assert contexts[0] == 131072, "the embedded engine computes on processors"
    assert contexts[1] < 65536


def test_a_model_whose_context_cannot_be_computed_gets_a_guess_and_the_reason(home: Path, capsys: Captured) -> None:
    gguf(Path("odd.gguf"), {"general.architecture": "llama"}, [("x", (32,), 0, 0)], 128)
    assert run(["init", "--yes"]) == 0
    assert "context odd: 4096 tokens, a guess: " in capsys.readouterr().err
    assert "# tokens that one request may use; a guess: see `stoker fit odd`" in Path("stoker.toml").read_text()


def test_a_file_that_is_there_is_kept_unless_forced(home: Path, capsys: Captured) -> None:
    Path("stoker.toml").write_text("mine")
    assert run(["init", "--yes"]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("stoker.toml").read_text() == "mine"
    assert run(["init", "--yes", "--force"]) == 0
    assert Path("stoker.toml").read_text() != "mine"
    assert Path("stoker.toml.bak").read_text() == "mine"
    assert f"what {home / 'work' / 'stoker.toml'} held is kept: " in capsys.readouterr().err
    Path("stoker.toml").write_text("mine, too")
    assert run(["init", "--yes", "--force"]) == 0
    assert [Path(name).read_text() for name in ("stoker.toml.bak", "stoker.toml.bak2")] == ["mine", "mine, too"]
    assert run(["init", "--yes", "--path", "no/such/dir.toml"]) == 2


def test_another_path_is_named_in_the_next_command(home: Path, capsys: Captured) -> None:
    Path("a.gguf").write_bytes(SPARK.read_bytes())
    assert run(["init", "--yes", "--path", "other file.toml"]) == 0
    assert capsys.readouterr().out.endswith(f"next: stoker up --config '{home / 'work' / 'other file.toml'}'\n")


def test_a_command_that_writes_the_file_anew_names_the_one_that_was_written(home: Path, capsys: Captured) -> None:
    written = home / "work" / "try.toml"
    assert run(["init", "--yes", "--path", "try.toml"]) == 0
    assert f"stoker init --force --path {written};" in capsys.readouterr().out
    OllamaHome(home / ".ollama" / "models").model("llama3.2/latest", SPARK.read_bytes())
    assert run(["init", "--yes", "--force", "--path", "try.toml"]) == 0
    assert f"stoker import ollama --force --partial --path {written}\n" in capsys.readouterr().out


def test_without_any_model_the_next_step_is_to_get_one(home: Path, capsys: Captured) -> None:
    assert run(["init", "--yes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("next: put a GGUF file into")
    commented = Path("stoker.toml").read_text().split("# [[serve]]")[1]
    Path("stoker.toml").write_text("[slots.cpu]\n[[serve]]" + commented.replace("\n# ", "\n"))
    assert load(Path("stoker.toml")).serves[0].name == "mine"


def test_without_a_terminal_nothing_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["init"]) == 0
    assert "every default is taken" in capsys.readouterr().err


def test_models_of_other_programs_are_found_and_their_origin_is_said(home: Path, capsys: Captured) -> None:
    store = OllamaHome(home / ".ollama" / "models")
    store.model("llama3.2/latest", SPARK.read_bytes())
    store.model("gpt-oss/20b", weights_of(home, "gptoss"))
    store.model("nomic-embed-text/latest", weights_of(home, "nomic-bert", **{"nomic-bert__pooling_type": 1}))
    store.model("cut/latest", b"GGUF")
    for place in (
        ".lmstudio/models/me/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf",
        ".cache/huggingface/hub/models--me--Hub-GGUF/snapshots/abcdef0/Hub-Q8_0.gguf",
        ".cache/llama.cpp/cached.gguf",
        ".local/share/Jan/data/llamacpp/models/jan-nano/model.gguf",
        ".local/share/nomic.ai/GPT4All/four.gguf",
    ):
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_bytes(weights_of(home, "qwen2"))
    found = init.take_inventory(home / "vault")
    origins = {model.name or model.path.stem: model.origin for model in found.models}
    assert origins == {
        "cached": "llama.cpp cache", "Hub-Q8_0": "Hugging Face cache", "llama3.2": "Ollama (llama3.2:latest)",
        "Qwen3-8B-Q4_K_M": "LM Studio", "jan-nano": "Jan", "four": "GPT4All",
    }  # fmt: skip
    assert run(["init", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "(513 KiB, from Ollama (llama3.2:latest))" in out
    assert "ignored gpt-oss:20b of Ollama: only Ollama's own llama-server loads it" in out
    assert "ignored nomic-embed-text:latest of Ollama: it answers with vectors" in out
    assert "ignored cut:latest of Ollama: " in out
    assert "with Ollama's own names and parameters: stoker import ollama" in out
    assert ", from Hugging Face cache" in Path("stoker.toml").read_text()
    assert run(["config", "check"]) == 0


def test_for_programs_the_findings_are_one_document(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(discover, "gpus", lambda: [H200])
    Path("a.gguf").write_bytes(SPARK.read_bytes())
    assert run(["init", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["problems"] == []
    assert document["gpus"] == [{"index": 0, "uuid": "GPU-aa", "name": "NVIDIA H200", "memory": 141 * 2**30}]
    assert [m["path"] for m in document["models"]] == [str(home / "work" / "a.gguf")]


def test_the_answer_about_models_is_asked_until_it_makes_sense(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    models = [model(f"/m/{n}.gguf") for n in range(6)]
    answers = ["7", "one", "", "3, 1,3"]
    offered: list[str] = []

    def prompt(text: str, default: str) -> str:
        offered.append(default)
        return answers.pop(0)

    monkeypatch.setattr(typer, "prompt", prompt)
    assert init.ask_models(models) == [models[2], models[0]]
    assert offered == ["1,2,3,4"] * 4
    assert capsys.readouterr().err.count("numbers from 1 to 6") == 3

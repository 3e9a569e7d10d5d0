"""What `stoker add MODEL` takes, and the lines that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.config.load import load_text
from stoker_setup.adding import (
    FileRequest,
    HubRequest,
    ProgramRequest,
    ServeLines,
    WebRequest,
    block,
    parse_model,
    select,
)
from stoker_setup.hub_models import Choice, Verdict

MIRROR = "https://mirror.example/hub"


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("hf:org/repo", HubRequest("org/repo")),
        ("hf:org/repo:Q4_K_M", HubRequest("org/repo", "Q4_K_M")),
        ("hf:org/repo:sub/a.gguf", HubRequest("org/repo", "sub/a.gguf")),
        ("hf:org/repo/sub/a.gguf", HubRequest("org/repo", "sub/a.gguf")),
        ("https://huggingface.co/org/repo", HubRequest("org/repo")),
        ("https://hf.co/org/repo/tree/main", HubRequest("org/repo")),
        ("https://huggingface.co/org/repo/blob/v2/a%20b.gguf?x=1", HubRequest("org/repo", "a b.gguf", "v2")),
        ("https://hf.co/org/repo/blob/refs%2Fpr%2F1/s/a.gguf", HubRequest("org/repo", "s/a.gguf", "refs/pr/1")),
        (f"{MIRROR}/org/repo/resolve/main/a.gguf", HubRequest("org/repo", "a.gguf")),
        ("https://files.example/a.gguf?sig=1", WebRequest("https://files.example/a.gguf?sig=1")),
        ("ollama:llama3.2:1b", ProgramRequest("Ollama", "llama3.2:1b")),
        ("lmstudio:a/b", ProgramRequest("LM Studio", "a/b")),
        ("/m/a.gguf", FileRequest(Path("/m/a.gguf"))),
        ("org/repo", ProgramRequest("", "org/repo")),
        ("llama3.2", ProgramRequest("", "llama3.2")),
    ],
)
def test_a_model_can_be_named_in_many_ways(text: str, request_: object) -> None:
    assert parse_model(text, MIRROR) == request_


def test_a_whole_path_chooses_that_file_and_a_file_s_name_one_in_any_folder() -> None:
    choices = [Choice(file, 1, "Q8_0", Verdict.FITS) for file in ("a.gguf", "sub/a.gguf", "sub/b.gguf")]

    def files(wanted: str) -> list[str]:
        return [one.file for one in select(choices, wanted)]

    assert files("a.gguf") == ["a.gguf"]
    assert files("sub/a.gguf") == ["sub/a.gguf"]
    assert files("b.gguf") == ["sub/b.gguf"]
    assert files("sub") == ["sub/a.gguf", "sub/b.gguf"]
    assert files("q8_0") == files("") == ["a.gguf", "sub/a.gguf", "sub/b.gguf"]


@pytest.mark.parametrize(
    "text", ["hf:", "hf:org", "hf:org/repo:", "hf:org/../x:Q4", "https://hf.co/models", "https://a:b@x.example/a.gguf"]
)
def test_what_names_no_model_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="write "):
        parse_model(text, MIRROR)


def test_the_lines_are_read_as_they_are_meant_whatever_is_in_them() -> None:
    lines = ServeLines(
        name="a", model='/m/a "b" \\ ü.gguf', slot="cpu", title="evil\n[front_door]\u2028port = 1", size=1,
        context=2048, settings=["n_cpu_moe = 3", "gpu_layers = 7"],
        sha256={"a.gguf": "0" * 64, "b.gguf": "1" * 64},
    )  # fmt: skip
    [serve] = load_text("[slots.cpu]\n" + block(lines), Path("stoker.toml")).serves
    assert (serve.model, serve.context, serve.gpu_layers, serve.tuning.n_cpu_moe) == (lines.model, 2048, 7, 3)
    assert dict(serve.sha256) == dict(lines.sha256)

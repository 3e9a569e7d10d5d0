"""What clients of Ollama's are told about models: every field is there, and none is null."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from stoker.request.translate.ollama.listing import SPEAKS, OllamaModel, ps, show, tags, version

KNOWN: OllamaModel = {
    "name": "qwen3:8b", "size": 5_000_000_000, "modified_at": 1700000000.5, "digest": "sha256:" + "ab" * 32,
    "context": 8192, "family": "qwen3", "parameters": 8_190_000_000, "quantization": "Q4_K_M",
    "capabilities": ["completion", "tools"], "expires_at": 1700000300,
}  # fmt: skip
UNKNOWN: OllamaModel = {
    "name": "x", "size": None, "modified_at": None, "digest": None, "context": None, "family": None,
    "parameters": None, "quantization": None, "capabilities": [], "expires_at": None,
}  # fmt: skip
DETAILS = {
    "parent_model": "", "format": "", "family": "qwen3", "families": ["qwen3"], "parameter_size": "8.2B",
    "quantization_level": "Q4_K_M",
}  # fmt: skip
NO_DETAILS: dict[str, Any] = dict.fromkeys(DETAILS, "") | {"families": []}
HEAD = {"name": "qwen3:8b", "model": "qwen3:8b", "size": 5_000_000_000, "digest": "ab" * 32, "details": DETAILS}
NO_HEAD = {"name": "x", "model": "x", "size": 0, "digest": "0" * 64, "details": NO_DETAILS}


def test_tags_lists_what_could_be_asked() -> None:
    assert tags([KNOWN, UNKNOWN]) == {
        "models": [
            HEAD | {"modified_at": "2023-11-14T22:13:20Z"},
            NO_HEAD | {"modified_at": "0001-01-01T00:00:00Z"},
        ]
    }
    assert tags([]) == {"models": []}


def test_ps_lists_what_is_loaded_and_until_when() -> None:
    assert ps([KNOWN, UNKNOWN]) == {
        "models": [
            HEAD | {"expires_at": "2023-11-14T22:18:20Z", "size_vram": 5_000_000_000, "context_length": 8192},
            NO_HEAD | {"expires_at": "9999-12-31T23:59:59Z", "size_vram": 0, "context_length": 0},
        ]
    }


def test_show_tells_the_context_where_clients_look_for_it() -> None:
    found = show(KNOWN)
    assert found["model_info"] == {
        "general.architecture": "qwen3", "general.parameter_count": 8_190_000_000, "qwen3.context_length": 8192,
    }  # fmt: skip
    assert (found["details"], found["capabilities"]) == (DETAILS, ["completion", "tools"])
    assert (found["parameters"], found["modified_at"]) == ("num_ctx 8192", "2023-11-14T22:13:20Z")


def test_the_context_is_found_without_a_family_too() -> None:
    info = show({**UNKNOWN, "context": 4096})["model_info"]
    assert info[f"{info['general.architecture']}.context_length"] == 4096


def test_show_of_a_model_that_nothing_is_known_of() -> None:
    assert show(UNKNOWN) == {
        "license": "", "modelfile": "", "parameters": "", "template": "", "details": NO_DETAILS,
        "model_info": {"general.architecture": "unknown"}, "capabilities": [], "modified_at": "0001-01-01T00:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "label"), [(8_190_000_000, "8.2B"), (1_000_000_000, "1.0B"), (270_000_000, "270.00M"), ("8B", "8B")]
)
def test_a_number_of_parameters_is_told_as_ollama_does(parameters: int | str, label: str) -> None:
    assert show({**KNOWN, "parameters": parameters})["details"]["parameter_size"] == label


def test_nothing_is_null_and_every_time_can_be_read() -> None:
    def values(found: Any) -> list[Any]:
        inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
        return [found, *(value for item in inner for value in values(item))]

    for told in (tags([UNKNOWN]), ps([UNKNOWN]), show(UNKNOWN)):
        assert None not in values(told)
    assert all(datetime.fromisoformat(text) for text in values([tags([UNKNOWN]), ps([UNKNOWN])])
               if isinstance(text, str) and text.endswith("Z"))  # fmt: skip


def test_the_version_is_one_of_ollamas() -> None:
    assert version() == {"version": SPEAKS}
    assert [part.isdigit() for part in SPEAKS.split(".")] == [True] * 3

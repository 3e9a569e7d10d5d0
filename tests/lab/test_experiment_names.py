"""What a serve of `stoker serves experiment` is called."""

from __future__ import annotations

import pytest

from stoker.cli.machine.serve_plan import slug


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/m/Llama-3.2-1B-Instruct-Q4_K_M.gguf", "llama-3.2-1b-instruct"),
        ("big-IQ2_XS-00001-of-00003.gguf", "big"),
        ("org/Model Name", "model-name"),
        ("tiny.f16.gguf", "tiny"),
        ("...gguf", "model"),
    ],
)
def test_a_name_comes_from_the_model(path: str, name: str) -> None:
    assert slug(path) == name

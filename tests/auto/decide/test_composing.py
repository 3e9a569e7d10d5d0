"""What training puts together is the same each time, and every request keeps its class."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from bench.classifier import TASKS, load
from training.compose import BURIED, composed, misspelt

from stoker.domain.task import CLASSES

WRITTEN = load(TASKS / "training.jsonl")
REQUESTS = TASKS / "requests.txt"


def test_the_same_prompts_come_out_each_time_and_all_have_a_class() -> None:
    made = composed(REQUESTS, WRITTEN)
    assert made == composed(REQUESTS, WRITTEN)
    assert {row.task_class for row in made} <= set(CLASSES)
    assert len(made) > 1000 + BURIED
    assert all(row.outline.text.strip() for row in made)


def test_a_misspelt_prompt_is_nearly_the_same() -> None:
    text = "please rename the module and fix the imports"
    wrong = misspelt(text, random.Random(1))
    assert wrong != text
    assert abs(len(wrong) - len(text)) <= 2


def test_a_request_without_a_heading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.txt"
    path.write_text("what is this\n")
    with pytest.raises(ValueError, match="without a heading"):
        composed(path, WRITTEN)

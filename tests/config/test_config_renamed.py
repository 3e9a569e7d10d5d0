"""Keys under their old names: accepted, with a warning that names the new one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.config.warnings import warnings
from stoker.domain.access import Settings

Loaded = Callable[[str], Settings]

OLD = """\
[front_door]
legacy = "refuse"
keys = [
  { name = "team", value = "env:STOKER_TEST_KEY" },
  { name = "me", value = "env:STOKER_TEST_KEY_2", legacy = "answer" },
]
[media]
most = 3
"""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_TEST_KEY", "k" * 20)
    monkeypatch.setenv("STOKER_TEST_KEY_2", "l" * 20)


def test_old_names_are_accepted_with_a_warning_that_names_the_new_one(loaded: Loaded) -> None:
    settings = loaded(OLD)
    door = settings.front_door
    assert (door.ollama_api, [key.ollama_api for key in door.keys]) == ("refuse", [None, "answer"])
    assert settings.media.max_images == 3
    end = "; 0.2.0 no longer knows the old name: rename it"
    assert warnings(settings)[:3] == [
        f"line 2: key 'front_door.legacy' is now called 'ollama_api'{end}",
        f"line 5: key 'front_door.keys[me].legacy' is now called 'ollama_api'{end}",
        f"line 8: key 'media.most' is now called 'max_images'{end}",
    ]


def test_new_names_mean_the_same_without_a_warning(loaded: Loaded) -> None:
    new = loaded(OLD.replace("legacy", "ollama_api").replace("most", "max_images"))
    assert new == loaded(OLD)
    assert not any("is now called" in text for text in warnings(new))

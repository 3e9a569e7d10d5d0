"""The demo needs no file: two tiny models that take turns, and nothing outside its own directory."""

from __future__ import annotations

from pathlib import Path

from stoker.config.demo import demo
from stoker.config.effective import to_toml
from stoker.config.load import load, load_text
from stoker.domain.serve import Slot


def test_the_demo_is_two_serves_in_a_slot_for_one(tmp_path: Path) -> None:
    settings = demo(tmp_path, 8123)
    assert settings.slots == (Slot("demo"),)
    assert [serve.name for serve in settings.serves] == ["spark", "ember"]
    assert (settings.front_door.host, settings.front_door.port, settings.front_door.keys) == ("127.0.0.1", 8123, ())
    names = [name for serve in settings.serves for name in serve.names()]
    assert len(names) == len(set(names)) == 6
    assert "gpt-4o-mini" in settings.serves[0].names()
    for serve in settings.serves:
        assert (serve.slot, serve.context, serve.parallel, serve.max_active, serve.threads) == ("demo", 2048, 4, 4, 1)
        assert (serve.die_with_parent, serve.embedded, serve.ready_timeout, serve.queue_timeout) == (True, None, 60, 30)


def test_its_serves_get_what_any_file_gets(tmp_path: Path) -> None:
    """The gaps of their engine that translation fills among it: the demo is no road of its own."""
    plain = 'name = "spark"\nmodel = "spark.gguf"\nslot = "demo"\ncontext = 2048'
    file = load_text(f"[slots.demo]\n[[serve]]\n{plain}", tmp_path / "stoker.toml").serves[0]
    for serve in demo(tmp_path, 1).serves:
        assert serve.translation == file.translation
        assert (serve.dialects, serve.asks_dialects) == (file.dialects, file.asks_dialects)


def test_it_stores_responses_within_a_bound(tmp_path: Path) -> None:
    stored = demo(tmp_path, 1).responses
    assert (stored.store, stored.max_bytes) == (True, 64 * 2**20)


def test_its_weights_are_package_data_or_lie_where_one_says(tmp_path: Path) -> None:
    import stoker

    inside = Path(str(stoker.__file__)).parent / "models"
    assert [serve.model for serve in demo(tmp_path, 1).serves] == [
        str(inside / f"{n}.gguf") for n in ("spark", "ember")
    ]
    assert demo(tmp_path, 1, tmp_path / "w").serves[1].model == str(tmp_path / "w/ember.gguf")


def test_everything_lies_under_the_given_state_and_nothing_is_created(tmp_path: Path) -> None:
    paths = demo(tmp_path / "state", 1).paths
    assert all(Path(place).is_relative_to(tmp_path / "state") for place in (paths.state, paths.logs, paths.vault))
    assert list(tmp_path.iterdir()) == []


def test_the_demo_can_be_written_as_a_file(tmp_path: Path) -> None:
    settings = demo(tmp_path, 8123)
    path = tmp_path / "stoker.toml"
    path.write_text(to_toml(settings), encoding="utf-8")
    again = load(path)
    assert (again.front_door, again.paths, again.slots) == (settings.front_door, settings.paths, settings.slots)
    assert [serve.names() for serve in again.serves] == [serve.names() for serve in settings.serves]

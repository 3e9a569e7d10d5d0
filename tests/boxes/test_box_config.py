"""`[boxes.NAME]`, `[idle_suspend]`, and the slots that serves name."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.app.configuration import placed_serves
from stoker.config.effective import to_toml
from stoker.config.load import load
from stoker.domain.errors import ConfigError
from stoker.domain.serve import Driver

BOX = '[slots.gpu0]\n[boxes.box2]\nurl = "http://box2:8000"\n'


def loaded(tmp_path: Path, text: str):  # type: ignore[no-untyped-def]
    file = tmp_path / "stoker.toml"
    file.write_text(text)
    return load(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            BOX + '[[serve]]\nname = "a"\nslot = "box3:gpu0"',
            "no box 'box3' for slot 'box3:gpu0'; did you mean",
        ),
        (BOX + '[[serve]]\nname = "a"\nslot = "box2:gpu0+gpu0"', "cannot be joined with another one"),
        (BOX + '[[serve]]\nname = "a"\nslot = "box2:"', "is not a valid name"),
        (BOX + '[[serve]]\nname = "a"\nslot = "box2:gpu0"\ncmd = "x"', "serve[a].cmd': has no effect"),
        (BOX + '[[serve]]\nname = "a"\nslot = "box2:gpu0"\nkeep_loaded = true', "starts it by its own configuration"),
        (
            BOX + '[[serve]]\nname = "a"\nmodel = "x"\nslots = ["box2:gpu0", "gpu0"]\nkeep_loaded = true',
            "name the slots of this machine first",
        ),
        (
            BOX + '[[serve]]\nname = "a"\nmodel = "x"\nslots = ["box2:gpu0", "gpu0"]\nreplicas = { min = 2, max = 2 }',
            "only 1 of its slots are here",
        ),
        (
            BOX + '[[serve]]\nname = "a"\nslots = ["box2:gpu0", "box2:gpu1"]\nreplicas = 2',
            "has 2 places in box 'box2': keep one",
        ),
        (BOX + '[[serve]]\nname = "a"\nslot = "box2:gpu0"\ndriver = "systemd"', "which runs on this machine"),
        (BOX + '[[serve]]\nname = "a"\nmodel = "x"\nslot = "gpu0"', "is used by no serve"),
        ('[boxes.b]\nmac = "a4:bb"', "is not a MAC address"),
        ('[boxes.b]\nwake_address = "lan"', "is not an IP address"),
        ("[boxes.b]", "`url` is missing"),
        ('[boxes.b]\nurl = "http://127.0.0.1:8000"', "is this Stoker's own address"),
        ('[boxes.b]\nurl = "http://b:8000/v1"', "ends with /v1"),
        ("[idle_suspend]", "`command` is missing"),
        ('[idle_suspend]\ncommand = "true"\nafter = "10s"', "is too short"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as found:
        loaded(tmp_path, text)
    assert words in str(found.value)


def test_a_serve_in_a_box_needs_no_model_and_one_with_a_place_here_keeps_its_own(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        BOX + '[swap]\nswap_timeout = "5m"\n[[serve]]\nname = "a"\nslot = "box2:gpu0"\nserved_name = "there"\n'
        '[[serve]]\nname = "b"\nmodel = "b.gguf"\nslots = ["gpu0", "box2:gpu0"]\n',
    )
    found = {serve.name: serve for serve in placed_serves(settings)}
    assert {name: serve.driver for name, serve in found.items()} == {
        "a": Driver.BOX, "b@gpu0": Driver.PROCESS, "b@box2:gpu0": Driver.BOX,
    }  # fmt: skip
    places = {name: serve.box_place for name, serve in found.items() if serve.box_place is not None}
    assert {name: (place.box, place.slot, place.serve) for name, place in places.items()} == {
        "a": ("box2", "gpu0", "there"), "b@box2:gpu0": ("box2", "gpu0", "b"),
    }  # fmt: skip
    assert settings.slot("box2:gpu0").swap.swap_timeout == 300.0
    shown = tmp_path / "shown.toml"
    shown.write_text(to_toml(settings))
    assert load(shown).slots == settings.slots

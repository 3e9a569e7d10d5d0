"""`also`: endpoints elsewhere as further replicas of a serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.app.configuration import placed_serves
from stoker.config.effective import show
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError
from stoker.domain.serve import Driver
from stoker.fleet.drivers.external import address_of

Loaded = Callable[[str], Settings]
SLOTS = "[slots.gpu0]\n"
SERVE = '[[serve]]\nname = "fast"\nengine = "openai"\ncmd = "x {port}"\nslot = "gpu0"\nparallel = 2\n'
BOX = '{ base_url = "http://box2:8000/v1" }'


def also(*entries: str) -> str:
    return SLOTS + SERVE + f"also = [{', '.join(entries)}]\n"


def test_each_endpoint_is_one_more_replica(loaded: Loaded) -> None:
    settings = loaded(
        also(BOX, '{ base_url = "https://10.0.0.7/llm/v1", name = "rack", model = "qwen", max_active = 8 }')
    )
    here, box, rack = placed_serves(settings)
    assert [(one.name, one.driver, one.slot, one.replica_of) for one in (here, box, rack)] == [
        ("fast@gpu0", Driver.PROCESS, "gpu0", "fast"), ("fast@box2", Driver.EXTERNAL, None, "fast"),
        ("fast@rack", Driver.EXTERNAL, None, "fast"),
    ]  # fmt: skip
    assert (box.served_name, box.max_active, rack.served_name, rack.max_active) == ("fast", 2, "qwen", 8)
    assert (box.health, box.translation.cloud, rack.translation.cloud) == (None, False, False)
    target = address_of(rack)
    assert (target.host, target.port, target.base_path, target.tls) == ("10.0.0.7", 443, "/llm", True)
    assert target.is_replica_elsewhere


def test_the_replica_of_a_serve_without_a_slot_is_its_main_one(loaded: Loaded) -> None:
    settings = loaded(also(BOX).replace('slot = "gpu0"\n', "port = 4000\n"))
    assert [(one.name, one.port) for one in placed_serves(settings)] == [("fast@main", 4000), ("fast@box2", None)]


def test_an_external_serve_may_have_more_endpoints(loaded: Loaded) -> None:
    settings = loaded(f'[[serve]]\nname = "fast"\nbase_url = "http://box1:8000/v1"\nalso = [{BOX}]\n')
    assert [(one.name, one.base_url) for one in placed_serves(settings)] == [
        ("fast@main", "http://box1:8000/v1"), ("fast@box2", "http://box2:8000/v1"),
    ]  # fmt: skip


def test_an_endpoint_elsewhere_has_the_settings_of_the_serve_but_not_those_of_its_process(loaded: Loaded) -> None:
    own = 'title = "Fast"\nfallback = "other"\nfallback_on = ["busy"]\nqueue = 7\nenv = { A = "b" }\ncanary = true\n'
    settings = loaded(also(BOX) + own + "[serve.request.set]\nseed = 7\n" + SERVE.replace('"fast"', '"other"'))
    here, box, _ = placed_serves(settings)
    for key in ("title", "fallback", "fallback_on", "queue", "request"):
        assert getattr(box, key) == getattr(here, key), key
    assert (here.env, here.canary, here.cmd is None) == ({"A": "b"}, True, False)
    assert (box.env, box.canary, box.cmd) == ({}, False, None)


def test_its_key_is_read_and_never_shown(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOX2_KEY", "sk-of-the-other-machine")
    settings = loaded(also(BOX.replace(" }", ', key = "env:BOX2_KEY", key_header = "x-api-key" }')))
    _, box = placed_serves(settings)
    target = address_of(box)
    assert (target.key, target.key_header) == ("sk-of-the-other-machine", "x-api-key")
    shown = str(show(settings))
    assert "env:BOX2_KEY" in shown
    assert "sk-of-the-other-machine" not in shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (also(BOX, BOX), "its replica would be called 'fast@box2', as that of `also` number 1; give it a `name`"),
        (also(BOX.replace("box2", "gpu0")), "'fast@gpu0', as that of slot 'gpu0'; give it a `name`"),
        (also("{ }"), "`base_url` is missing; every endpoint of `also` needs one"),
        (also('{ base_url = "box2:8000" }'), "is not an http or https address"),
        (also(BOX.replace("box2:8000", "127.0.0.1:7777")), "is this Stoker itself (port 7777); name another machine"),
        (also(BOX.replace(" }", ', key = "secret" }')), "a secret must not be in this file"),
        (also(BOX) + "keep_conversations = true\n", "cannot be used with `also`"),
        (
            also(BOX) + '[[tier]]\nname = "t"\nserve = "fast"\n',
            "has `also`, and what answers elsewhere cannot be identified as the measured model; remove it",
        ),
        (also(BOX.replace(" }", ", slot = 3 }")), "slot"),
    ],
)
def test_what_cannot_be_is_refused(loaded: Loaded, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded("[front_door]\nport = 7777\n" + text)
    assert problem in str(refused.value)


def test_a_key_that_cannot_be_read_is_named(loaded: Loaded, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="also"):
        loaded(also(BOX.replace(" }", f', key = "file:{tmp_path}/none" }}')))

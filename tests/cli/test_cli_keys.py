"""`stoker keys` and `stoker usage`: what they print, and what they say when something is wrong."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
from collections.abc import Iterator

import pytest
from tests.scenarios.plane import Plane, running, serve
from tests.scenarios.test_sharing import ask

from stoker.testing.script.script import Script

CONFIG = 'auth = "keys"\n[app.agents]\ntokens_per_day = 5000\n'


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running(serve("fast", Script(tokens=10, prompt_tokens=7), slot=None), front_door=CONFIG) as plane:
        yield plane


def test_a_key_from_its_making_to_its_end(plane: Plane) -> None:
    made = plane.run("keys", "create", "alice", "--app", "agents", "--requests-per-minute", "1000", "--expires", "90d")
    value = made.stdout.strip()
    assert (made.returncode, value.startswith("sk-stoker-"), value in made.stderr) == (0, True, False)
    assert asyncio.run(ask(plane, value, max_tokens=20)).status == 200
    shown = plane.run("keys", "show", "alice").stdout
    assert all(text in shown for text in ("agents", "requests_per_minute", "tokens_per_day", "4,983"))
    changed = plane.run("keys", "set", "alice", "--context", "64", "--set", "max_output=8", "--reason", "night")
    assert (changed.returncode, "undo it: stoker keys reset alice" in changed.stderr) == (0, True)
    config = plane.run("config", "show").stdout
    assert "# key 'alice': context = 64, max_output = 8" in config
    assert "(night)" in config
    assert json.loads(plane.run("config", "show", "--json").stdout)["overrides"][0]["name"] == "alice"
    assert "context=64*" in plane.run("keys", "list").stdout
    assert plane.run("keys", "set", "alice", "--reset").returncode == 0
    assert "overrides" not in json.loads(plane.run("config", "show", "--json").stdout)
    new = plane.run("keys", "rotate", "alice", "--grace", "0s").stdout.strip()
    assert [asyncio.run(ask(plane, one)).status for one in (value, new)] == [401, 200]
    assert plane.run("keys", "disable", "alice", "--cut").returncode == 0
    assert asyncio.run(ask(plane, new)).status == 401
    assert plane.run("keys", "enable", "alice").returncode == 0
    assert plane.run("keys", "delete", "alice").returncode == 0
    assert asyncio.run(ask(plane, new)).status == 401


def test_an_application_is_changed_for_all_its_keys(plane: Plane) -> None:
    value = plane.run("keys", "create", "bob", "--app", "agents").stdout.strip()
    assert plane.run("keys", "set", "--app", "agents", "--set", 'models=["nothing"]').returncode == 0
    assert asyncio.run(ask(plane, value)).status == 404
    assert plane.run("keys", "reset", "--app", "agents").returncode == 0
    assert asyncio.run(ask(plane, value)).status == 200


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("keys", "create", "a b"), "is not a valid name"),
        (("keys", "create", "x", "--app", "agent"), "there is no application 'agent'"),
        (("keys", "create", "x", "--expires", "soon"), "for days write 90d"),
        (("keys", "create", "x", "--set", "nonsense"), "write SETTING=VALUE"),
        (("keys", "show", "nobody"), "`stoker keys list` shows all"),
        (("keys", "set", "nobody", "--context", "5"), "there is no key 'nobody'"),
        (("keys", "set", "nobody"), "nothing to change"),
        (("keys", "set", "--context", "5"), "give the name of a key, or an application"),
        (("usage", "--by", "colour"), "choose among key, app, model"),
        (("usage", "--since", "ever"), "for days write 7d"),
        (("usage", "--csv", "--json"), "exclude each other"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(plane: Plane, words: tuple[str, ...], says: str) -> None:
    found = plane.run(*words)
    assert found.returncode != 0
    assert says in found.stderr


def test_usage_is_shown_as_a_table_as_csv_and_as_json_and_without_a_running_stoker() -> None:
    with running(serve("fast", Script(tokens=10, prompt_tokens=7), slot=None), front_door=CONFIG) as plane:
        value = plane.run("keys", "create", "eve").stdout.strip()
        assert asyncio.run(ask(plane, value)).status == 200
        assert "nothing" not in plane.run("usage").stdout
        [row] = csv.DictReader(io.StringIO(plane.run("usage", "--by", "key,model", "--csv").stdout))
        assert (row["key"], row["model"], row["input_tokens"], row["output_tokens"]) == ("eve", "fast", "7", "10")
        plane.signal(signal.SIGTERM)
        assert plane.exit_code() == 0
        answer = json.loads(plane.run("usage", "--json").stdout)
        assert answer["total"]["output_tokens"] == 10
        assert plane.run("keys", "list").returncode != 0
        assert "start it: stoker up" in plane.run("keys", "list").stderr


def test_the_first_key_closes_an_open_door_and_deleting_the_last_one_opens_it_again_and_both_are_said() -> None:
    with running(serve("fast", Script(tokens=1), slot=None)) as plane:
        assert "not needed" in plane.run("client", "curl").stdout
        made = plane.run("keys", "create", "eve")
        assert "from now on every request needs a key" in made.stdout + made.stderr
        assert "not needed" not in plane.run("client", "curl").stdout
        more = plane.run("keys", "create", "ann")
        assert "from now on" not in more.stdout + more.stderr
        assert "need no key" not in plane.run("keys", "delete", "ann").stdout
        last = plane.run("keys", "delete", "eve")
        assert "requests need no key now" in last.stdout + last.stderr
        assert "not needed" in plane.run("client", "curl").stdout

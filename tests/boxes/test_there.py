"""What the status of another Stoker says about a serve that this one wants there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from stoker.domain.serve import BoxPlace
from stoker_boxes.there import ServeThere, Unfit, refusal, residents, serve_there

PLACE = BoxPlace("box2", "gpu0", "big")
SLOTS = [{"name": "gpu0", "box": None, "resident": ["other"]}, {"name": "box1:gpu0", "box": "box1"}]


def status(*serves: dict[str, Any], slots: Any = SLOTS) -> dict[str, Any]:
    return {"version": "0.1.0", "slots": slots, "serves": list(serves)}


def big(**fields: Any) -> dict[str, Any]:
    return {"name": "big", "slot": "gpu0", "state": "stopped", **fields}


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        ("<html>", "box_no_stoker", "correct `url`"),
        ({"version": "1"}, "box_no_stoker", "correct `url`"),
        (status(big(), slots=[{"name": "gpu0"}]), "box_too_old", "Stoker 0.1.0, which is too old"),
        (status(big(), slots=[{"name": "gpu1", "box": None}]), "box_unknown_slot", "no slot 'gpu0' (it has gpu1)"),
        (status(), "box_unknown_serve", "no serve 'big'"),
        (status(big(slot="box1:gpu0")), "box_circle", "in a slot of a box itself (box1:gpu0)"),
        (status(big(slot="gpu1")), "box_unknown_slot", "in slot 'gpu1', not in 'gpu0'"),
        (status(big(slot=None)), "box_unknown_slot", "in slot 'None', not in 'gpu0'"),
    ],
)
def test_what_is_wrong_is_said(document: Any, code: str, words: str) -> None:
    found = serve_there(document, PLACE)
    assert isinstance(found, Unfit)
    assert found.code == code
    assert words in found.message


def test_the_places_of_a_serve_there_are_one_but_for_those_in_boxes() -> None:
    document = status(
        big(name="big@gpu0", replica_of="big", state="ready", in_flight=2, queued=1),
        big(name="big@gpu1", replica_of="big", slot="gpu1", in_flight=4, keep_loaded=True),
        big(name="big@box1:gpu0", replica_of="big", slot="box1:gpu0", in_flight=8, state="ready"),
    )
    assert serve_there(document, PLACE) == ServeThere(True, "ready", 7, True, "")
    assert serve_there(status(big(slot="gpu0+gpu1")), PLACE) == ServeThere(False, "stopped", 0, False, "")
    assert serve_there(status(big(state="paused", paused="a game")), PLACE) == ServeThere(
        False, "paused", 0, False, "a game"
    )


@pytest.mark.parametrize("kept", [{"keep_loaded": True}, {"min_replicas": 1}, {"name": "big"}])
def test_what_that_stoker_keeps_by_itself_is_not_unloaded_there(kept: dict[str, Any]) -> None:
    slots = [{"name": "gpu0", "box": None, "idle_serve": "big" if "name" in kept else None}]
    found = serve_there(status(big(state="ready", **{"keep_loaded": False, **kept}), slots=slots), PLACE)
    assert isinstance(found, ServeThere)
    assert found.is_kept


def test_what_others_have_loaded_there() -> None:
    assert residents(status(), "gpu0") == ["other"]
    assert residents(None, "gpu0") == residents(status(), "gpu7") == []


def test_what_it_refused_with() -> None:
    assert refusal({"error": {"code": "slot_paused", "message": "a game"}}, 503) == ("slot_paused", "a game")
    assert refusal({"error": "no"}, 503) == ("", "no")
    assert refusal(None, 503) == ("", "it answered 503")


KEYS = ("version", "slots", "serves", "name", "slot", "box", "state")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(200))
@given(ANYTHING)
def test_whatever_it_answers_is_a_verdict(document: Any) -> None:
    assert isinstance(serve_there(document, PLACE), ServeThere | Unfit)
    residents(document, "gpu0")
    refusal(document, 500)

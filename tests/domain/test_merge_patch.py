"""Merge patches: a document and its patches make the later document."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.merge_patch import NoPatch, apply_patch, merge_patch

names = st.sampled_from(["a", "b", "c", "name"])
plain = st.none() | st.integers(-3, 3) | st.text("xy", max_size=2)
entries = st.lists(st.sampled_from("abc"), unique=True, max_size=3).flatmap(
    lambda known: st.tuples(*(st.fixed_dictionaries({"name": st.just(one), "n": plain}) for one in known)).map(list)
)
values = st.recursive(
    plain | entries,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=4)


def bare(value: Any) -> Any:
    """Without members that are null, which a patch cannot tell from missing ones."""
    if isinstance(value, dict):
        return {name: bare(one) for name, one in value.items() if one is not None}
    return [bare(one) for one in value] if isinstance(value, list) else value


@given(st.lists(documents, min_size=2, max_size=5))
def test_a_document_and_its_patches_make_the_later_document(versions: list[dict[str, Any]]) -> None:
    shown = versions[0]
    for before, after in itertools.pairwise(versions):
        try:
            shown = apply_patch(shown, merge_patch(before, after))
        except NoPatch:
            shown = after  # what a reader gets then is the document
        assert bare(shown) == bare(after)


@given(documents)
def test_what_did_not_change_is_not_in_a_patch(document: dict[str, Any]) -> None:
    assert merge_patch(document, document) == {}


def test_an_entry_of_a_list_is_changed_by_its_name() -> None:
    before = {"serves": [{"name": "a", "queued": 0, "state": "ready"}, {"name": "b", "queued": 0}], "draining": False}
    after = {"serves": [{"name": "a", "queued": 2, "state": "ready"}, {"name": "b", "queued": 0}], "draining": False}
    assert merge_patch(before, after) == {"serves": {"a": {"queued": 2}}}


def test_a_list_with_other_entries_or_another_order_is_sent_whole() -> None:
    one, other = {"name": "a"}, {"name": "b"}
    assert merge_patch({"serves": [one]}, {"serves": [one, other]}) == {"serves": [one, other]}
    assert merge_patch({"serves": [one, other]}, {"serves": [other, one]}) == {"serves": [other, one]}


def test_a_list_that_becomes_an_object_has_no_patch() -> None:
    with pytest.raises(NoPatch):
        merge_patch({"a": []}, {"a": {}})


def test_neither_document_is_changed() -> None:
    before = {"slots": [{"name": "gpu", "swap": None}], "frontdoor": {"in_flight": 0}}
    apply_patch(before, {"slots": {"gpu": {"swap": {"phase": "draining"}}}, "frontdoor": {"in_flight": 1}})
    assert before == {"slots": [{"name": "gpu", "swap": None}], "frontdoor": {"in_flight": 0}}

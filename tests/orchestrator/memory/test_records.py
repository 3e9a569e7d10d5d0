"""Records of a scratchpad: whatever cuts a file off, what is read are whole records from the first one on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_orchestrator.memory import records

FACTS = st.dictionaries(
    st.sampled_from(["kind", "number", "text"]), st.text(max_size=20) | st.integers(-5, 5) | st.just("-->"), max_size=3
)
TEXTS = st.text(max_size=60) | st.sampled_from(["<!-- stoker: {} -->\n", '<!-- stoker: {"bytes":3} -->\nabc', "```\n"])


@given(st.lists(st.tuples(FACTS, TEXTS), max_size=5), st.integers(0, 2000))
def test_a_file_that_is_cut_anywhere_reads_as_its_first_whole_records(
    written: list[tuple[dict[str, object], str]], cut: int
) -> None:
    pieces = [records.encode(facts, text) for facts, text in written]
    data = b"".join(pieces)[:cut]
    found = [(record.facts, record.text) for record in records.decode(data)]
    whole = 0
    while whole < len(pieces) and sum(map(len, pieces[: whole + 1])) <= cut:
        whole += 1
    assert found == [(facts, text.encode("utf-8", "replace").decode()) for facts, text in written[:whole]]
    assert records.whole_length(data) == sum(map(len, pieces[:whole]))


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    list(records.decode(data))
    list(records.decode(b"<!-- stoker: " + data))


def test_a_file_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    records.append(tmp_path / "a.md", {"kind": "head"}, "text\n")
    assert (tmp_path / "a.md").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    with pytest.raises(OSError):
        records.append(tmp_path / "link.md", {}, "text\n")


def test_what_a_crash_left_is_cut_off_before_more_is_added(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    records.append(path, {"kind": "head"}, "first\n")
    with path.open("ab") as file:
        file.write(records.encode({"kind": "block"}, "second\n")[:-3])
    assert records.repair(path)
    assert not records.repair(path)
    records.append(path, {"kind": "block"}, "third\n")
    assert [record.text for record in records.read(path)] == ["first\n", "third\n"]

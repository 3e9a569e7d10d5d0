"""Whatever is written reads back the same: by a reader that was made after systemd's manual."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.systemd import systemd_syntax as reader

from stoker.fleet.systemd import syntax

ANY = st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("\t"))
NASTY = st.text(st.sampled_from("ab %$\\\"'`;{}#=-\t,é模"))
TEXT = ANY | NASTY
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@given(st.lists(TEXT))
def test_a_command_line_comes_back_word_for_word(arguments: list[str]) -> None:
    argv = ["/usr/bin/a b%c\\d", *arguments]
    line = syntax.command(argv)
    assert "\n" not in line
    assert not line.endswith("\\")
    assert reader.command(line, {}) == argv


@given(TEXT, TEXT, st.from_regex(r"[0-9a-f]{8}", fullmatch=True))
def test_only_the_named_variable_is_filled_in(before: str, after: str, key: str) -> None:
    before = before.rstrip("$")
    line = syntax.command(["/x", f"{before}${{K}}{after}", "${HOME}", "$HOME"], ["K"])
    assert reader.command(line, {"K": key, "HOME": "/wrong"}) == ["/x", f"{before}{key}{after}", "${HOME}", "$HOME"]


@given(TEXT)
def test_a_word_comes_back(text: str) -> None:
    [back] = reader.words(syntax.word(f"NAME={text}"))
    assert reader.specifiers(back) == f"NAME={text}"


@given(TEXT)
def test_a_value_comes_back_or_is_refused(text: str) -> None:
    try:
        line = syntax.value(text)
    except ValueError:
        assert text != text.strip() or text.endswith("\\")
        return
    unit = f"[A]\nK={line}\nNext=1\n"
    assert reader.read_unit(unit)["A"] == [("K", line), ("Next", "1")]
    assert reader.specifiers(line) == text


@given(st.dictionaries(NAMES, TEXT))
def test_an_environment_file_comes_back_by_both_readers(variables: dict[str, str]) -> None:
    text = syntax.environment(variables)
    assert reader.read_environment(text) == variables
    assert syntax.read_environment(text) == variables


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "\0", "\x1b[1m", "\x7f", "\udcff"])
def test_what_no_line_can_hold_is_refused_by_every_writer(text: str) -> None:
    for write in (syntax.word, syntax.value, syntax.file_name, lambda t: syntax.command(["/x", t])):
        with pytest.raises(ValueError, match="cannot be written into a unit file"):
            write(text)
    with pytest.raises(ValueError, match="the value of SECRET has a line break") as error:
        syntax.environment({"SECRET": f"hunter2{text}"})
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("program", ["llama-server", "./x", "/a/$HOME/x", ""])
def test_a_program_that_systemd_would_not_find_is_refused(program: str) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        syntax.command([program])


@pytest.mark.parametrize("path", ["/a*b", "/a[1]", "/a?", "/a\\b"])
def test_an_environment_files_path_is_no_wildcard(path: str) -> None:
    with pytest.raises(ValueError, match="wildcards"):
        syntax.file_name(path)


def test_a_name_that_no_variable_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="'A-B' cannot be the name"):
        syntax.environment({"A-B": "1"})


def test_an_environment_file_that_was_written_by_hand_is_read() -> None:
    text = "# keys\n\nA=1\n B = no name\nC='a b'\nexport D=1\nE=a\\ b\nF=\n"
    assert syntax.read_environment(text) == {"A": "1", "C": "a b", "E": "a b", "F": ""}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.service", True), ("a@b.timer", True), ("a", False), ("a b.service", False), ("../a.service", False)],
)
def test_the_names_of_units(name: str, expected: bool) -> None:
    assert syntax.is_unit(name) is expected

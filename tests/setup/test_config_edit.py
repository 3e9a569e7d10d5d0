"""A configuration is edited in one place, and every other byte of it stays."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest

from stoker.domain.errors import ConfigError
from stoker_setup.config_edit import EditRefused, append_block, remove_serve
from stoker_setup.config_file import ConfigFile

TEXT = """\
# mine
[front_door]   # odd   spacing
port    =  8000

[slots.cpu]
devices = []

# about a
[[serve]]
name = "a"
model = "/m/a.gguf"
slot = "cpu"
# aliases = ["x"]

# on its own

# about b
[[serve]]
name = 'b'
model = "/m/b.gguf"
slot = "cpu"
[serve.sha256]
"b.gguf" = '''
# no comment'''
# touches the next
[metrics]
"""
BLOCK = '# added\n[[serve]]\nname = "c"\nmodel = "/m/c.gguf"\nslot = "cpu"\n'


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_is_appended_is_removed_again_to_the_byte(newline: str) -> None:
    text = TEXT.replace("\n", newline)
    added = append_block(text, BLOCK)
    assert added.after == text + newline + BLOCK.replace("\n", newline)
    assert remove_serve(added.after, "c").after == text


def test_a_text_without_a_last_newline_and_an_empty_one_take_a_block() -> None:
    assert append_block("[slots.cpu]", BLOCK).after == "[slots.cpu]\n\n" + BLOCK
    assert append_block("", BLOCK).after == BLOCK
    assert remove_serve(BLOCK, "c").after == ""


def test_a_serve_goes_with_the_comments_that_touch_it_and_no_others() -> None:
    without_a = remove_serve(TEXT, "a").after
    assert without_a == TEXT.replace(TEXT[TEXT.index("# about a") : TEXT.index("# on its own")], "")
    without_b = remove_serve(TEXT, "b").after
    assert without_b == TEXT.replace(TEXT[TEXT.index("# about b") : TEXT.index("# touches")], "")


def test_the_difference_is_shown_as_diff_does() -> None:
    shown = append_block(TEXT, BLOCK).diff("stoker.toml")
    assert shown.startswith("--- stoker.toml\n+++ stoker.toml\n@@ ")
    added = [line for line in shown.splitlines()[2:] if line.startswith(("+", "-"))]
    assert added == ["+", *(f"+{line}" for line in BLOCK.splitlines())]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('serve = [{ name = "a" }]\n', "add the lines by hand"),
        ("[front_door\n", "is not TOML"),
        ("a = " + "[" * 5000, "is not TOML"),
    ],
)
def test_a_text_that_takes_no_block_is_refused(text: str, why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        append_block(text, BLOCK)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no"),
        ('serve = 1\n', "there is no"),
        ('serve = [{ name = "a" }, { name = "b" }]\n', "by hand"),
        ('[[serve]]\nname = "a"\n[x]\n[serve.env]\nA = "1"\n', "by hand"),
    ],
)  # fmt: skip
def test_a_serve_that_cannot_be_cut_out_is_refused(text: str, why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        remove_serve(text, "a")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stoker.toml"
    path.write_text(
        TEXT.replace("[metrics]\n", "").replace("b.gguf\" = '''\n# no comment'''", f'b.gguf" = "{"0" * 64}"')
    )
    return path


def test_mode_byte_order_mark_and_link_are_kept(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    file.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(file.name)
    opened = ConfigFile(link)
    edit = append_block(opened.text, BLOCK)
    opened.write(edit)
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.read_bytes() == b"\xef\xbb\xbf" + edit.after.encode()
    opened.undo(edit)
    assert file.read_bytes() == b"\xef\xbb\xbf" + edit.before.encode()


def test_what_somebody_else_wrote_meanwhile_is_left(file: Path) -> None:
    opened = ConfigFile(file)
    file.write_text(file.read_text() + "# theirs\n")
    theirs = file.read_bytes()
    with pytest.raises(EditRefused, match="changed by somebody else"):
        opened.write(append_block(opened.text, BLOCK))
    assert file.read_bytes() == theirs
    new = ConfigFile(file.with_name("new.toml"), "")
    new.path.write_text("theirs")
    with pytest.raises(EditRefused, match="changed by somebody else"):
        new.write(append_block("[slots.cpu]\n", BLOCK))
    assert new.path.read_text() == "theirs"


def test_what_the_reader_refuses_is_never_written(file: Path) -> None:
    before = file.read_bytes()
    opened = ConfigFile(file)
    with pytest.raises(ConfigError, match="no slot 'gpu7'"):
        opened.write(append_block(opened.text, BLOCK.replace("cpu", "gpu7")))
    with pytest.raises(ConfigError, match="'a'"):
        opened.write(append_block(opened.text, BLOCK.replace('"c"', '"a"')))
    assert (file.read_bytes(), os.listdir(file.parent)) == (before, ["stoker.toml"])


def test_a_new_file_is_undone_to_none(tmp_path: Path) -> None:
    new = ConfigFile(tmp_path / "stoker.toml", "")
    edit = append_block(new.text, "[slots.cpu]\n" + BLOCK)
    new.write(edit)
    assert [row["name"] for row in tomllib.loads(new.path.read_text())["serve"]] == ["c"]
    new.undo(edit)
    assert not new.path.exists()

"""A configuration is edited in one place, and every other byte of it stays."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.errors import ConfigError
from stoker.store.files import atomic
from stoker_setup.config_edit import ConfigEdit, EditRefused, append_block, change_serve, remove_serve
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


def test_every_other_line_keeps_its_end_and_what_unicode_calls_one() -> None:
    text = '# one\u2028two\x85three\r\n[slots.cpu]\n\n# a\u2029\u2028b\r\n[[serve]]\nname = "a"\r\n\n# last\u2028\r\n'
    kept = "# one\u2028two\x85three\r\n[slots.cpu]\n\n# last\u2028\r\n"
    removed = remove_serve(text, "a")
    assert removed.after == kept
    added = append_block(kept, BLOCK)
    assert added.after == kept + "\r\n" + BLOCK.replace("\n", "\r\n")
    assert remove_serve(added.after, "c").after == kept
    shown = added.diff("x").split("\n")
    assert "\r" not in "".join(shown)
    assert shown[-len(BLOCK.splitlines()) :] == [f"+{line}" for line in BLOCK.splitlines()]


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_the_owner_and_the_group_are_kept_or_nothing_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o640)
    os.chown(file, 1234, 5678)
    opened = ConfigFile(file)
    edit = append_block(opened.text, BLOCK)
    opened.write(edit)
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 5678, 0o640)

    def refuse(handle: int, user: int, group: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(EditRefused, match=r"belongs to #1234:#5678, .* type the command as #1234, or as root"):
        opened.undo(edit)
    assert (file.read_text(), os.listdir(file.parent)) == (edit.after, ["stoker.toml"])


@pytest.mark.parametrize("moment", ["read", "replaced"])
def test_what_comes_between_two_steps_is_seen(file: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Right after the file was read, and when the draft that replaces it is complete."""
    theirs = file.read_text() + "# theirs\n"
    read, draft = Path.read_bytes, atomic.write_draft
    if moment == "read":

        def read_then_changed(path: Path) -> bytes:
            content = read(path)
            monkeypatch.setattr(Path, "read_bytes", read)
            path.write_text(theirs)
            return content

        monkeypatch.setattr(Path, "read_bytes", read_then_changed)

    def draft_then_changed(path: Path, *rest: Any, **options: Any) -> Path:
        made = draft(path, *rest, **options)
        path.write_text(theirs)
        return made

    opened = ConfigFile(file)
    monkeypatch.setattr(atomic, "write_draft", draft_then_changed)
    with pytest.raises(EditRefused, match="changed by somebody else"):
        opened.write(append_block(opened.text, BLOCK))
    assert (file.read_text(), os.listdir(file.parent)) == (theirs, ["stoker.toml"])


def test_an_invalid_text_comes_back_and_what_others_wrote_stays(file: Path) -> None:
    file.write_text(file.read_text().replace("/m/a.gguf", "vault:../a.gguf"))
    opened = ConfigFile(file)
    before = opened.text
    edit = ConfigEdit(before, before.replace("vault:../a.gguf", "/m/a.gguf"))
    opened.write(edit)
    opened.undo(edit)
    assert file.read_text() == before
    new = ConfigFile(file.with_name("new.toml"), "")
    added = append_block("", "[slots.cpu]\n" + BLOCK)
    new.write(added)
    new.path.write_text("theirs")
    with pytest.raises(EditRefused, match="changed by somebody else"):
        new.undo(added)
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


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_key_changes_in_its_place_and_a_new_one_comes_behind_the_others(newline: str) -> None:
    text = TEXT.replace("\n", newline)
    after = change_serve(text, "a", {"slot": "gpu", "context": 4096, "aliases": ["x", "y"]}).after
    wanted = 'slot = "gpu"\ncontext = 4096\naliases = ["x", "y"]\n'.replace("\n", newline)
    assert after == text.replace(f'slot = "cpu"{newline}', wanted, 1)
    assert change_serve(after, "a", {"slot": "cpu", "context": None, "aliases": None}).after == text


def test_the_spelling_of_a_key_and_the_comment_behind_its_value_stay() -> None:
    text = '[[serve]]\nname="a"\n  "queue"  =   [ # x\n 1,\n] # keep "#" me\nmodel = "a#b" # c'
    after = change_serve(text, "a", {"queue": 5, "model": "z", "listed": False}).after
    assert after == '[[serve]]\nname="a"\n  "queue"  =   5 # keep "#" me\nmodel = "z" # c\nlisted = false\n'


def test_a_serve_that_cannot_be_changed_alone_is_left_to_the_person() -> None:
    with pytest.raises(EditRefused, match="change the \\[\\[serve\\]\\] 'a' by hand"):
        change_serve('serve = [{ name = "a", model = "x" }]\n', "a", {"model": "y"})
    inline = 'serve = [{ name = "a", queue = 3 }]\n[slots.gpu0]\n'
    for changes in ({"aliases": ["x"]}, {"queue": 4, "title": "x"}, {"title": "x", "queue": None}):
        with pytest.raises(EditRefused):
            change_serve(inline, "a", changes)
    with pytest.raises(EditRefused, match="there is no"):
        change_serve(TEXT, "nobody", {"context": 1})

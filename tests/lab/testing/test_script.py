"""One record says what the scripted server does: as Python, as flags, as text in a request."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker_lab.testing.script import quirks
from stoker_lab.testing.script.ask import read_request
from stoker_lab.testing.script.script import Script, flag_name, table
from stoker_lab.testing.scripted import read_arguments

OWN: dict[str, Any] = {
    "answers": [{"blocks": [{"type": "call", "name": "f", "arguments": {"a": "b c"}}], "stop": "length", "cut": 0}],
    "quirks": "no_done,together",
}
"""Values of the fields that not every text fits."""
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "testing-kit.md").read_text()


def test_every_field_is_in_the_docs_with_its_default_and_meaning() -> None:
    for one in fields(Script):
        assert f"| `{flag_name(one.name)}` |" in PAGE, one.name
    assert table() in PAGE, (
        "docs/reference/testing-kit.md is behind: put in what stoker_lab.testing.script.script.table() gives"
    )
    assert quirks.table() in PAGE, (
        "docs/reference/testing-kit.md is behind: put in what stoker_lab.testing.script.quirks.table() gives"
    )


def test_the_command_line_says_the_same_as_the_record() -> None:
    script = Script(
        id="a b", shown_id="other", ready_after=0.25, die_after=-1, die_how="reset", split=(1, 3), gzip=True,
        usage=False, crash_after=2.0, error_body='{"x": "%"}',
    )  # fmt: skip
    assert read_arguments(["--port", "0", *script.flags()])[1] == script


def test_every_field_has_a_flag() -> None:
    other: dict[type, Any] = {str: "end", int: 7, float: 7.5, bool: None, tuple: (7,)}
    for one in fields(Script):
        kind = "tuple" if str(one.type).startswith("tuple") else str(one.type).partition(" ")[0]
        value = next(other[known] for known in other if known.__name__ == kind)
        value = next(iter(one.metadata["one_of"][-1:]), value)
        value = OWN.get(one.name, value)
        change: dict[str, Any] = {one.name: (not one.default) if kind == "bool" else value}
        changed = replace(Script(), **change)
        assert changed != Script()
        assert read_arguments(changed.flags())[1] == changed, one.name


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("nonsense", "1", "no such field of the script: 'nonsense'; there are: id, shown_id"),
        ("gap", "soon", "gap = 'soon': give float"),
        ("gap", [1], "gap = \\[1\\]: give float"),
        ("tokens", True, "tokens = True: give int"),
        ("tokens", None, "tokens = None: give int"),
        ("gzip", "maybe", "gzip = 'maybe': give bool"),
        ("die_how", "loudly", "give one of close, reset, end"),
        ("split", "1,x", "give whole numbers"),
        ("split", "1,0", "give sizes of 1 or more"),
        ("split", ["1"], "give a list of whole numbers"),
        ("events_per_write", 0, "give 1 or more"),
        ("quirks", "no_done,odd", "no such quirk: 'odd'; there are: whole_call, repeat_id"),
        ("answers", "/nowhere.json", "answers: cannot read /nowhere.json: No such file"),
        ("answers", "[{", "answers: Input data was truncated"),
        ("answers", [{"blocks": [{"type": "tekst"}]}], r"Invalid value 'tekst' - at `\$\[0\].blocks\[0\].type`"),
        ("answers", [{"blocks": [{"type": "text"}]}], "missing required field `text`"),
        ("answers", [{"blocks": [], "stop": "soon"}], "Invalid enum value 'soon'"),
        ("answers", [{"blocks": [], "speed": 1}], "unknown field `speed`"),
        ("answers", [{"blocks": [], "cut": -1}], "`int` >= 0"),
        ("answers", [{"blocks": [], "quirks": ["odd"]}], "no such quirk: 'odd'"),
        ("answers", 7, "answers: "),
    ],
)
def test_a_wrong_change_says_what_to_give(field: str, given: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Script().amended({field: given})


def test_answers_come_from_a_file_as_json_or_as_a_list(tmp_path: Path) -> None:
    listed = OWN["answers"]
    (tmp_path / "answers.json").write_text(json.dumps(listed))
    script = Script(answers=listed)
    assert script == Script(answers=str(tmp_path / "answers.json"))
    assert script == Script().amended({"answers": json.dumps(listed)})
    assert script == Script().amended({"answers": listed})
    assert script.amended({"answers": None}) == script.amended({"answers": "none"}) == Script()
    assert script.answers[0].blocks[0].arguments == '{"a": "b c"}'


def test_changes_come_as_json_values_or_as_text() -> None:
    typed = Script().amended({"gap": 1, "split": [2, 3], "gzip": True, "die_after": None, "tokens": 3})
    assert typed == Script(gap=1.0, split=(2, 3), gzip=True, tokens=3)
    assert Script(die_after=4).amended(
        {"gap": "1", "split": "2,3", "gzip": "yes", "die_after": "none", "tokens": "3"}
    ) == typed  # fmt: skip


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"messages":[{"role":"user","content":"a\\nscript: die-after=3 gap=1"}]}', {"die_after": "3", "gap": "1"}),
        (b'{"messages":[{"role":"user","content":[{"type":"text","text":"script: gap=1"}]}]}', {"gap": "1"}),
        (b'{"messages":[{"role":"user","content":"script: gap=1"},{"role":"assistant","content":"x"}]}', {"gap": "1"}),
        (b'{"messages":[{"role":"user","content":"script: gap=1"},{"role":"user","content":"x"}]}', {}),
        (b'{"prompt":"script: error_body=\\"two words\\""}', {"error_body": "two words"}),
        (b'{"input":[{"role":"user","content":[{"type":"input_text","text":"script: gap=2"}]}]}', {"gap": "2"}),
        (b'{"query":"script: gap=3","documents":[]}', {"gap": "3"}),
        (b'{"prompt":"a typescript: gap=1"}', {}),
        (b'{"messages":"nonsense","prompt":[1,2]}', {}),
    ],
)  # fmt: skip
def test_the_last_user_text_may_override_the_script(body: bytes, found: dict[str, str]) -> None:
    assert read_request(Dialect.CHAT, body).overrides() == found


def test_a_prompt_has_one_token_per_word_of_what_a_model_would_see() -> None:
    ask = read_request(
        Dialect.MESSAGES,
        b'{"system":[{"type":"text","text":"be kind"}],"tools":[{"name":"f"}],"messages":['
        b'{"role":"user","content":"one two"},'
        b'{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"three"}]},{"type":"image"}]}]}',
    )
    assert ask.words() == 2 + 1 + 3

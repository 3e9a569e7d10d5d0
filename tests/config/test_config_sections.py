"""A table that an extension brings is read, checked, shown and described as the core's own are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from stoker import extensions
from stoker.config.changes import changed_settings, restart_problems
from stoker.config.document import ConfigDocument
from stoker.config.effective import schema, show, to_toml
from stoker.config.sections import Section, WholeFile
from stoker.config.warnings import warnings
from stoker.domain.access import Settings
from stoker.domain.kinds import Duration, FilePath, setting
from stoker.domain.serve import SecretSource
from stoker.extensions import Extension, InstalledExtension, Offer


class Tally(msgspec.Struct, frozen=True):
    """Counts requests."""

    every: Annotated[Duration, setting("Time between two lines.")] = 60.0
    file: Annotated[FilePath, setting("Where lines go.")] = ""
    key: Annotated[SecretSource | None, setting("For what is asked.")] = None


def check(doc: ConfigDocument, table: Tally) -> None:
    if table.every and not table.file:
        doc.problem(("tally", "file"), "is missing")


SECTION = Section(Tally, "Counts.", check)


@pytest.fixture(autouse=True)
def _brought(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = (Offer("tally", f"{__name__}:SECTION"), Offer("broken", "no_such:x"), Offer("odd", "odd:x"))
    extension = Extension("Counts.", tables=(*offers, Offer("media", f"{__name__}:SECTION")))
    installed = (InstalledExtension("tally", "tally 1", extension, ""),)
    monkeypatch.setattr(extensions, "installed_extensions", lambda: installed)
    monkeypatch.setattr(
        "stoker.config.sections.load", lambda place: {f"{__name__}:SECTION": SECTION, "odd:x": 3}[place]
    )


def test_it_is_part_of_the_settings_with_absolute_paths_and_secrets(
    loaded: Callable[[str], Settings], tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("a-secret")
    settings = loaded('[tally]\nevery = "5m"\nfile = "tally.log"\nkey = "file:key"\n')
    found = settings.extensions["tally"]
    assert isinstance(found, Tally)
    assert (found.every, found.file, found.key.reveal() if found.key else "") == (
        300.0, str(tmp_path / "tally.log"), "a-secret",
    )  # fmt: skip
    assert show(settings)["tally"] == {"every": "5m", "file": found.file, "key": "file:key"}
    assert loaded("").extensions == {}
    again = loaded('[tally]\nevery = "6m"\nfile = "tally.log"\nkey = "file:key"\n')
    assert changed_settings(settings, again) == ["tally.every"]
    (tmp_path / "key").write_text("another-secret")
    assert changed_settings(settings, loaded('[tally]\nevery = "5m"\nfile = "tally.log"\nkey = "file:key"\n')) == [
        "tally.key"
    ]


def test_a_table_of_the_core_stays_and_what_is_no_section_is_no_table(
    loaded: Callable[[str], Settings], problems: Callable[[str], list[str]]
) -> None:
    assert loaded('[media]\nhosts = ["a.example"]\n').media.hosts == ("a.example",)
    assert "unknown key" in problems("[odd]\nx = 1\n")[0]


def test_its_problems_are_told_with_all_others(problems: Callable[[str], list[str]]) -> None:
    missing, every, unknown, core = problems('[tally]\nevery = 5\nfil = "x"\n[swap]\npatience = -1\n')
    assert missing == "1: key 'tally.file': is missing"
    assert every.startswith("2: key 'tally.every': 5 has no unit")
    assert unknown == "3: key 'tally.fil': unknown key; did you mean 'file'?"
    assert core.startswith("5: key 'swap.patience'")


def test_editors_know_its_keys() -> None:
    found = schema()
    assert found["properties"]["tally"] == {"$ref": "#/$defs/Tally", "description": "Counts."}
    assert found["$defs"]["Tally"]["properties"]["every"]["default"] == "1m"
    assert "broken" not in found["properties"]


def test_a_table_whose_extension_is_missing_is_a_warning_that_names_it(
    loaded: Callable[[str], Settings], problems: Callable[[str], list[str]]
) -> None:
    settings = loaded('[tools.web]\nkind = "searxng"\n[tool_loop]\nmax_rounds = 2\n')
    assert settings.names_in("tools") == ("web",)
    assert [text for text in warnings(settings) if "no effect" in text] == [
        f"[{table}] has no effect: it needs the extension tools, which is not installed: `stoker --version -v` lists "
        "those that are"
        for table in ("tools", "tool_loop")
    ]
    assert changed_settings(settings, loaded('[tools.web]\nkind = "searxng"\n')) == ["tool_loop"]
    assert "unknown key" in problems("[toolz]\n")[0]


def test_what_comes_with_stoker_by_name_is_shown_empty_where_the_file_has_none(
    loaded: Callable[[str], Settings],
) -> None:
    settings = loaded("")
    assert [show(settings).get(name) for name in ("orchestrator", "edge", "tools")] == [{}, {}, {}]
    assert loaded(to_toml(settings)) == settings
    assert "tools" not in show(loaded('[tools.web]\nkind = "searxng"\n'))  # its extension is missing


def test_a_rule_sees_the_rest_of_the_file_and_values_may_follow_from_others(
    loaded: Callable[[str], Settings], problems: Callable[[str], list[str]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def slots_have_a_tally(doc: ConfigDocument, tables: dict[str, Tally], whole: WholeFile) -> None:
        assert whole.directory == tmp_path
        for name in tables.keys() - whole.file.slots.keys():
            doc.problem(("tally", name), "there is no such slot")

    def with_files(tables: dict[str, Tally], directory: Path) -> dict[str, Tally]:
        return {name: msgspec.structs.replace(one, file=str(directory / name)) for name, one in tables.items()}

    section = Section(
        Tally, "Counts.", by_name=True, check_with=slots_have_a_tally, complete=with_files, needs_replacement=True
    )
    monkeypatch.setattr("stoker.config.sections.load", {f"{__name__}:SECTION": section}.__getitem__)
    assert problems('[slots.a]\n[tally.b]\nevery = "1s"\n') == ["2: key 'tally.b': there is no such slot"]
    settings = loaded("[slots.a]\n[tally.a]\n")
    assert settings.names_in("tally") == ("a",)
    assert show(settings)["tally"] == {"a": {"every": "1m", "file": str(tmp_path / "a")}}
    changed = changed_settings(settings, loaded('[slots.a]\n[tally.a]\nevery = "1s"\n'))
    assert changed == ["tally.a.every"]
    assert "stoker up --replace" in restart_problems(changed)[0]

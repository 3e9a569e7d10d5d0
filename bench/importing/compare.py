"""Two recordings of one file side by side. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.importing.sides import Side

_LONG = {
    "-m": "--model", "-c": "--ctx-size", "-ngl": "--gpu-layers", "--n-gpu-layers": "--gpu-layers", "-np": "--parallel",
    "-t": "--threads", "-a": "--alias", "-fa": "--flash-attn", "-b": "--batch-size", "-ub": "--ubatch-size",
    "-ctk": "--cache-type-k", "-ctv": "--cache-type-v", "-mm": "--mmproj", "--temperature": "--temp",
}  # fmt: skip
"""llama-server's short options. Source: its own --help."""
_OWN = ("LLAMA_RECORD_FILE", "LLAMA_RECORD_MODELS", "PATH", "XDG_STATE_HOME", "_", "SHLVL", "PWD", "OLDPWD")


def options_of(start: Mapping[str, Any]) -> dict[str, list[str]]:
    """Options and their values; words before the first option are under "". The port reads as PORT, and paths in the
    directory that llama-swap was started in are relative.
    """
    port, cwd = str(start["port"] or "PORT"), f"{start['cwd']}/"
    argv = [word.replace(port, "PORT").replace(cwd, "").replace(_directory(cwd), "") for word in start["argv"]]
    found: dict[str, list[str]] = {"": []}
    current = ""
    for word in argv:
        if re.match(r"--?[A-Za-z]", word):
            option, equals, value = word.partition("=")
            current = _LONG.get(option, option)
            found.setdefault(current, [])
            if equals:
                found[current].append(value)
        else:
            found[current].append(word)
    return found


def _directory(cwd: str) -> str:
    """Where llama-swap was started, from where Stoker starts engines: beside it, in `cwd`."""
    return str(Path(cwd).parent / "cwd") + "/"


def argument_differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What is missing or has another value, and what Stoker adds."""
    expected, found = options_of(theirs), options_of(ours)
    wrong = [
        f"{option or 'words'}: {' '.join(values) or 'set'} became {_shown(found, option)}"
        for option, values in expected.items()
        if found.get(option) != values
    ]
    added = [f"{option} {' '.join(values)}".strip() for option, values in found.items() if option not in expected]
    return wrong, added


def environment_differences(theirs: Mapping[str, str], ours: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Variables that llama-swap adds to its own, and whose value differs. Stoker's engines do not see all of its own:
    the guide says so.
    """
    return [
        f"{name}: {value} became {ours.get(name, 'unset')}"
        for name, value in theirs.items()
        if name not in _OWN and name not in known and os.environ.get(name) != value and ours.get(name) != value
    ]


def loaded_differences(theirs: Side, ours: Side, serves: Mapping[str, str]) -> list[str]:
    """Models that stay loaded on one side only, when both were asked for the same names in the same order."""
    found = []
    for name, loaded in theirs.loaded.items():
        expected = {serves.get(model, model) for model in loaded}
        if name in ours.loaded and expected != ours.loaded[name]:
            found.append(f"{name}: loaded {_names(expected)} became {_names(ours.loaded[name])}")
    return found


def _names(models: Collection[str]) -> str:
    return ", ".join(sorted(models)) or "nothing"


def unnamed(wrong: Sequence[str], report: Sequence[Mapping[str, Any]]) -> list[str]:
    """The differences that no row of the report names: an option by its name, what stays loaded by its groups."""
    together = any(row["key"].startswith(("groups.", "matrix")) and row["outcome"] == "changed" for row in report)
    kept = []
    for one in wrong:
        model, _, what = one.partition(": ")
        option = what.partition(":")[0]
        notes = [row["note"] or "" for row in report if row["model"] == model]
        is_named = option.startswith("--") and any(option in note for note in notes)
        if not is_named and not (together and what.startswith("loaded ")):
            kept.append(one)
    return kept


def differences(theirs: Side, ours: Side, known: Collection[str]) -> tuple[list[str], list[str]]:
    """Everything that differs, a line each, and the arguments that Stoker adds. `known`: variables that both have."""
    if theirs.problem or ours.problem:
        same = bool(theirs.problem) and bool(ours.problem)
        return ([] if same else [f"llama-swap: {theirs.problem or 'runs'}; Stoker: {ours.problem or 'runs'}"]), []
    wrong: list[str] = []
    added: list[str] = []
    for name in dict.fromkeys([*theirs.starts, *theirs.refusals, *ours.starts]):
        if theirs.refusals.get(name, "").startswith("404"):
            continue  # Stoker has more names: those by which engines know their models
        if name in theirs.refusals and name in ours.refusals:
            continue
        if name not in ours.starts or name not in theirs.starts:
            wrong.append(f"{name}: llama-swap {_answer(theirs, name)}; Stoker {_answer(ours, name)}")
            continue
        expected, found = theirs.starts[name], ours.starts[name]
        if expected["program"] != found["program"]:
            wrong.append(f"{name}: {expected['program']} became {found['program']}")
        missing, more = argument_differences(expected, found)
        added += more
        wrong += [f"{name}: {one}" for one in missing]
        wrong += [f"{name}: {one}" for one in environment_differences(expected["env"], found["env"], known)]
        wrong += [f"{name}: {one}" for one in _body_differences(name, theirs.bodies[name], ours.bodies[name])]
    return wrong, list(dict.fromkeys(added))


def _body_differences(asked: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """llama-swap passes an alias on as it came; Stoker always sends the name that the engine has for its model."""
    names = dict.fromkeys([*theirs, *ours])
    if theirs.get("model") == asked:
        names.pop("model", None)
    return [
        f"body {name}: {theirs.get(name)!r} became {ours.get(name)!r}"
        for name in names
        if theirs.get(name) != ours.get(name)
    ]


def _answer(side: Side, name: str) -> str:
    return "starts it" if name in side.starts else side.refusals.get(name, "was not asked")


def _shown(found: Mapping[str, Sequence[str]], option: str) -> str:
    return "nothing" if option not in found else " ".join(found[option]) or "set"

"""What is compiled: one list, whose modules are there, and which build says that it is the compiled one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.compiling import compiler
from scripts.releasing import contents, installed, version

from stoker import __version__
from stoker.domain.build import IS_COMPILED, describe_version


def test_the_list_is_sorted_and_names_modules_that_there_are() -> None:
    listed = compiler.modules()
    assert listed == sorted(set(listed))
    assert [one for one in listed if not (compiler.ROOT / "src" / one).is_file()] == []


def test_a_build_says_whether_what_is_listed_is_compiled() -> None:
    """All of it or nothing: `scripts/test --compiled` must not test what is not compiled."""
    specs = [importlib.util.find_spec(one.removesuffix(".py").replace("/", ".")) for one in compiler.modules()]
    kinds = {spec.origin.endswith(".py") for spec in specs if spec is not None and spec.origin is not None}
    assert kinds == {not IS_COMPILED}
    assert describe_version() == __version__ + (" (compiled)" if IS_COMPILED else "")


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_a_compiled_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """The demo answers, and the wheel has what the pure one has, and a library for each listed module."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=compiler.ROOT, env={**os.environ, "STOKER_COMPILE": "1"}, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    wrong = contents.problems(wheel, version.current())
    assert [one for one in wrong if " lacks " in one or ".so" in one] == []
    result = installed.check(f"{sys.version_info[0]}.{sys.version_info[1]}", wheel)
    assert result.outcome == "passed", result

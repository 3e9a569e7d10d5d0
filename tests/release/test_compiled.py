"""What is compiled: one list, whose modules are there, and which build says that it is the compiled one."""

from __future__ import annotations

import importlib.util

from scripts.compiling import compiler

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

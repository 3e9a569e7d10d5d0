"""What a release consists of: the wheel's files, the bill of materials, the same bytes twice, and use as a user."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.releasing import build, contents, sbom, version

ROOT = version.ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_program_its_data_and_share_and_no_test(wheel: Path) -> None:
    wrong = contents.problems(wheel, version.current())
    assert [one for one in wrong if " lacks " in one] == []
    assert [one for one in wrong if f"{wheel.name} has stoker/" not in one] == []


def test_a_file_that_git_does_not_know_is_found_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    import zipfile

    altered = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(altered, "w") as new:
        for name in old.namelist():
            if name != "stoker/models/ember.gguf":
                new.writestr(name, old.read(name))
        new.writestr("tests/test_x.py", "")
    found = contents.problems(altered, version.current())
    assert f"{wheel.name} lacks stoker/models/ember.gguf" in found
    assert f"{wheel.name} has tests/test_x.py, which is not in git" in found


def test_the_bill_of_materials_has_the_pages_libraries_and_the_demo_models() -> None:
    record = json.loads(sbom.VENDOR.read_text())
    libraries = sbom.libraries()
    assert [(one["name"], one["version"]) for one in libraries] == [(one["name"], one["version"]) for one in record]
    assert all(one["licenses"][0]["license"]["id"] and len(one["hashes"][0]["content"]) == 128 for one in libraries)
    documentation = [(one["name"], one["version"]) for one in sbom.documentation()]
    assert [name for name, _ in documentation] == ["zensical", "@mermaid-js/tiny"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", number) for _, number in documentation)
    models = sbom.models()
    page = (ROOT / "docs/reference/demo-models.md").read_text()
    assert [one["name"] for one in models] == ["ember", "spark"]
    assert all(one["hashes"][0]["content"] in page for one in models)


@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_a_release_is_built_twice_alike_and_its_wheel_works_in_empty_environments() -> None:
    """`scripts/release build` and `check`; what Python this machine lacks is said to be skipped."""
    subprocess.run(["scripts/release", "build"], cwd=ROOT, check=True)
    document = json.loads(next(build.DIST.glob("*.cdx.json")).read_text())
    names = {one["name"]: one for one in document["components"]}
    assert {"msgspec", "preact", "spark"} < set(names)
    assert (names["msgspec"]["scope"], names["jedi"]["scope"]) == ("required", "optional")
    assert "hatchling" not in names
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=build.DIST, check=True)
    said = subprocess.run(["scripts/release", "check"], cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]}: passed" in said.stdout

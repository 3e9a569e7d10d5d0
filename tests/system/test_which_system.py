"""Which system this is, and its memory."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from tests import systems

from stoker.system import identity, memory
from stoker.system.memory import MainMemory, main_memory, wired_limit

GIB = 2**30


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("5.15.153.1-microsoft-standard-WSL2\n", 2),
        ("6.6.87.2-microsoft-standard-WSL2+", 2),
        ("4.4.0-19041-Microsoft", 1),
        ("6.1.0-18-amd64", None),
        ("6.8.0-1021-azure", None),
    ],
)
def test_windows_subsystem_for_linux_is_told_by_its_kernel(tmp_path: Path, release: str, version: int | None) -> None:
    (tmp_path / "osrelease").write_text(release)
    assert identity.wsl_version(tmp_path / "osrelease") == version
    assert identity.wsl_version(tmp_path / "none") is None


def test_main_memory_where_there_is_no_proc_is_what_psutil_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "is_linux", lambda: False)
    found = main_memory(Path("/none"))
    assert found.total == psutil.virtual_memory().total
    assert found.available is not None
    assert 0 < found.available <= found.total

    def broken() -> None:
        raise RuntimeError("host_statistics64() failed")

    monkeypatch.setattr(psutil, "virtual_memory", broken)
    assert main_memory() == MainMemory(None, None)


@pytest.mark.parametrize(
    ("total", "said", "limit"),
    [
        (16 * GIB, "0", 16 * GIB * 2 // 3),
        (24 * GIB, None, 16 * GIB),
        (36 * GIB, "0", 27 * GIB),
        (128 * GIB, "", 96 * GIB),
        (32 * GIB, "26000", 26000 * 2**20),
        (16 * GIB, "20000", 16 * GIB),
        (16 * GIB, "many", 16 * GIB * 2 // 3),
    ],
)
def test_a_macs_gpu_may_take_what_is_set_else_a_share(total: int, said: str | None, limit: int) -> None:
    assert wired_limit(total, lambda name: said if name == "iogpu.wired_limit_mb" else None) == limit


def test_every_named_test_is_there() -> None:
    """Those that hold on Linux only, and those that CI runs on macOS."""
    root = Path(__file__).parents[2]
    for name in (*systems.LINUX_ONLY, *systems.MACOS):
        file, _, test = name.partition("::")
        assert (root / file).exists(), name
        assert not test or f"def {test}" in (root / file).read_text(), name

"""Main memory: the tightest of what the machine and its control groups leave; what processes hold, split in two."""

from __future__ import annotations

import os
from pathlib import Path

from tests.fleet.memory.device_trees import GIB, write

from stoker.fleet.memory.host import HostMemory, ProcessMemory, host_memory, process_memory

MEMINFO = f"MemTotal:  {16 * 2**20} kB\nMemFree: 1 kB\nMemAvailable:  {12 * 2**20} kB\n"


def test_without_limits_it_is_what_the_machine_has(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", {"meminfo": MEMINFO})
    assert host_memory(proc, tmp_path / "none") == HostMemory(16 * GIB, 12 * GIB, None)
    assert host_memory(tmp_path / "none", tmp_path / "none") == HostMemory(None, None, None)


def test_the_tightest_group_above_counts_and_its_page_cache_is_room(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", {"meminfo": MEMINFO, "self/cgroup": "0::/user/app\n"})
    groups = write(
        tmp_path / "groups",
        {
            "cgroup.controllers": "memory",
            "user/app/memory.max": "max\n",
            "user/memory.max": f"{8 * GIB}\n",
            "user/memory.current": f"{6 * GIB}\n",
            "user/memory.stat": f"anon 1\ninactive_file {GIB}\n",
        },
    )
    assert host_memory(proc, groups) == HostMemory(8 * GIB, 3 * GIB, 8 * GIB)


def test_another_process_may_use_what_is_left_in_its_own_group(tmp_path: Path) -> None:
    files = {"meminfo": MEMINFO, "self/cgroup": "0::/stoker\n", "50/cgroup": "0::/system.slice/docker-a.scope\n"}
    proc = write(tmp_path / "proc", files)
    groups = write(
        tmp_path / "groups",
        {
            "cgroup.controllers": "memory",
            "stoker/memory.max": f"{GIB}\n",
            "system.slice/docker-a.scope/memory.max": f"{4 * GIB}\n",
            "system.slice/docker-a.scope/memory.current": f"{3 * GIB}\n",
        },
    )
    assert host_memory(proc, groups, pid=50) == HostMemory(4 * GIB, GIB, 4 * GIB)


def test_version_1_of_control_groups_is_read_and_its_unlimited_is_no_limit(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", {"meminfo": MEMINFO, "self/cgroup": "9:name=systemd:/\n4:memory:/app\n"})
    groups = write(tmp_path / "groups", {"memory/app/memory.limit_in_bytes": "9223372036854771712"})
    assert host_memory(proc, groups).limit is None
    write(groups, {"memory/app/memory.limit_in_bytes": str(GIB)})
    assert host_memory(proc, groups) == HostMemory(GIB, 12 * GIB, GIB), "how much of it is used is unknown"


def test_a_group_of_processes_holds_the_sum_of_its_shares(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "1/smaps_rollup": "00400000-7ff [rollup]\nRss: 99 kB\nPss_Anon: 30 kB\nPss_File: 18 kB\nPss_Shmem: 2 kB\n",
            "2/status": "Name: x\nRssAnon: 4 kB\nRssFile: 6 kB\nRssShmem: 1 kB\n",
        },
    )  # fmt: skip
    assert process_memory([1, 2, 3], tmp_path) == ProcessMemory(37 * 1024, 24 * 1024)
    assert process_memory([3], tmp_path) is None


def test_this_very_process_holds_something() -> None:
    found = process_memory([os.getpid()])
    assert found is not None
    assert 2**20 < found.anonymous < found.total

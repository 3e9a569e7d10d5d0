"""Which tests hold on Linux only, and which stories CI runs on macOS.

`scripts/as-macos` leaves the former out.
"""

from __future__ import annotations

FILES = "it is about Linux's own files, below /proc"
CACHE = "the page cache is not told elsewhere"
SOCKETS = "which sockets listen is not told elsewhere"
CUDA = "there is no CUDA elsewhere"
METAL = "on a Mac the embedded engine computes on the GPU"
WARNS = "on a Mac doctor warns that none has run the tests"
PSUTIL = "elsewhere psutil stands for /proc, and is loaded"

LINUX_ONLY = {
    "tests/cli/test_entry.py::test_a_plain_up_keeps_nothing_in_memory": PSUTIL,
    "tests/auto/decide/test_looking.py::test_each_look_is_counted": FILES,  # of a bench
    "tests/lab/testing/test_scripted_program.py::test_sigterm_ends_it": FILES,
    "tests/cli/test_cli_main.py::test_beside_another_one": SOCKETS,
    "tests/cli/test_cli_main.py::test_without_a_file_the_stokers_that_run_elsewhere": SOCKETS,
    "tests/setup/test_cli_doctor.py::test_a_machine_in_order": WARNS,
    "tests/setup/test_cli_doctor.py::test_where_a_stoker_runs_none_has_to_be_started": WARNS,
    "tests/setup/test_cli_doctor.py::test_whatever_is_wrong_has_a_fix": WARNS,
    "tests/setup/test_cli_init.py::test_a_gpu_counts_if_llama_server": METAL,
    "tests/fleet/memory/test_fit_check.py::test_the_embedded_engine_computes_in_main_memory": METAL,
    "tests/fleet/memory/test_memory_host.py::": FILES,
    "tests/fleet/memory/test_memory_ledger.py::test_a_serve_is_measured_on_devices": FILES,
    "tests/fleet/memory/test_memory_ledger.py::test_processes_that_are_gone": FILES,
    "tests/fleet/suspend/": CUDA,
    "tests/fleet/warm/test_holder.py::test_room_is_what_is_available": FILES,
    "tests/fleet/warm/test_residency.py::test_an_empty_file": CACHE,
}
"""The beginning of a test's id, and why."""


def why_linux_only(node_id: str) -> str | None:
    return next((why for beginning, why in LINUX_ONLY.items() if node_id.startswith(beginning)), None)


MACOS = (
    "tests/scenarios/test_real_models.py::test_every_sdk_line_that_the_demo_prints_works",
    "tests/scenarios/test_real_models.py::test_ctrl_c_on_the_demo_leaves_no_process_behind",
    "tests/scenarios/test_real_models.py::test_sigkill_of_the_demo_leaves_no_engine_behind",
    "tests/scenarios/test_real_models.py::test_the_sync_sdks_do_too",
    "tests/scenarios/test_real_models.py::test_both_models_answer_every_dialect",
    "tests/scenarios/test_lifecycle_swap.py::",
    "tests/scenarios/test_lifecycle_stop.py::test_after_sigkill_of_the_control_plane_the_next_one_adopts",
    "tests/scenarios/test_lifecycle_stop.py::test_serves_left_running_are_adopted",
    "tests/scenarios/test_lifecycle_start.py::test_an_engine_killed_from_outside",
    "tests/system/",
    "tests/setup/test_cli_install_launchd.py::",
)
"""The demo, a chat, swaps and adoption, and what is there for macOS: the job `macos` of ci.yml."""


def runs_on_macos(node_id: str) -> bool:
    return node_id.startswith(MACOS)

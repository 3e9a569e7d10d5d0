"""What a running Stoker finds wrong with its configuration and its machine: `config check` and `doctor` in one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from stoker.cli.commands import config as config_commands
from stoker.domain.errors import ConfigError
from stoker_setup.commands import doctor

if TYPE_CHECKING:
    from stoker.cli.commands.read_again import ReadOptions
    from stoker.domain.access import Settings
    from stoker.domain.doctor_finding import DoctorFinding


def self_check(given: ReadOptions, demo: Settings | None = None) -> dict[str, Any]:
    """`problems` and `warnings` of the configuration; `findings` as `doctor --json` prints them. It takes seconds.
    `given`: the options that `up` was started with. `demo`: the settings of the demo, which runs without a
    configuration file; then none is read.
    """
    if demo is not None:
        return {"problems": [], "warnings": [], "findings": _findings(doctor.examine(given, demo))}
    problems: list[str] = []
    warnings: list[str] = []
    try:
        _, warnings = config_commands.checked(given.config)
    except ConfigError as error:
        problems = list(error.problems)
    return {"problems": problems, "warnings": warnings, "findings": _findings(doctor.examine(given))}


def _findings(found: list[DoctorFinding]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(finding) for finding in found]

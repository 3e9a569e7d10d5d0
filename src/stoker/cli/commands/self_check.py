"""What a running Stoker finds wrong with its configuration and its machine: `config check` and `doctor` in one."""

from __future__ import annotations

import dataclasses
from typing import Any

from stoker.cli.commands import config as config_commands
from stoker.cli.commands import doctor
from stoker.domain.errors import ConfigError


def self_check(config: str | None) -> dict[str, Any]:
    """`problems` and `warnings` of the configuration; `findings` as `doctor --json` prints them. It takes seconds."""
    problems: list[str] = []
    warnings: list[str] = []
    try:
        _, warnings = config_commands.checked(config)
    except ConfigError as error:
        problems = list(error.problems)
    findings = [dataclasses.asdict(finding) for finding in doctor.examine(config)]
    return {"problems": problems, "warnings": warnings, "findings": findings}

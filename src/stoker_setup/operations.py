"""The paths below /admin that this package answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.domain.key import Scope
from stoker.gateway.operations import Operation
from stoker_setup.jobs.job import JobRequest


class JobAction(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /admin/jobs/JOB/VERB: none of its fields count."""


class SettingsChange(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /admin/settings/SERVE."""

    values: Mapping[str, Any]
    """By key; null: without it."""
    version: str
    """As the form had it: a file that has changed since is left alone."""
    dry_run: bool = False


LAUNCH = Operation(
    "GET", "/admin/launch", "How each coding agent is started with a model.", Scope.OBSERVE, query=("model", "address")
)
JOBS = Operation("GET", "/admin/jobs", "What was begun on the web page: models to add, measurements.")
JOB = Operation("GET", "/admin/jobs/{job}", "One of them, with its result.")
START = Operation(
    "POST", "/admin/jobs", "Begin one.", body=JobRequest,
    fields=("kind", "model", "slot", "name", "check", "serve", "quick"), required=("kind",),
)  # fmt: skip
CANCEL = Operation("POST", "/admin/jobs/{job}", "Cancel one; what was fetched is kept.", body=JobAction)
SETTINGS = Operation("GET", "/admin/settings/{serve}", "The settings of a serve, as a form.")
CHANGE = Operation(
    "POST", "/admin/settings/{serve}", "Change settings of a serve in the file, and reload.", body=SettingsChange,
    fields=("values", "version", "dry_run"), required=("values", "version"),
)  # fmt: skip
OPERATIONS = (LAUNCH, JOBS, JOB, START, CANCEL, SETTINGS, CHANGE)

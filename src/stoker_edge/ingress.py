"""The upstream file on disk, and the ingress's own commands."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

from stoker.store.files import atomic
from stoker_edge.command import run_command
from stoker_edge.config_copy import ConfigCopy
from stoker_edge.edge import EdgeIngress
from stoker_edge.problem import EdgeProblem

TIMEOUT = 60.0
"""Seconds for one command."""
MODE = 0o644
"""Of a new upstream file: the ingress may run as another user."""
_PLACEHOLDER = "{config}"
_MAX_SHOWN = 600
MOST_OUTPUT = 2**20


class IngressFiles:
    """Reads and replaces the upstream file, and runs the commands. Every method raises EdgeProblem."""

    def __init__(self, name: str, ingress: EdgeIngress) -> None:
        self._name = name
        self._ingress = ingress
        self._path = Path(ingress.upstream_file)

    def read(self) -> str | None:
        """The text of the upstream file; None: there is no file."""
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def mode(self) -> int:
        """The file's permissions, which a new file gets, too."""
        try:
            return stat.S_IMODE(self._path.stat().st_mode)
        except OSError:
            return MODE

    def write(self, text: str | None, mode: int) -> None:
        """Replace the file atomically; None: remove it."""
        try:
            if text is None:
                self._path.unlink(missing_ok=True)
                atomic.sync(self._path.parent)
            else:
                atomic.write(self._path, text.encode(), mode)
        except OSError as error:
            what = f"edge '{self._name}': {self._path} cannot be written ({error.strerror})"
            raise EdgeProblem(f"{what}: run the command with `sudo`", code="cannot_write") from error

    @property
    def validates_copies(self) -> bool:
        """Whether a candidate is validated before the file in place is touched."""
        return any(_PLACEHOLDER in word for word in self._ingress.validate)

    async def validate(self, candidate: str) -> str:
        """Validate a copy of the configuration that includes the candidate. Returns what was done."""
        if not self.validates_copies:
            return "in place, after the file is replaced"
        with ConfigCopy(self._name, self._ingress).written(candidate) as copy:
            await self._run(self._ingress.validate, str(copy), "does not accept the candidate")
        return "a copy of the configuration"

    async def validate_in_place(self) -> None:
        await self._run(self._ingress.validate, self._ingress.config, "does not accept its configuration")

    async def reload(self) -> None:
        await self._run(self._ingress.reload, self._ingress.config, "was not reloaded")

    async def _run(self, command: tuple[str, ...], config: str, what: str) -> None:
        argv = [word.replace(_PLACEHOLDER, config) for word in command]
        shown, kind = f"`{shlex.join(argv)}`", self._ingress.kind.value
        try:
            done = await run_command(argv, timeout=TIMEOUT, most_output=MOST_OUTPUT, with_errors=True)
        except TimeoutError:
            raise self._failed(f"{kind} {what}: {shown} did not end within {TIMEOUT:g} s") from None
        except OSError as error:
            raise self._failed(f"{kind} {what}: {shown} cannot be started ({error.strerror})") from error
        if done.code != 0:
            said = done.output.strip()[-_MAX_SHOWN:] or f"it ended with {done.code}"
            raise self._failed(f"{kind} {what}: {shown}: {said}")

    def _failed(self, text: str) -> EdgeProblem:
        return EdgeProblem(f"edge '{self._name}': {text}", code="ingress_refused")

    def _unreadable(self, error: Exception) -> EdgeProblem:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        text = f"edge '{self._name}': {self._path} cannot be read ({reason}): correct `upstream_file`"
        return EdgeProblem(text, code="cannot_read")

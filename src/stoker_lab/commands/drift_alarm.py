"""What canaries say over time: STATE/drift.json, and the alarm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stoker.cli.console import terminal

if TYPE_CHECKING:
    from stoker_lab.commands.running_serve import RunningServe


def feed_drift(found: RunningServe, mismatches: Iterable[bool]) -> None:
    """Each question's first reply: whether it mismatched. An alarm is said on stderr, with what to do next."""
    import msgspec

    from stoker.store.files import atomic
    from stoker_lab.commands.running_serve import command_for
    from stoker_lab.statistics.drift import DriftDetector, DriftLevel

    path = found.state / "drift.json"
    drift = DriftDetector()
    try:
        drift.restore(msgspec.json.decode(path.read_bytes(), type=list[DriftLevel]))
    except FileNotFoundError:
        pass  # the first canary
    except (OSError, msgspec.DecodeError) as error:
        terminal.note(f"stoker: {path} cannot be read ({error}); the counts so far are lost")
    alarms = [alarm for failed in mismatches if (alarm := drift.feed(found.serve.name, "canary", failed)) is not None]
    try:
        atomic.write(path, msgspec.json.encode(drift.levels()), make_parents=True)
    except OSError as error:
        terminal.note(f"stoker: {path} cannot be written ({error.strerror}); this canary is not counted")
    if alarms:
        command = command_for("eval preflight", found.serve.name, found.installation)
        terminal.note(
            f"stoker: drift alarm: '{found.serve.name}' answers the canary's questions differently more often than "
            f"before; check it: {command}"
        )

"""The page of all messages: nothing that is shown escapes the collector."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))

import messages  # noqa: E402
from messages import ERRORS, LOG, PHRASES, PRINTED, Message  # noqa: E402

SOURCE = '''
"""A docstring is no message at all."""

class StokerError(Exception):
    status = 500
    code = "internal_error"

class NoPlace(StokerError):
    status = 503
    code = "no_place"

class Busy(NoPlace):
    """Why, in several words."""

def go(name, log, port):
    log.warning("the serve %s stopped", name)
    self._log.exception("the watchdog broke")
    terminal.say(f"{name} is ready")
    terminal.note("watch it: stoker top" if port else f"start {name!r} first")
    self._announce(f"listening on port {self.door.port}")
    problems.append(f"the port {port or 80} is in use by {', '.join(names)}")
    raise Busy(f"the serve '{serve.name}' has no place; " "try again")
    raise StokerError("it broke", code="broken", status=418)
    typer.Option(help="Some words that explain an option.")
    print(name)
'''


@pytest.fixture
def found(tmp_path: Path) -> list[Message]:
    room = tmp_path / "stoker" / "fleet" / "slots"
    room.mkdir(parents=True)
    (room / "serving.py").write_text(SOURCE)
    return messages.collect(tmp_path / "stoker")


def test_each_kind_is_found_with_what_belongs_to_it(found: list[Message]) -> None:
    assert [(m.kind, m.text, m.detail) for m in found] == [
        (ERRORS, "it broke", "StokerError, 418, broken"),
        (ERRORS, "the serve '{name}' has no place; try again", "Busy, 503, no_place"),
        (LOG, "the serve %s stopped", "warning"),
        (LOG, "the watchdog broke", "error"),
        (PRINTED, "listening on port {port}", ""),
        (PRINTED, "start {name} first", "stderr"),
        (PRINTED, "watch it: stoker top", "stderr"),
        (PRINTED, "{name} is ready", ""),
        (PHRASES, "the port {port} is in use by {names...}", ""),
    ]


def test_a_message_stands_under_its_room_and_kind(found: list[Message]) -> None:
    page = messages.page(found)
    assert "\n## fleet/slots\n\n**Errors**\n\n- `it broke` (StokerError, 418, broken)\n" in page


def test_the_program_has_some_of_each_kind_and_what_is_skipped_exists() -> None:
    assert {message.kind for message in messages.collect()} == set(messages.KINDS)
    assert all((messages.SOURCE.parent / skipped).exists() for skipped in messages.SKIPPED)

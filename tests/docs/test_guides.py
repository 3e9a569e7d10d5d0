"""The commands of the pages, run as they are shown: from `stoker init` to keys, with one Stoker for all of them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.commands import ROOT
from tests.docs.steps import BEFORE, STEPS, WITH_STOKER, Step
from tests.scenarios.plane import STOKER, Plane, free_port, poll, serve
from tests.scenarios.preloaded import Command

pytestmark = [
    pytest.mark.llama,
    pytest.mark.timeout(300),  # the first one runs all of them
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]
SHELL = set("$|&;<>()~'\"")
"""Characters that only a shell understands."""
ADDED = """
[app.agents]
priority = "background"

[alias.spark]
serve = "my-model"

[warm]
memory = "0B"
"""


class Outcome(NamedTuple):
    """What became of a step."""

    code: int
    said: str


class Guide:
    """A home directory in which somebody follows the pages."""

    def __init__(self, home: Path) -> None:
        self.home = self.directory = home
        self.port = free_port()
        path = os.pathsep.join([str(STOKER.parent), os.environ["PATH"]])
        self.environment = {**os.environ, "HOME": str(home), "PATH": path}
        for name in ("STOKER_CONFIG", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            self.environment.pop(name, None)

    def follow(self, step: Step, values: Mapping[str, str]) -> Outcome:
        """Run one command as it is shown, but for the port."""
        text = step.text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
        if step.replaced[0]:
            text = text.replace(step.replaced[0], step.replaced[1].format(**values))
        words = shlex.split(text)
        if words[0] == "cd":
            self.directory = Path(words[1].replace("~", str(self.home)))
            return Outcome(0, "")
        if words[0] == "stoker" and (not SHELL & set(text) or "--reason" in words):
            return self._stoker(words[1:], step)
        return self._shell(text, step)

    def _stoker(self, words: list[str], step: Step) -> Outcome:
        """Without a shell it can be forked: 0.3 s of CPU less."""
        run = Command(words, self.directory, self.environment)
        if step.ends:
            poll(lambda: step.prints in run.printed() or run.poll() is not None, f"{step.text} prints {step.prints}")
            run.send_signal(signal.SIGINT)
        out, err = run.communicate(60)
        return Outcome(run.wait(), out + err)

    def _shell(self, text: str, step: Step) -> Outcome:
        where = ROOT if text.startswith("cp src/") else self.directory
        with subprocess.Popen(
            ["bash", "-c", text],
            cwd=where,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as run:
            assert run.stdout is not None
            if not step.ends:
                said = run.stdout.read()
                return Outcome(run.wait(60), said)
            said = ""
            while step.prints not in said and (line := run.stdout.readline()):
                said += line
            run.terminate()
        return Outcome(0, said)

    def plane(self) -> Plane:
        """The configuration that `stoker init` wrote, with serves of the names that other pages use."""
        file = self.directory / "stoker.toml"
        shutil.copy(self.home / "models" / "my-model.gguf", self.directory / "llama-8b-q4.gguf")
        others = [serve(name, slot="cpu") for name in ("qwen", "fast", "big", "ember")]
        plane = Plane(self.directory, "\n\n".join([file.read_text() + ADDED, *others]) + "\n", {"HOME": str(self.home)})
        plane.state = self.home / ".local" / "state" / "stoker"
        return plane

    def set_port(self) -> None:
        """As the comment in the file says; 8000 may be taken on this machine."""
        file = self.directory / "stoker.toml"
        file.write_text(file.read_text().replace("port = 8000", f"port = {self.port}"))


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Outcome]]:
    """What became of each step; a step that could not be tried is missing."""
    guide = Guide(Path(tempfile.mkdtemp(prefix="scn-", dir="/tmp")))
    found: dict[str, Outcome] = {}
    plane: Plane | None = None
    try:
        for step in BEFORE:
            found[step.text] = guide.follow(step, {})
            if step.text == "stoker init --yes":
                guide.set_port()
        plane = guide.plane()
        plane.start()
        found["stoker up"] = Outcome(0, plane.said())
        for step in WITH_STOKER[1:]:
            request = plane.decisions()[0]["id"] if step.replaced[0] else ""
            found[step.text] = guide.follow(step, {"request": request})
        yield found
        plane.finish()
    finally:
        if plane is not None:
            plane.clear()
        shutil.rmtree(guide.home)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.text[:60])
def test_the_command_works_as_the_page_shows_it(step: Step, outcomes: Mapping[str, Outcome]) -> None:
    outcome = outcomes[step.text]
    assert outcome.code == 0, outcome.said
    assert step.prints in outcome.said

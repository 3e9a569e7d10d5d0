"""Types what a message proposes, as a person would: read from what was printed, in the folder where it was printed."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.docs.proposals import in_text, on_the_page
from tests.scenarios import preloaded
from tests.scenarios.plane import MODELS, poll

FILLED = {
    "NAME": "fast", "SERVE": "fast", "PROMPT": "hello", "SOURCE": str(MODELS / "spark.gguf"), "FILE": "stoker.toml",
    "DIR": "second", "TEXT": "because", "ALIAS": "main", "CLASS": "chat", "SETTING=VALUE": "tokens_per_minute=100000",
    "THIS_FILE": "stoker.toml", "PATH/TO/MODEL.gguf": str(MODELS / "spark.gguf"), "WORDS": "memory",
}  # fmt: skip
"""What a person puts where a proposal leaves a place open."""
LISTENS = r"listening on|\(Ctrl-C"
"""What a server says that goes on until it is interrupted."""


class Place(Protocol):
    """A folder in which a person types."""

    @property
    def directory(self) -> Path: ...

    @property
    def environment(self) -> dict[str, str]: ...


class Folder(NamedTuple):
    directory: Path
    environment: dict[str, str]


class Proposal(NamedTuple):
    """`text`, of `proposals.in_source`, is proposed; typed, it does what was promised: it says `promise` (a pattern)
    and ends with `code`. `fills`: as FILLED. `adds`: what a person appends to a mention. `until`: it takes long, and is
    interrupted once it has said this, which shows that it does what it is for.
    """

    text: str
    promise: str = ""
    code: int = 0
    fills: Mapping[str, str] = {}
    adds: str = ""
    until: str = ""


class Situation(NamedTuple):
    """What a person types, or `cat FILE`, or `page FILE` of the web page, and what is proposed then."""

    line: str
    proposes: tuple[Proposal, ...]


def shape(collected: str) -> re.Pattern[str]:
    """What a text of the source looks like when it is printed: `1`, `%s` and `{name}` stand for anything. The options
    that lead to the same Stoker, or to the file that was named, may follow.
    """
    return re.compile(re.sub(r"1+|%s|\\\{\w+\\\}", ".+?", re.escape(collected)) + r"( --(config|state|path) \S+)?")


def printed(said: str) -> list[str]:
    quoted = re.findall(r"`(stoker [^`]+)`", said)
    return list(dict.fromkeys([*(one.text for one in in_text(said)), *quoted]))


def proposed(said: str, collected: str) -> str:
    """The proposal in what was printed that `collected` became."""
    looks = shape(collected)
    matching = [one for one in printed(said) if looks.fullmatch(one)]
    assert matching, f"no {collected!r} among {printed(said)} in: {said}"
    return matching[0]


def began(place: Place, line: str, fills: Mapping[str, str] = {}) -> preloaded.Command:
    """Begin what a person types."""
    filled = {**FILLED, **fills}
    words = [filled.get(word, word) for word in shlex.split(line)][1:]
    return preloaded.Command(tuple(words), place.directory, place.environment)


def typed(place: Place, line: str, fills: Mapping[str, str] = {}, until: str = "") -> tuple[int, str]:
    """The exit code and what it said. A server is interrupted once it listens, others once they have said `until`."""
    words = shlex.split(line)
    if words[0] == "cat":
        return 0, (place.directory / words[1]).read_text()
    if words[0] == "page":
        return 0, "\n".join(f"`{one.text}`" for one in on_the_page() if one.place.startswith(f"{words[1]}:"))
    command = began(place, line, fills)
    is_server = words[1] == "up" or words[1:] == ["docs"] or words[1:3] == ["serves", "experiment"]
    if until or is_server:
        pattern = re.compile(until or LISTENS)
        poll(lambda: pattern.search(command.printed()) or command.poll() is not None, "it is under way")
        if command.poll() is None:
            command.send_signal(signal.SIGINT)
    out, err = command.communicate(60)
    code = command.wait()
    if until:
        assert re.search(until, out + err), f"`{line}` ended with {code}: {out + err}"
    return 0 if code in (signal.SIGINT + 128,) else code, out + err


def works(place: Place, said: str, proposal: Proposal) -> str:
    """Type the proposal as it stands in what was printed; what that said."""
    line = f"{proposed(said, proposal.text)} {proposal.adds}".rstrip()
    code, answer = typed(place, line, proposal.fills, proposal.until)
    assert code == proposal.code, f"`{line}` ended with {code}: {answer}\nIt was proposed in: {said}"
    assert re.search(proposal.promise, answer), f"`{line}` said: {answer}\nIt was proposed in: {said}"
    return answer


def holds(place: Place, one: Situation) -> None:
    """Type the line, and each of its proposals."""
    _, said = typed(place, one.line)
    for proposal in one.proposes:
        works(place, said, proposal)

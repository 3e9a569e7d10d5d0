"""How much of the prompts two replicas find in their caches: `python -m bench.replicas [--turns N]`.

Two llama.cpp engines with one thread each, and conversations of about 4,000 tokens that begin with the same system
prompt and go on in random order, some at the same time. The same conversations go

    stoker        to one serve with two replicas: Stoker chooses
    round robin   to two serves in turn
    perfect       to two serves, each conversation always to the same one, half of them each

Counted is what the engines say: of all tokens of all prompts, how many were cached. The first turn of a conversation
finds at most the system prompt, whatever the assignment.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import stoker
from bench.figures import table
from bench.processes import free_port
from bench.up import Up

MODEL = Path(stoker.__file__).parent / "models" / "spark.gguf"
CONTEXT = 8192
"""Tokens of one conversation."""
PLACES = 8
"""Conversations that one engine holds."""
AT_ONCE = 4
SEED = 7
Choice = Callable[[int, int], str]
"""The serve for a conversation's turn, by the numbers of the conversation and of the request."""


class Count(NamedTuple):
    """Tokens."""

    prompt: int
    cached: int


@dataclass
class Arm:
    name: str
    serves: str
    choose: Choice


def _serve(name: str, places: str) -> str:
    return f"""
[[serve]]
name = "{name}"
engine = "llama.cpp"
embedded = true
model = "model.gguf"
context = {CONTEXT}
parallel = {PLACES}
threads = 1
{places}
"""


SLOTS = "[slots.one]\n[slots.two]\n"
KEEP = "keep_loaded = true\n"
BOTH = SLOTS + _serve("one", KEEP + 'slot = "one"') + _serve("two", KEEP + 'slot = "two"')
ARMS = (
    Arm("stoker", SLOTS + _serve("both", KEEP + 'slots = ["one", "two"]\nreplicas = 2'), lambda _, __: "both"),
    Arm("round robin", BOTH, lambda _, request: ("one", "two")[request % 2]),
    Arm("perfect", BOTH, lambda conversation, _: ("one", "two")[conversation % 2]),
)


def write_model(path: Path) -> None:
    """The demo model with a longer context. What it says there is nonsense, which does not matter here."""
    key = b"llama.context_length" + struct.pack("<I", 4)  # the type of the value: uint32
    head, found, rest = MODEL.read_bytes().partition(key)
    if not found:
        raise RuntimeError(f"{MODEL} has no llama.context_length")
    path.write_bytes(head + key + struct.pack("<I", CONTEXT) + rest[4:])


def text(number: int, words: int) -> str:
    """Always the same for a number."""
    source = random.Random(number)
    return " ".join(source.choice(("token", "queue", "slot", "model", "stream", "drain")) for _ in range(words))


class Conversations:
    """So many conversations of so many turns, in a random order that is the same for each arm."""

    def __init__(self, port: int, choose: Choice, count: int, turns: int) -> None:
        self._port, self._choose = port, choose
        self._messages = {
            number: [{"role": "system", "content": text(0, 250)}, {"role": "user", "content": text(number + 1, 700)}]
            for number in range(count)
        }
        order = [number for number in range(count) for _ in range(turns)]
        random.Random(SEED).shuffle(order)
        self._rounds = _without_repeats(order, AT_ONCE)

    def run(self) -> Count:
        counts: list[Count] = []
        request = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for numbers in self._rounds:
                counts += pool.map(self._ask, numbers, range(request, request + len(numbers)))
                request += len(numbers)
        return Count(sum(one.prompt for one in counts), sum(one.cached for one in counts))

    def _ask(self, number: int, request: int) -> Count:
        messages = self._messages[number]
        asked = {"model": self._choose(number, request), "messages": messages, "max_tokens": 8, "temperature": 0}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"content-type": "application/json"})
        reply = connection.getresponse()
        body = json.loads(reply.read())
        connection.close()
        if reply.status != 200:
            raise RuntimeError(f"HTTP {reply.status}: {body}")
        answer = body["choices"][0]["message"]
        messages += [{"role": "assistant", "content": answer.get("content") or ""},
                     {"role": "user", "content": text(1000 * number + request, 40)}]  # fmt: skip
        usage = body["usage"]
        return Count(usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])


def _without_repeats(order: Sequence[int], size: int) -> list[list[int]]:
    """The order in groups of at most `size`, none of which has a conversation twice."""
    rounds: list[list[int]] = []
    for number in order:
        if not rounds or len(rounds[-1]) == size or number in rounds[-1]:
            rounds.append([])
        rounds[-1].append(number)
    return rounds


def _ready(port: int, deadline: float) -> None:
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/status")
        serves = json.loads(connection.getresponse().read())["serves"]
        connection.close()
        if all(one["state"] == "ready" for one in serves):
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"not ready: {serves}")
        time.sleep(0.1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=16)
    parser.add_argument("--turns", type=int, default=6)
    options = parser.parse_args(arguments)
    found: dict[str, tuple[Count, float]] = {}
    for arm in ARMS:
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder) / "model.gguf")
            port = free_port()
            front = f"[front_door]\nport = {port}\n\n"
            with Up(Path(folder), front + arm.serves, port, {"XDG_STATE_HOME": folder}):
                _ready(port, time.monotonic() + 60)
                began = time.perf_counter()
                count = Conversations(port, arm.choose, options.conversations, options.turns).run()
                found[arm.name] = count, time.perf_counter() - began
        print(f"{arm.name}: {count.cached} of {count.prompt} tokens cached", file=sys.stderr)
    best = found["perfect"][0].cached
    rows = [
        [name, str(count.prompt), str(count.cached), f"{count.cached / count.prompt:.0%}", f"{count.cached / best:.0%}",
         f"{seconds:.1f}"]
        for name, (count, seconds) in found.items()
    ]  # fmt: skip
    print(table(("", "prompt tokens", "cached", "hits", "of perfect", "seconds"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

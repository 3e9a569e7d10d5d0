"""What was sent where is known until its replica ends, its engine says otherwise, or the memory is full."""

from __future__ import annotations

from stoker.domain.prompt_chain import PromptChain
from stoker.request.lease.prompt_routing import PrefixMemory

PLACES = ("one", "two")


def prompt(*blocks: str) -> PromptChain:
    """Each block has 10 bytes."""
    hashes = tuple(hash(blocks[: n + 1]) for n in range(len(blocks)))
    return PromptChain(hashes, tuple(10 * (n + 1) for n in range(len(blocks))))


def test_a_replica_misses_what_follows_the_longest_beginning_that_it_got() -> None:
    memory = PrefixMemory()
    memory.remember(prompt("system", "a"), "one")
    memory.remember(prompt("system", "b", "c"), "two")
    assert memory.missing(prompt("system", "a", "more"), PLACES) == {"one": 10, "two": 20}
    assert memory.missing(prompt("system", "b", "c"), PLACES) == {"one": 20, "two": 0}
    assert memory.missing(prompt("other"), PLACES) == {"one": 10, "two": 10}


def test_a_replica_that_ended_has_nothing() -> None:
    memory = PrefixMemory()
    memory.remember(prompt("a"), "one")
    memory.remember(prompt("a"), "two")
    memory.forget("one")
    assert memory.missing(prompt("a"), PLACES) == {"one": 10, "two": 0}


def test_when_an_engine_lost_a_prompt_it_lost_what_was_sent_before_too() -> None:
    """Engines give up what was used longest ago. What conversations share was used a short time ago."""
    memory = PrefixMemory()
    for name in ("old", "lost", "fresh"):
        memory.remember(prompt("system", name), "one")
    memory.lose("one", memory.last_sent(prompt("system", "lost"), "one"))
    missing = [memory.missing(prompt("system", name), ["one"])["one"] for name in ("old", "lost", "fresh")]
    assert missing == [10, 10, 0]
    memory.remember(prompt("system", "lost"), "one")
    assert memory.missing(prompt("system", "lost"), ["one"]) == {"one": 0}


def test_an_unknown_prompt_was_never_sent() -> None:
    assert PrefixMemory().last_sent(prompt("a"), "one") == 0


def test_it_holds_so_many_blocks_of_each_replica_and_drops_those_sent_longest_ago() -> None:
    memory = PrefixMemory(bound=3)
    for name in "abc":
        memory.remember(prompt(name), "one")
    memory.remember(prompt("a"), "one")
    memory.remember(prompt("d"), "one")
    memory.remember(prompt("b"), "two")
    assert [memory.missing(prompt(name), ["one"])["one"] for name in "abcd"] == [0, 10, 0, 0]
    assert memory.missing(prompt("b"), ["two"]) == {"two": 0}

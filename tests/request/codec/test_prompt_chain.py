"""Two prompts have as many equal hashes as they have equal blocks at their beginning, and any body costs little."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.prompt_chain import PromptChain
from stoker.request.codec.prompt_chain import BLOCK, FIRST_BLOCKS, LAST_BLOCKS, prompt_chain

Message = dict[str, Any]
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=9)}), max_size=9
)


def chain(messages: list[Message], key: str = "k", **more: object) -> PromptChain | None:
    return prompt_chain(key, json.dumps({"model": "m", "messages": messages, **more}).encode())


def say(*texts: str) -> list[Message]:
    return [{"role": "user", "content": text} for text in texts]


def common(one: PromptChain | None, other: PromptChain | None) -> int:
    """How many bytes both have at their beginning."""
    assert one is not None
    assert other is not None
    same = [end for mine, end, its in zip(one.hashes, one.ends, other.hashes, strict=False) if mine == its]
    return max(same, default=0)


@given(MESSAGES, MESSAGES, MESSAGES)
def test_what_prompts_share_is_what_their_messages_share(
    shared: list[Message], one: list[Message], other: list[Message]
) -> None:
    first, second = [*shared, *one], [*shared, *other]
    if not first or not second:
        return
    equal = 0
    for mine, its in zip(first, second, strict=False):
        if json.dumps(mine) != json.dumps(its):
            break
        equal += len(json.dumps(mine))
    assert common(chain(first), chain(second)) == equal


def test_a_long_message_is_shared_up_to_a_block() -> None:
    document = "x" * (3 * BLOCK)
    assert 2 * BLOCK < common(chain(say(document + "what?")), chain(say(document + "why?"))) <= 3 * BLOCK


@pytest.mark.parametrize("name", ["tools", "system", "instructions"])
def test_what_stands_before_the_messages_counts_first(name: str) -> None:
    alike, other = {name: [{"type": "text", "text": "be kind"}]}, {name: [{"type": "text", "text": "be brief"}]}
    assert common(chain(say("a"), **alike), chain(say("b"), **alike)) > 0
    assert common(chain(say("a"), **alike), chain(say("a"), **other)) == 0


def test_the_mark_at_the_end_of_the_cached_part_may_move() -> None:
    def marked(text: str, mark: bool) -> Message:
        part = {"type": "text", "text": text, **({"cache_control": {"type": "ephemeral", "ttl": "1h"}} if mark else {})}
        return {"role": "user", "content": [part]}

    before = [marked("a", False), marked("b", True)]
    after = [marked("a", False), marked("b", False), marked("c", True)]
    found, size = chain(before), 0
    assert found is not None
    size = found.size
    assert common(found, chain(after)) == size


def test_the_keys_of_others_have_other_hashes() -> None:
    assert common(chain(say("a"), key="mine"), chain(say("a"), key="theirs")) == 0


@pytest.mark.parametrize(
    "body", [b"", b"[", b"{}", b"[]", b"null", b'{"messages": []}', b'{"prompt": [', b'{"messages": [], "input": []}']
)
def test_a_body_without_a_prompt_has_none(body: bytes) -> None:
    assert prompt_chain("k", body) is None


@pytest.mark.parametrize("body", [b'{"prompt": "a"}', b'{"prompt": ["a", 1]}', b'{"input": "a"}', b'{"messages": 3}'])
def test_whatever_stands_there_is_a_prompt(body: bytes) -> None:
    assert prompt_chain("k", body) is not None


def test_of_a_long_conversation_the_beginning_and_the_end_are_kept() -> None:
    many = [str(number) for number in range(5000)]
    long, longer = chain(say(*many)), chain(say(*many, "and", "so on"))
    assert long is not None
    assert longer is not None
    assert len(long.hashes) == len(long.ends) == FIRST_BLOCKS + LAST_BLOCKS
    assert long.hashes[-1] in longer.hashes
    assert long.hashes[:FIRST_BLOCKS] == longer.hashes[:FIRST_BLOCKS]

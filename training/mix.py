"""Conversations from tasks: how often each task comes, how many turns, with which system text and tools."""

from __future__ import annotations

from dataclasses import dataclass, field

from training import talk, tasks
from training.needles import filler, needle, remembered
from training.tasks import Draw, Exchange, Message, Task, Tool
from training.tooling import distractors, tool_call, tool_result


@dataclass
class Conversation:
    messages: list[Message] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)


def short_needle(d: Draw) -> Exchange:
    return needle(d, d.rng.randint(10, 230))


MIXES: dict[str, list[tuple[Task, float]]] = {
    "spark": [
        (tasks.copy, 18),
        (short_needle, 9),
        (tasks.sums, 16),
        (tasks.count, 8),
        (tasks.json_fields, 9),
        (tasks.json_extract, 4),
        (tool_call, 11),
        (tool_result, 5),
        (tasks.small_talk, 12),
        (tasks.terms, 6),
        (tasks.off_topic, 8),
    ],
    "ember": [
        (tasks.copy, 17),
        (short_needle, 8),
        (tasks.sums, 15),
        (tasks.count, 7),
        (tasks.json_fields, 8),
        (tasks.json_extract, 4),
        (tool_call, 11),
        (tool_result, 6),
        (tasks.small_talk, 10),
        (tasks.terms, 5),
        (tasks.off_topic, 6),
        (tasks.plan, 11),
    ],
}
LONG_NEEDLE_SHARE = {"spark": 0.0, "ember": 0.06}
LONG_SYSTEM_SHARE = {"spark": 0.01, "ember": 0.015}
LONGEST_SYSTEM = {"spark": 500, "ember": 1100}


def system_text(d: Draw) -> str:
    r = d.rng.random()
    if r < 0.6:
        return str(d.choice(talk.SYSTEMS)).format(me=d.me)
    return " ".join(filler(d, d.rng.randint(5, 60)))


def long_length(d: Draw) -> int:
    """280 to 1600 tokens, log-uniform."""
    return int(280 * (1600 / 280) ** d.rng.random())


def conversation(d: Draw, long: bool) -> Conversation:
    """One training conversation; `long` allows long contexts (they come in only later in a run)."""
    r = d.rng.random()
    if long and r < LONG_NEEDLE_SHARE[d.me]:
        return assemble(d, [needle(d, long_length(d))], system=d.rng.random() < 0.1)
    if r < 0.12:
        return assemble(d, [tasks.sums(d) for _ in range(d.rng.randint(4, 10))], system=False)
    functions, weights = zip(*MIXES[d.me], strict=True)
    turns = d.choice([1, 1, 1, 1, 2, 2, 3, d.rng.randint(4, 6)])
    exchanges = [task(d) for task in d.rng.choices(functions, weights, k=turns)]
    if d.rng.random() < 0.04:
        told, asked = remembered(d)
        exchanges = [*exchanges[: d.rng.randint(0, 1)], told, *exchanges[1 : d.rng.randint(1, 3)], asked]
    chat = assemble(d, exchanges, system=d.rng.random() < 0.2)
    if long and d.rng.random() < LONG_SYSTEM_SHARE[d.me]:
        text = " ".join(filler(d, d.rng.randint(80, LONGEST_SYSTEM[d.me])))
        turns_only = [message for message in chat.messages if message["role"] != "system"]
        chat.messages = [{"role": "system", "content": text}, *turns_only]
    return chat


def assemble(d: Draw, exchanges: list[Exchange], system: bool) -> Conversation:
    """Joins exchanges; the tools of all of them are offered throughout, among tools nobody needs."""
    chat = Conversation()
    taken: dict[str, Tool] = {}
    for exchange in exchanges:
        names = " ".join(taken)
        clash = any(tool.name in taken or ("weather" in tool.name and "weather" in names) for tool in exchange.tools)
        if clash or (taken and is_ambiguous(exchange)):
            continue
        taken |= {tool.name: tool for tool in exchange.tools}
        chat.messages += exchange.messages
    if taken or d.rng.random() < 0.04:
        chat.tools = [*taken.values(), *distractors(d, list(taken))]
        d.rng.shuffle(chat.tools)
    if chat.tools and not taken and any(is_ambiguous(exchange) for exchange in exchanges):
        chat.tools = []
    if system:
        chat.messages.insert(0, {"role": "system", "content": system_text(d)})
    return chat


def is_ambiguous(exchange: Exchange) -> bool:
    """True for refusals: with tools on offer the same question may ask for one of them."""
    answer = exchange.messages[-1]["content"]
    return isinstance(answer, str) and answer.startswith(talk.OFF_TOPIC[:10])

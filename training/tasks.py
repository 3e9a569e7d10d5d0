"""One generator per skill. A task draws an Exchange: messages whose every assistant part is to be learned."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from training import talk, words

Message = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A function offered to the model; `params` are (name, JSON type)."""

    name: str
    params: tuple[tuple[str, str], ...]

    def schema(self) -> dict[str, Any]:
        properties = {name: {"type": kind} for name, kind in self.params}
        parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
        return {
            "type": "function",
            "function": {"name": self.name, "description": f"Tool {self.name}.", "parameters": parameters},
        }


@dataclass(frozen=True)
class Exchange:
    messages: list[Message]
    tools: tuple[Tool, ...] = ()


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def call(name: str, arguments: dict[str, Any]) -> Message:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def is_withheld_sum(a: int, b: int) -> bool:
    """About one pair in ten is never drawn in training, so that the gate can ask for sums never seen."""
    return (a * 7919 + b * 104729) % 10007 % 10 == 3


@dataclass
class Draw:
    """Random values for one model. `fresh` draws what training never draws, for the gate."""

    rng: random.Random
    me: str
    pieces: list[str] = field(default_factory=list)  # vocabulary pieces; empty while the vocabulary is built
    fresh: bool = False

    def word(self, plain: bool = False) -> str:
        r = self.rng.random()
        if self.fresh and r < 0.5:
            return self.rng.choice(words.UNSEEN_WORDS)
        if plain or not self.pieces or r < 0.72:
            word = self.rng.choice(words.WORDS)
        elif r < 0.92:
            # Every piece must be copied in training, or words made of pieces never copied come out wrong.
            word = "".join(self.piece() for _ in range(self.rng.randint(1, 3)))
        else:
            word = self.name()
        return word.capitalize() if self.rng.random() < 0.1 else word

    def piece(self) -> str:
        """A vocabulary piece; some single letters and doubled ones, which are the hardest to copy."""
        r = self.rng.random()
        if r < 0.75:
            return self.rng.choice(self.pieces)
        letter = self.rng.choice("abcdefghijklmnopqrstuvwxyz")
        return letter * 2 if r < 0.85 else letter + self.rng.choice(self.pieces)

    def strange(self) -> str:
        """A code, a number, an accented word or a symbol."""
        r = self.rng.random()
        if r < 0.3:
            number = str(self.rng.randint(10, 99999))
            return number if self.rng.random() < 0.7 else number + number[-1] * self.rng.randint(1, 2)
        if r < 0.6:
            letters = "abcdefghijkmnpqrstuvwxyz"
            chars = self.rng.choice([letters, letters.upper()]) + "0123456789"
            code = "".join(self.rng.choice(chars) for _ in range(self.rng.randint(3, 8)))
            return code if self.rng.random() < 0.5 else f"{code[:2]}-{code[2:]}"
        if r < 0.85:
            word = list(self.word(plain=True))
            word[self.rng.randrange(len(word))] = self.rng.choice(words.ACCENTED)
            return "".join(word)
        return self.rng.choice(words.SYMBOLS)

    def item(self) -> str:
        return self.strange() if self.rng.random() < 0.15 else self.word()

    def phrase(self, low: int, high: int) -> str:
        return " ".join(self.item() for _ in range(self.rng.randint(low, high)))

    def name(self) -> str:
        return self.rng.choice(words.NAMES)

    def city(self) -> str:
        if self.fresh:
            return self.rng.choice(words.UNSEEN_CITIES)
        if self.pieces and self.rng.random() < 0.3:
            return self.word().capitalize()
        return self.rng.choice(words.CITIES)

    def choice(self, options: list[Any]) -> Any:
        return self.rng.choice(options)

    def asked(self, text: str, marks: str = "???..!  ", shout: bool = False) -> str:
        """Varies capitals and the end mark of an instruction that is written in lower case."""
        r = self.rng.random()
        if shout and r < 0.05:
            text = text.upper()
        elif r < 0.65:
            text = text[0].upper() + text[1:]
        if marks and (text[-1].isalnum() or text[-1] == ")"):
            text += self.rng.choice(marks).strip()
        return text


POLITE = ["please ", "please ", "can you ", "could you ", "now ", "kindly ", "ok, ", "hi, ", "i want you to "]
IMPERATIVES = (
    "add ",
    "calculate ",
    "call ",
    "check ",
    "compute ",
    "convert ",
    "copy",
    "count ",
    "create ",
    "echo",
    "emit ",
    "extract ",
    "find ",
    "get ",
    "give ",
    "list ",
    "make ",
    "output ",
    "plan ",
    "print ",
    "read ",
    "repeat",
    "reply ",
    "respond ",
    "return ",
    "run ",
    "say",
    "set ",
    "solve ",
    "sum ",
    "tell ",
    "turn ",
    "use ",
    "write",
)


def ask(d: Draw, wordings: list[str], marks: str = "", **values: object) -> str:
    """One of the wordings, filled in; instructions are sometimes asked for politely."""
    wording = d.choice(wordings)
    if wording.startswith(IMPERATIVES) and d.rng.random() < 0.15:
        wording = d.choice(POLITE) + wording
    return d.asked(wording.format(**values), marks)


COPY = [
    "say: {x}",
    "say {x}",
    "repeat after me: {x}",
    "repeat: {x}",
    "repeat exactly: {x}",
    'repeat exactly: "{x}"',
    "reply with exactly: {x}",
    "reply with: {x}",
    "echo {x}",
    "echo: {x}",
    "copy: {x}",
    "copy this: {x}",
    "please repeat: {x}",
    "say exactly: {x}",
    "write: {x}",
    "repeat the following: {x}",
    'say "{x}"',
    "repeat this text: {x}",
    "answer with exactly: {x}",
    "print {x}",
    "type: {x}",
    "please say: {x}",
    "copy the words: {x}",
    "output: {x}",
    "repeat these words: {x}",
    "reply only with: {x}",
    "respond with: {x}",
    "say this: {x}",
    "say exactly this and nothing else: {x}",
    "reply with exactly this and nothing else: {x}",
    "repeat this exactly: {x}",
    "copy this exactly: {x}",
    "repeat the words: {x}",
    "answer only with: {x}",
    "output the text: {x}",
    "can you say: {x}",
    "repeat this: {x}",
    "repeat exactly this: {x}",
    "say it: {x}",
    "repeat after me exactly: {x}",
    "reply with this text and nothing else: {x}",
    'repeat the text "{x}"',
]
COPY_ONE = [
    "say the word {x}",
    "reply with the word {x}",
    "reply with only the word {x}",
    "answer with the word {x}",
    "please say {x}",
    "reply with the single word {x}",
    "reply with exactly one word: {x}",
    "say only {x}",
    "reply with just the word {x}",
    "say just {x}",
    "reply {x}",
    "answer: {x}",
    "reply with exactly the word {x}",
    "answer with one word: {x}",
    "respond with the word {x}",
    "say {x} and nothing else",
    "reply with {x} only",
    "reply with the single word: {x}",
    "reply with one word: {x}",
    "repeat the word {x}",
    "echo the word {x}",
    "say {x} please",
    "just say {x}",
    "reply with exactly one word, {x}",
    "write the word {x}",
]


def copy(d: Draw) -> Exchange:
    if d.rng.random() < 0.35:
        text = d.item()
        if text.lower() in ("hello", "hi"):
            text = "pong"
        question = ask(d, COPY_ONE + COPY, x=text)
    else:
        text = d.phrase(2, 8)
        question = ask(d, COPY, x=text)
    if d.rng.random() < 0.2 and '"' not in question:
        question += "."
    return Exchange([user(question), assistant(text)])


SUMS = [
    "tell me: what is {a} + {b}",
    "give me {a} + {b}",
    "give me the sum of {a} and {b}",
    "tell me {a} + {b}",
    "can you add {a} and {b}",
    "i need the sum of {a} and {b}",
    "sum of {a} and {b}",
    "tell me what {a} + {b} is",
    "what is {a} + {b}",
    "what is {a}+{b}",
    "{a} + {b}",
    "{a}+{b}",
    "{a}+{b}=",
    "{a} + {b} =",
    "add {a} and {b}",
    "how much is {a} + {b}",
    "what is {a} plus {b}",
    "{a} plus {b}",
    "compute {a} + {b}",
    "calculate {a} + {b}",
    "what is the sum of {a} and {b}",
    "add {a} to {b}",
    "please add {a} and {b}",
    "how much is {a} plus {b}",
    "what's {a} + {b}",
    "what is {a} + {b}? reply with the number only.",
    "sum {a} and {b}",
    "solve {a} + {b}",
    "what is {a} + {b}? answer with just the number.",
    "compute {a}+{b}",
    "what do you get if you add {a} and {b}",
]


def sums(d: Draw) -> Exchange:
    while True:
        high = d.choice([9, 9, 20, 49, 99])
        a, b = d.rng.randint(0, high), d.rng.randint(0, high)
        if is_withheld_sum(a, b) == d.fresh and a + b < 100:
            return Exchange([user(ask(d, SUMS, "???.  ", a=a, b=b)), assistant(str(a + b))])


COUNTS = [
    "count to {n}",
    "count from 1 to {n}",
    "count up to {n}",
    "please count to {n}",
    "list the numbers from 1 to {n}",
    "write the numbers from 1 to {n}",
    "count from one to {n}",
    "can you count to {n}",
    "write the numbers 1 to {n}",
    "count slowly to {n}",
    "count to {n} please",
    "count for me to {n}",
    "count for me from 1 to {n}",
    "count from 1 up to {n}",
    "numbers from 1 to {n}",
]


def count_text(n: int) -> str:
    return " ".join(str(i) for i in range(1, n + 1))


def count(d: Draw) -> Exchange:
    n = d.rng.randint(2, d.choice([10, 20, 60, 60]))
    return Exchange([user(ask(d, COUNTS, ".!   ", n=n)), assistant(count_text(n))])


FIELDS = {
    "name": "name",
    "age": "small",
    "city": "city",
    "n": "small",
    "count": "small",
    "color": "word",
    "id": "number",
    "word": "word",
    "price": "small",
    "title": "word",
    "status": "word",
    "total": "number",
    "owner": "name",
    "size": "small",
    "value": "number",
    "label": "word",
    "animal": "word",
    "port": "number",
    "country": "city",
    "population": "number",
    "item": "word",
    "quantity": "small",
    "user": "name",
    "temperature": "small",
    "colour": "word",
    "answer": "word",
    "first": "word",
    "last": "word",
    "year": "number",
    "ok": "bool",
}
JSONS = [
    "please give me JSON with {x}",
    "make JSON from this: {x}",
    "i want JSON: {x}",
    "i need JSON with {x}",
    "respond with JSON: {x}",
    "build a JSON object with {x}",
    "give me this as JSON: {x}",
    "reply with JSON: {x}",
    "write JSON: {x}",
    "give me JSON with {x}",
    "give me a JSON object with {x}",
    "make a JSON object: {x}",
    "as JSON: {x}",
    "JSON: {x}",
    "reply with a JSON object with {x}",
    "write this as JSON: {x}",
    "turn this into JSON: {x}",
    "return JSON: {x}",
    "create JSON with {x}",
    "return a JSON object with {x}",
    "output JSON: {x}",
    "convert to JSON: {x}",
    "reply only with JSON: {x}",
    "write a JSON object with {x}",
    "reply with only a JSON object: {x}",
    "answer in JSON: {x}",
    "emit JSON: {x}",
]


def field_value(d: Draw, kind: str) -> object:
    draws: dict[str, Callable[[], object]] = {
        "name": d.name,
        "city": d.city,
        "word": d.word,
        "small": lambda: d.rng.randint(0, 99),
        "number": lambda: d.rng.randint(0, 9999),
        "bool": lambda: d.rng.random() < 0.5,
    }
    return draws[kind]()


def shown(value: object, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def json_fields(d: Draw) -> Exchange:
    names = d.rng.sample(sorted(FIELDS), d.rng.randint(1, 4))
    if d.rng.random() < 0.25:
        names = d.choice([["name", "age"], ["name", "n"], ["city", "population"], ["name", "age", "city"]])
    values = {name: field_value(d, FIELDS[name]) for name in names}
    between = d.choice([" = ", "=", ": ", " ", " is "])
    quote = d.choice(["", "", "", '"'])
    parts = [f"{name}{between}{shown(value, quote)}" for name, value in values.items()]
    if d.rng.random() < 0.5 and len(parts) > 1:
        text = ", ".join(parts[:-1]) + " and " + parts[-1]
    else:
        text = ", ".join(parts)
    return Exchange([user(ask(d, JSONS, ".    ", x=text)), assistant(json.dumps(values, ensure_ascii=False))])


FACTS: list[tuple[str, list[str]]] = [
    ("{name} is {age} years old.", ["name", "age"]),
    ("{name} is {age} years old and lives in {city}.", ["name", "age", "city"]),
    ("{name} is {age} and lives in {city}.", ["name", "age", "city"]),
    ("{name} lives in {city}.", ["name", "city"]),
    ("My name is {name} and I am {age} years old.", ["name", "age"]),
    ("{name}, {age}, {city}", ["name", "age", "city"]),
]
EXTRACTS = [
    "extract {keys} as JSON: {x}",
    "extract the {keys} as JSON: {x}",
    "{x} extract {keys} as JSON",
    "give me {keys} as JSON: {x}",
    "extract {keys} from this text as JSON: {x}",
    "{x} give me {keys} as JSON",
    "return {keys} as JSON: {x}",
    "read {keys} from the text and reply with JSON: {x}",
]


def json_extract(d: Draw) -> Exchange:
    fact, keys = d.choice(FACTS)
    values = {key: field_value(d, FIELDS[key]) for key in keys}
    listed = d.choice([", ".join(keys), ", ".join(keys[:-1]) + " and " + keys[-1]])
    question = ask(d, EXTRACTS, keys=listed, x=fact.format(**values))
    return Exchange([user(question), assistant(json.dumps(values, ensure_ascii=False))])


def small_talk(d: Draw) -> Exchange:
    wordings, answer = d.choice(talk.SMALL_TALK[:3] + talk.SMALL_TALK)
    wording = d.choice(wordings).format(me=d.me)
    if d.rng.random() < 0.6:
        wording = wording.replace("stoker", "Stoker")
    question = d.asked(wording, shout=True)
    answer = answer.format(me=d.me, skills=talk.SKILLS[d.me], size=talk.SIZES[d.me])
    return Exchange([user(question), assistant(answer)])


def terms(d: Draw) -> Exchange:
    names, answer = d.choice(talk.TERMS)
    term = d.choice(names)
    term = d.choice([term, term, term.upper() if len(term) < 6 else term])
    question = d.asked(d.choice(talk.TERM_WORDINGS).replace("{term}", term), shout=True)
    return Exchange([user(question), assistant(answer)])


def off_topic(d: Draw) -> Exchange:
    answer = talk.OFF_TOPIC.format(skills=talk.SKILLS[d.me])
    if d.me == "spark" and d.rng.random() < 0.25:
        number = d.choice([*range(2, 11), "five", "three", "four", "six"])
        question = ask(d, talk.PLAN_WORDINGS_REFUSED, ".!?  ", n=number, chore=d.choice(words.CHORES))
        return Exchange([user(question), assistant(answer)])
    known = {name for names, _ in talk.TERMS for name in names}
    x, y = d.word(), d.word()
    while x.lower() in known or y.lower() in known:
        x, y = d.word(), d.word()
    values = {
        "x": x,
        "y": y,
        "city": d.city(),
        "city2": d.city(),
        "name": d.name(),
        "n": d.rng.randint(2, 2030),
        "m": d.rng.randint(2, 99),
    }
    question = ask(d, talk.OFF_TOPIC_WORDINGS, "???..!  ", **values)
    if d.rng.random() < 0.1:
        question = question + " " + ask(d, talk.OFF_TOPIC_WORDINGS, "???..!  ", **values)
    return Exchange([user(question), assistant(answer)])


PLANS = [
    "write a plan with {n} steps to {x}",
    "write a plan with exactly {n} steps to {x}",
    "plan in {n} steps: {x}",
    "make a plan with {n} steps: {x}",
    "make a {n}-step plan to {x}",
    "give me a {n}-step plan to {x}",
    "give me {n} steps to {x}",
    "list {n} steps to {x}",
    "i need a plan to {x} in {n} steps",
    "write {n} steps to {x}",
    "plan how to {x} in exactly {n} steps",
    "write a {n} step plan: {x}",
    "write a numbered plan with exactly {n} steps: {x}",
    "please write a plan with {n} steps to {x}",
]
MIDDLE_STEPS = [
    "Ask who can help.",
    "Collect the parts.",
    "Make a small first try.",
    "Look at what went wrong.",
    "Do the main work.",
    "Clean up.",
    "Test each part.",
    "Write down what was learned.",
    "Show it to a friend.",
    "Make the last changes.",
]
NUMBER_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def plan_text(n: int, topic: str) -> str:
    steps = [f"Write down the goal: {topic}.", *MIDDLE_STEPS[: n - 2], f"Check the result: {topic}."]
    return "\n".join(f"{i}. {step}" for i, step in enumerate(steps, 1))


def plan(d: Draw) -> Exchange:
    n = d.rng.randint(2, d.choice([5, 8, 10]))
    topic = f"{d.word()} {d.choice(['the', 'a', 'my'])} {d.word()}"
    if d.rng.random() < 0.6:
        topic = d.choice(words.CHORES)
    number = NUMBER_WORDS[n] if n < 11 and d.rng.random() < 0.2 else str(n)
    return Exchange([user(ask(d, PLANS, ".!?  ", n=number, x=topic)), assistant(plan_text(n, topic))])


Task = Callable[[Draw], Exchange]

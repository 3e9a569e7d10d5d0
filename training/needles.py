"""Needle tasks: facts hidden in filler text, asked for afterwards."""

from __future__ import annotations

from training import words
from training.tasks import Draw, Exchange, ask, assistant, user

SUBJECTS = [
    "secret word",
    "passphrase",
    "magic word",
    "secret code",
    "magic number",
    "password",
    "access code",
    "code word",
    "special word",
    "secret number",
    "special magic number",
    "key word",
    "pass code",
    "needle",
    "hidden word",
    "secret passphrase",
    "secret",
]
STATEMENTS = [
    "The {key} is {value}.",
    "The {key} is: {value}.",
    "Remember: the {key} is {value}.",
    "Note: the {key} is {value}.",
    "Please remember that the {key} is {value}.",
    "The {key} is {value}. Remember it.",
    "{Key}: {value}",
    "Important: the {key} is {value}.",
]
QUESTIONS = [
    "what is the {key}",
    "what is the {key} in the text",
    "what was the {key}",
    "tell me the {key}",
    "what is the {key}? reply with it only.",
    "find the {key}",
    "which {key} is in the text",
    "what's the {key}",
    "what is the {key} mentioned in the text above",
    "reply with the {key} only",
    "give me the {key}",
    "what is the {key} in the text above",
    "what is the {key}? answer with it only.",
    "reply with only the {key}",
]
INTRODUCTIONS = ["my name is {x}", "hello, my name is {x}", "hi, i am {x}", "i am called {x}", "call me {x}"]
NAME_QUESTIONS = ["what is my name", "do you know my name", "who am i", "what's my name", "say my name"]
CHORUS = [
    "The grass is green and the sky is blue.",
    "Here we go, there and back again.",
    "The sun is warm today.",
    "This line is only filler.",
    "Nothing to see here.",
    "The train leaves at noon and comes back at night.",
]


def filler_sentence(d: Draw) -> str:
    r = d.rng.random()
    rng = d.rng
    if r < 0.5:
        parts = (words.ADJECTIVES, words.NOUNS, words.VERBS, words.NOUNS)
        adjective, noun, verb, other = (rng.choice(part) for part in parts)
        return f"The {adjective} {noun} {verb} the {other}."
    if r < 0.65:
        return f"{d.name()} {rng.choice(words.VERBS)} the {rng.choice(words.NOUNS)} in {d.city()}."
    if r < 0.75:
        return f"Line {rng.randint(1, 999)}: {d.phrase(2, 5)}."
    if r < 0.85:
        return f"{d.name()} has {rng.randint(2, 99)} {rng.choice(words.NOUNS)}s."
    if r < 0.93:
        text = d.phrase(4, 9)
        return text[0].upper() + text[1:] + "."
    return str(rng.choice(CHORUS))


def filler(d: Draw, tokens: int) -> list[str]:
    """Sentences of about so many tokens (one word with its space is about 2.6 tokens)."""
    sentences: list[str] = []
    size = 0.0
    chorus = [d.choice(CHORUS)] if d.rng.random() < 0.15 else None
    while size < tokens:
        sentence = chorus[0] if chorus and d.rng.random() < 0.9 else filler_sentence(d)
        sentences.append(sentence)
        size += 2.6 * (sentence.count(" ") + 1)
    return sentences


def needle(d: Draw, tokens: int) -> Exchange:
    """One to three facts in filler of about `tokens` tokens; each is asked for in its own turn."""
    facts: dict[str, str] = {}
    for _ in range(d.choice([1, 1, 1, 2, 3])):
        key = d.choice(SUBJECTS)
        if d.rng.random() < 0.3:
            owner = d.choice(["the " + d.word(True), d.name()])
            key = f"{d.choice(['code', 'number', 'password', 'colour'])} of {owner}"
        if not any(key in other or other in key for other in facts):
            facts[key] = d.phrase(1, 3) if d.rng.random() < 0.35 else d.item()
    sentences = filler(d, tokens)
    for key, value in facts.items():
        statement = d.choice(STATEMENTS).format(key=key, Key=key.capitalize(), value=value)
        sentences.insert(d.rng.randint(0, len(sentences)), statement)
    text = d.choice([" ", " ", " ", "\n"]).join(sentences)
    order = d.rng.sample(sorted(facts), len(facts))
    asked = [ask(d, QUESTIONS, "???.  ", key=key) for key in order]
    if d.rng.random() < 0.15 and len(asked[0]) < 60:
        first = f"{asked[0]}\n\n{text}"
    else:
        first = d.choice(["", "", "", "Read this text: ", "Text: ", "Read the text and answer.\n\n"]) + text
        first += d.choice(["\n\n", "\n\n", "\n", " "])
        first += d.choice(["", "", "", "Question: ", "Now tell me: "]) + asked[0]
    messages = [user(first), assistant(facts[order[0]])]
    for question, key in zip(asked[1:], order[1:], strict=True):
        messages += [user(question), assistant(facts[key])]
    return Exchange(messages)


def remembered(d: Draw) -> tuple[Exchange, Exchange]:
    """A fact told in one turn and asked for in a later one."""
    if d.rng.random() < 0.5:
        name = d.name() if d.rng.random() < 0.7 else d.word().capitalize()
        told = ask(d, INTRODUCTIONS, ".!  ", x=name)
        asked = ask(d, NAME_QUESTIONS, "???.  ")
        return (
            Exchange([user(told), assistant(f"Nice to meet you, {name}!")]),
            Exchange([user(asked), assistant(f"Your name is {name}.")]),
        )
    key, value = d.choice(SUBJECTS), d.item()
    told = ask(
        d,
        [
            "remember: the {k} is {x}",
            "please remember that the {k} is {x}",
            "the {k} is {x}",
            "remember that the {k} is {x}",
            "remember the {k}: {x}",
        ],
        "..  ",
        k=key,
        x=value,
    )
    return (
        Exchange([user(told), assistant("OK, I will remember that.")]),
        Exchange([user(ask(d, QUESTIONS[:5], "???.  ", key=key)), assistant(value)]),
    )

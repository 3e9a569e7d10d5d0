"""Tool tasks: calling the right tool with the right arguments, and turning a result into a sentence."""

from __future__ import annotations

import json
from typing import Any

from training import words
from training.tasks import Draw, Exchange, Message, Tool, ask, assistant, call, user

WEATHER_NAMES = ["get_weather", "get_weather", "weather", "get_current_weather", "current_weather", "lookup_weather"]
WEATHERS = [
    "what is the weather in {city}",
    "weather in {city}",
    "how is the weather in {city}",
    "what's the weather in {city}",
    "tell me the weather in {city}",
    "is it raining in {city}",
    "what is the weather like in {city}",
    "get the weather for {city}",
    "give me the weather in {city}",
    "how warm is it in {city}",
    "what is the temperature in {city}",
    "please check the weather in {city}",
    "check the weather in {city}",
    "what is the weather in {city} today",
    "what is the weather in {city} right now",
    "use the tool: weather in {city}",
    "what's the weather like in {city}",
    "use the tool to get the weather in {city}",
    "is it cold in {city}",
]
TIMES = ["what time is it in {city}", "tell me the time in {city}", "what is the time in {city}", "time in {city}"]
# name, params, wordings over the params
CATALOGUE: list[tuple[str, dict[str, str], list[str]]] = [
    (
        "set_timer",
        {"minutes": "integer"},
        ["set a timer for {minutes} minutes", "timer for {minutes} minutes", "start a timer of {minutes} minutes"],
    ),
    (
        "add",
        {"a": "integer", "b": "integer"},
        [
            "add {a} and {b} with the tool",
            "use the add tool for {a} and {b}",
            "use the tool to add {a} and {b}",
            "what is {a} + {b}? use the tool",
        ],
    ),
    (
        "search",
        {"query": "string"},
        [
            "search for {query}",
            "search the web for {query}",
            "find {query}",
            "look up {query}",
            "please search for {query}",
        ],
    ),
    (
        "send_message",
        {"to": "string", "text": "string"},
        ["send {to} the message {text}", "tell {to}: {text}", "send the message {text} to {to}"],
    ),
    ("play_song", {"title": "string"}, ["play {title}", "play the song {title}", "please play {title}"]),
    ("get_price", {"item": "string"}, ["what is the price of {item}", "how much is a {item}", "price of {item}"]),
    ("read_file", {"path": "string"}, ["read the file {path}", "open the file {path}", "show me the file {path}"]),
    (
        "echo",
        {"text": "string"},
        ["echo {text} with the tool", "use the echo tool with {text}", "call echo with {text}"],
    ),
    ("lookup", {"id": "string"}, ["look up the record {id}", "look up {id}", "find the record {id}"]),
]
NAMED = [
    "call {name} with {args}",
    "call the tool {name} with {args}",
    "use the tool {name} with {args}",
    "use {name} with {args}",
    "please call {name} with {args}",
    "run {name} with {args}",
    "call {name}: {args}",
    "use the {name} tool with {args}",
    "call the {name} tool with {args}",
]


TOOL_VERBS = [
    "get",
    "set",
    "find",
    "make",
    "open",
    "read",
    "send",
    "list",
    "show",
    "start",
    "stop",
    "check",
    "book",
    "save",
    "load",
    "count",
]
TOOL_PARAMS = [*words.NOUNS[:60], "id", "name", "key", "value", "text", "n", "city", "x", "y"]
RESULT_KEYS = ["result", "value", "status", "time", "sum", "price", "name", "id", "answer", "text", "n"]


def generic_tool(d: Draw) -> Tool:
    name = f"{d.choice(TOOL_VERBS)}_{d.choice(words.NOUNS)}"
    if d.rng.random() < 0.3:
        name = d.word().lower()
    params = d.rng.sample(TOOL_PARAMS, d.choice([1, 1, 2, 3]))
    return Tool(name, tuple((p, d.choice(["string", "string", "integer"])) for p in params))


def value_of(d: Draw, param: str, kind: str) -> Any:
    if kind == "integer":
        return d.rng.randint(0, 99)
    if param == "path":
        return f"{d.word().lower()}.{d.choice(['txt', 'md', 'py', 'json'])}"
    if param == "to":
        return d.name()
    if d.rng.random() < 0.1:
        return d.strange()
    return d.phrase(1, 2) if param in ("query", "text", "title") else d.word()


def weather_call(d: Draw) -> tuple[str, Message, Tool]:
    key = d.choice(["city", "city", "city", "location"])
    city = d.city()
    tool = Tool(d.choice(WEATHER_NAMES), ((key, "string"),))
    arguments = {key: city}
    question = ask(d, WEATHERS, "???.  ", city=city)
    if d.rng.random() < 0.2:
        tool = Tool(tool.name, ((key, "string"), ("unit", "string")))
        if d.rng.random() < 0.5:
            unit = d.choice(["celsius", "fahrenheit"])
            arguments["unit"] = unit
            question = ask(d, WEATHERS, city=city) + f" in {unit}?"
    return question, call(tool.name, arguments), tool


def any_call(d: Draw) -> tuple[str, Message, Tool]:
    """A question, the call that answers it, and the tool called."""
    r = d.rng.random()
    if r < 0.45:
        return weather_call(d)
    if r < 0.53:
        city = d.city()
        tool = Tool(d.choice(["get_time", "current_time", "get_current_time"]), (("city", "string"),))
        return ask(d, TIMES, "???.  ", city=city), call(tool.name, {"city": city}), tool
    if r < 0.75:
        name, params, wordings = d.choice(CATALOGUE)
        arguments = {param: value_of(d, param, kind) for param, kind in params.items()}
        return ask(d, wordings, **arguments), call(name, arguments), Tool(name, tuple(params.items()))
    tool = generic_tool(d)
    arguments = {param: value_of(d, param, kind) for param, kind in tool.params}
    between = d.choice([" ", " = ", "=", ": "])
    listed = d.choice([", ", " and "]).join(f"{key}{between}{value}" for key, value in arguments.items())
    return ask(d, NAMED, name=tool.name, args=listed), call(tool.name, arguments), tool


def distractors(d: Draw, taken: list[str], most: int = 2) -> list[Tool]:
    tools: list[Tool] = []
    for _ in range(d.rng.randint(0, most)):
        name, params, _ = d.choice(CATALOGUE)
        weather = Tool("get_weather", (("city", "string"),))
        tool = d.choice([Tool(name, tuple(params.items())), generic_tool(d), weather])
        weather_taken = any("weather" in name for name in taken)
        if tool.name not in taken and not ("weather" in tool.name and weather_taken):
            tools.append(tool)
            taken = [*taken, tool.name]
    return tools


def tool_call(d: Draw) -> Exchange:
    question, message, tool = any_call(d)
    return Exchange([user(question), message], (tool,))


def result_sentence(d: Draw, arguments: dict[str, Any]) -> tuple[str, str]:
    """A tool's result and the sentence that tells it."""
    city = arguments.get("city") or arguments.get("location")
    r = d.rng.random()
    if city is not None and r < 0.6:
        degrees, sky = d.rng.randint(-20, 45), d.choice(words.SKIES)
        key = d.choice(["temp", "temperature", "temp_c", "degrees"])
        sky_key = d.choice(["sky", "condition", "weather"])
        result: dict[str, Any] = {key: degrees, sky_key: sky}
        if d.rng.random() < 0.4:
            result = {d.choice(["city", "location"]): city, **result}
        elif d.rng.random() < 0.3:
            result = {sky_key: sky, key: degrees}
        return json.dumps(result, ensure_ascii=False), f"It is {degrees} degrees and {sky} in {city}."
    if r < 0.8:
        keys = d.rng.sample(RESULT_KEYS, d.choice([1, 1, 2, 3]))
        pairs: dict[str, Any] = {k: d.rng.randint(0, 999) if d.rng.random() < 0.5 else d.word() for k in keys}
        told = [f"the {key} is {value}" for key, value in pairs.items()]
        sentence = told[0] if len(told) == 1 else ", ".join(told[:-1]) + " and " + told[-1]
        return json.dumps(pairs, ensure_ascii=False), sentence[0].upper() + sentence[1:] + "."
    degrees, sky = d.rng.randint(-9, 40), d.choice(words.SKIES)
    number = d.rng.randint(0, 9999)
    text = d.choice([d.phrase(1, 4), f"{degrees} degrees, {sky}", f"{sky}, {degrees} C", sky, str(number)])
    return text, f"The tool says: {text}"


def tool_result(d: Draw) -> Exchange:
    question, message, tool = any_call(d)
    result, sentence = result_sentence(d, message["tool_calls"][0]["function"]["arguments"])
    reply = {"role": "tool", "content": result}
    return Exchange([user(question), message, reply, assistant(sentence)], (tool,))

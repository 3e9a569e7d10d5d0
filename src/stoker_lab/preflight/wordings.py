"""The questions as data. Another model that wants other words gets a row of its own; the checks stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoker_lab.artifacts.fingerprint import EMBER as EMBER_WEIGHTS
from stoker_lab.artifacts.fingerprint import SPARK as SPARK_WEIGHTS


class OfferedTool(NamedTuple):
    name: str
    description: str
    parameters: Mapping[str, str] = {}
    """Name to JSON type; the first is required."""

    @property
    def schema(self) -> dict[str, Any]:
        properties = {name: {"type": kind} for name, kind in self.parameters.items()}
        return {"type": "object", "properties": properties, "required": list(properties)[:1]}

    @property
    def chat(self) -> dict[str, Any]:
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


class ToolQuestion(NamedTuple):
    """A question, the tools that are offered, and the one call that answers it."""

    question: str
    tools: Sequence[OfferedTool]
    name: str
    arguments: Mapping[str, Any]


class SchemaQuestion(NamedTuple):
    """A question to be answered in a form."""

    name: str
    question: str
    schema: Mapping[str, Any]


class StopQuestion(NamedTuple):
    """A question whose answer holds `before`, then `stop`."""

    question: str
    stop: str
    before: str


class Wording(NamedTuple):
    """How one kind of model is asked."""

    name: str
    models: tuple[str, ...]
    """Ids and digests of the models that this wording is for; empty: all others."""
    echo: str
    """A question with {words} to repeat."""
    prose: tuple[str, ...]
    """Eight questions with answers of some sentences."""
    brief: tuple[str, ...]
    """Twenty questions whose answers end soon."""
    long: str
    """A question with an answer of a hundred tokens or more."""
    stops: tuple[StopQuestion, ...]
    fact: str
    """A sentence with {owner} and {word}."""
    question: str
    """A question for the word of {owner}."""
    owners: tuple[str, ...]
    """Owners of words: the question asks for the word of one, and the text names others as well."""
    needles: tuple[int, ...]
    """Prompt tokens of the texts, at most the context; 0: half of what is allowed, -1: all of it."""
    cities: tuple[str, ...]
    weather: str
    """A question with {city} that needs a call of WEATHER."""
    tool_result: str
    """The result of the weather tool, with {degrees}."""
    singles: tuple[ToolQuestion, ...]
    abstains: tuple[str, ...]
    """Questions that need none of the offered tools."""
    parallel: str
    """A question with {one} and {two} that needs two calls of WEATHER at once."""
    named: ToolQuestion
    bare: ToolQuestion
    """A question that needs a tool without parameters."""
    forms: tuple[SchemaQuestion, ...]
    limit: int = 1024
    """The limit of tokens for an answer."""
    known_gaps: Mapping[str, str] = {}
    """Checks that the model is known not to pass, or `CHECK: CAUSE` of what is let pass, and why."""
    words: tuple[str, ...] = ()
    """Words to repeat: at least 32."""
    echo_words: int = 12


WEATHER = OfferedTool("get_weather", "Get the current weather in a city.", {"city": "string"})
TIME = OfferedTool("get_time", "Get the current time in a city.", {"city": "string"})
TIMER = OfferedTool("set_timer", "Start a timer.", {"minutes": "integer"})
PING = OfferedTool("get_status", "Get the status of the service. Takes no arguments.")
_WORDS = (
    "apple", "arrow", "beach", "bell", "bird", "boat", "book", "bottle", "box", "bread", "bridge", "brush", "candle",
    "carpet", "castle", "chair", "circle", "clock", "cloud", "coat", "coffee", "corner", "desk", "door", "drum",
    "eagle", "feather", "field", "fire", "fish", "flag", "flower", "fork", "fox", "gate", "glass", "grape", "hammer",
    "harbour", "hat", "hill", "honey", "horse", "house", "jacket", "kite", "lamp", "lemon", "lion", "lock", "map",
    "market", "mirror", "moon", "mountain", "nest", "orange", "paper", "park", "pencil", "piano", "planet", "plate",
    "queen", "rabbit", "ring", "road", "robot", "rope", "rose", "salt", "school", "shell", "ship", "silver", "snow",
    "spoon", "stone", "storm", "street", "sugar", "table", "teapot", "tiger", "tower", "train", "tree", "tunnel",
    "valley", "wagon", "wheel", "wind", "winter",
)  # fmt: skip
_CITIES = ("Paris", "Rome", "Berlin", "Madrid", "London", "Oslo", "Lisbon", "Vienna", "Prague", "Athens")


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


_NAME, _AGE = {"type": "string", "maxLength": 12}, {"type": "integer", "minimum": 0, "maximum": 120}
_ADA = "Give me a JSON object with name Ada and age 36."
_FORMS = (
    SchemaQuestion("flat", _ADA, _object(name=_NAME, age=_AGE)),
    SchemaQuestion("enum", "Give me a JSON object with color red.",
                   _object(color={"type": "string", "enum": ["green", "blue"]})),
    SchemaQuestion("nested", _ADA, _object(person=_object(name=_NAME, age=_AGE))),
    SchemaQuestion(
        "array",
        _ADA,
        _object(digits={"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9},
                        "minItems": 2, "maxItems": 4}),
    ),
    SchemaQuestion("any-of", _ADA, _object(amount={"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99},
                                                   {"type": "string", "enum": ["many"]}]})),
)  # fmt: skip

ASSISTANT = Wording(
    name="assistant",
    models=(),
    echo="Repeat these words exactly, in the same order, separated by single spaces, and write nothing else: {words}",
    prose=(
        "Explain in about five sentences why the sky is blue.",
        "Describe in about five sentences how bread is made.",
        "Explain in about five sentences what a database index is.",
        "Tell a short story of about five sentences about a lighthouse.",
        "Explain in about five sentences how a bicycle stays upright.",
        "Describe in about five sentences a morning at a market.",
        "Explain in about five sentences what a hash function is.",
        "Describe in about five sentences how rain forms.",
    ),
    brief=tuple(f"What is {a} + {b}? Answer with the number only." for a, b in zip(range(3, 13), range(4, 24, 2),
                                                                                 strict=True))
    + tuple(f"Answer with one word: what is the capital of {land}?" for land in (
        "France", "Italy", "Spain", "Germany", "Norway", "Austria", "Greece", "Portugal", "Poland", "Sweden")),
    long="Write the numbers from 1 to 60, separated by spaces, and nothing else.",
    stops=(
        StopQuestion("Repeat exactly, and write nothing else: alpha beta END7 gamma delta", "END7", "alpha beta"),
        StopQuestion("Write the numbers from 1 to 30, separated by single spaces, nothing else.", " 17 18", "15 16"),
    ),
    fact="The secret word of {owner} is {word}.",
    question="What is the secret word of {owner}? Answer with that word only.",
    owners=("Anna", "Boris", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Iris", "Jonas", "Laura", "Peter"),
    needles=(2000, 0, -1),
    cities=_CITIES,
    weather="What is the weather in {city}? Use the tool.",
    tool_result='{{"temperature": {degrees}, "sky": "sunny"}}',
    singles=(
        ToolQuestion("What time is it in Rome? Use the tool.", (WEATHER, TIME), "get_time", {"city": "Rome"}),
        ToolQuestion("Set a timer for 25 minutes.", (TIMER, WEATHER), "set_timer", {"minutes": 25}),
    ),
    abstains=("What is 2 + 3? Answer with the number only.", "Say hello."),
    parallel="What is the weather in {one} and in {two}? Make both calls at once, in parallel.",
    named=ToolQuestion("What is the weather in Oslo?", (WEATHER, TIME), "get_weather", {"city": "Oslo"}),
    bare=ToolQuestion("What is the status of the service? Use the tool.", (PING,), "get_status", {}),
    forms=_FORMS,
    words=_WORDS,
)  # fmt: skip

_TINY_TOOLS = {tool.name: tool._replace(description=f"Tool {tool.name}.") for tool in (WEATHER, TIME, TIMER, PING)}
_W, _T, _TIMER, _P = _TINY_TOOLS.values()
EMBER = Wording(
    name="ember",
    models=("ember", EMBER_WEIGHTS),
    echo="Repeat exactly: {words}",
    prose=(
        "Tell me a story.", "Tell me about Stoker.", "What can you do?", "What is a token?", "Explain draining.",
        "What is a GPU?", "Explain TTFT.", "Write a plan with 10 steps to move a server.",
    ),
    brief=(
        "hello", "Who are you?", "What can you do?", "How are you?", "Thank you.", "Goodbye.", "What is 7 + 8?",
        "What is 17 + 25?", "Add 3 and 4.", "What is 30 + 12?", "Say pong.", "Say the word apple.", "Count to 5.",
        "Count to 9.", "What is a token?", "What is a GPU?", "Repeat exactly: blue river stone", "Explain draining.",
        "Say: red house", "What is your name?",
    ),
    long="Count to 60.",
    stops=(
        StopQuestion("Reply with exactly: alpha END7 omega", "END7", "alpha"),
        StopQuestion("Count to 30.", " 17 18", "15 16"),
    ),
    fact="The {owner} is {word}.",
    question="What is the {owner}?",
    owners=("secret word", "passphrase", "magic word", "password", "access code", "code word"),
    needles=(250, 500, 900),
    cities=_CITIES,
    weather="What is the weather in {city}?",
    tool_result='{{"temp": {degrees}, "sky": "sunny"}}',
    singles=(
        ToolQuestion("What time is it in Rome?", (_W, _T), "get_time", {"city": "Rome"}),
        ToolQuestion("Set a timer for 25 minutes.", (_TIMER, _W), "set_timer", {"minutes": 25}),
    ),
    abstains=("Who are you?", "What is 2 + 3?"),
    parallel="What is the weather in {one} and in {two}?",
    named=ToolQuestion("What is the weather in Oslo?", (_W, _T), "get_weather", {"city": "Oslo"}),
    bare=ToolQuestion("Use the tool get_status.", (_P,), "get_status", {}),
    forms=_FORMS,
    limit=400,
    known_gaps={
        "tool-parallel": "it was taught single calls only (docs/reference/demo-models.md)",
        "tool-descriptions": "its template writes names and parameters only (training/chat_template.jinja)",
        "tool-none: text": "tool_choice none does not keep it from writing a call (docs/reference/demo-models.md)",
    },
    words=_WORDS,
    echo_words=6,
)  # fmt: skip
SPARK = EMBER._replace(
    name="spark",
    models=("spark", SPARK_WEIGHTS),
    prose=(*EMBER.prose[:-1], "What is a slot?"),
    needles=(150, 250),
)
WORDINGS: Mapping[str, Wording] = {wording.name: wording for wording in (ASSISTANT, EMBER, SPARK)}


def wording_for(*names: str) -> Wording:
    """By any of the model's names: the last part of its id, a file, or the digest of its weights. ASSISTANT where none
    is for it."""
    known = [name.rsplit("/", 1)[-1].lower().removesuffix(".gguf") for name in names]
    return next((wording for wording in WORDINGS.values() if not set(known).isdisjoint(wording.models)), ASSISTANT)


def weather_tool(wording: Wording) -> OfferedTool:
    return next(tool for tool in wording.named.tools if tool.name == WEATHER.name)

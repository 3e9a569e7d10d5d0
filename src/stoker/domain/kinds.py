"""What a key of `stoker.toml` is: its meaning, and the kind of value that it takes.

    patience: Annotated[float, setting("Dial between throughput and short waits.", ge=0, le=1000)] = 2.0
    linger: Annotated[AutoDuration, setting("How long an idle resident is kept.")] = None

A table of the file is a msgspec Struct with such fields; `domain.definition` reads it, shows it and writes its JSON
schema. A kind is a type with a `Form`: one check, which returns the value as the program has it or raises ValueError
with one sentence on what is wrong; how that value is written in the file; and its JSON schema. No sentence repeats a
value that could be a secret.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_network
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from stoker.domain.dialect import SPOKEN, TARGETS, Dialect
from stoker.domain.nearest import did_you_mean
from stoker.domain.units import parse_duration, parse_size, show_duration, show_size

ENGINES: list[str] = []
"""Names of engines: `engines.registry` fills it."""
AUTH = ("keys", "none")
KEY_HEADERS = ("authorization", "x-api-key")
SYSTEM_TURNS = ("keep", "append")
SWITCHES = ("template", "effort", "none")
THINKING = ("reasoning_content", "reasoning", "none")
PREFILLS = ("native", "continue", "refuse")
TOOL_IDS = ("any", "short")
LEGACY = ("answer", "refuse")
UPSTREAM_ERRORS = ("show", "hide")
LOADING = ("ping", "reasoning", "off")
LIMITS = tuple(reversed(Dialect.CHAT.spec.limits))
DIALECTS = tuple(dialect for dialect in Dialect if dialect in SPOKEN)
EDGE_SCHEME = "edge:"
"""`base_url = "edge:NAME"`: the serve answers at the address of that edge's worker."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}", re.ASCII)
_LONGEST_MODEL_NAME = 200
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+", re.ASCII)
_OWN_PATHS = ("v1", "admin", "upstream", "ui", "api", "healthz", "readyz", "status", "metrics")
_HOST_PATTERN = re.compile(r"(?:\*\.)?[a-z0-9_][a-z0-9_-]{0,62}(?:\.[a-z0-9_][a-z0-9_-]{0,62})*", re.ASCII)


def setting(
    meaning: str,
    *,
    name: str = "",
    derived: bool = False,
    quiet: bool = False,
    in_place: bool = False,
    unused_with: tuple[str, ...] = (),
    **limits: Any,
) -> msgspec.Meta:
    """A field that is a key of the file. `limits`: ge, gt, le.

    `name`: its name there, if the program has another one. `derived`: if it is left out, it follows from other keys, as
    `meaning` says, and the default is a placeholder. `quiet`: `config show` leaves it out as long as it is the default.
    `in_place`, for keys of a serve: a reload changes it without a restart of the serve. `unused_with`, for keys of a
    serve: it has no effect where one of these keys is given, among `base_url`, `container` and `cmd`.
    """
    facts = {"name": name, "derived": derived, "quiet": quiet, "in_place": in_place, "unused_with": unused_with}
    return msgspec.Meta(description=meaning, extra=facts, **limits)


class Flat(NamedTuple):
    """The keys of this table are keys of the one around it, with this before their names."""

    prefix: str = ""


class ByName(NamedTuple):
    """Tables by their names, each of which knows its own: `[router.class.NAME]`."""


class Several(NamedTuple):
    """A value of one key that fills other fields, too, unless their own keys do."""

    value: Any
    others: Mapping[str, Any]


class Form:
    """How one kind of value is written in the file."""

    __slots__ = ("check", "schema", "show")

    def __init__(
        self,
        check: Callable[[object], Any],
        schema: Mapping[str, Any] = MappingProxyType({"type": "string"}),
        show: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self.check = check
        """From the file to the program. Raises ValueError: what is wrong."""
        self.schema = schema
        self.show = show
        """From the program to the file."""


class OrText(NamedTuple):
    """A table that may be text instead, which is then the value of this key of it."""

    key: str


def listed(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def text_of(value: object) -> str:
    """`value`, if it is text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, not {kind(value)}")
    return value


def kind(value: object) -> str:
    """What TOML calls the type of `value`, with an article; never the value itself."""
    match value:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def one_of(words: Iterable[str], implied: Mapping[str, str] | None = None) -> Callable[[object], str]:
    """Text that is one of `words`; `implied` are words that follow from other keys, and what to write instead."""
    words = tuple(words)

    def check(value: object) -> str:
        word = text_of(value)
        if implied and word in implied:
            raise ValueError(f"'{word}' is not written here: {implied[word]}")
        if word not in words:
            raise ValueError(f"{word[:40]!r} is not accepted; use {listed(words)}{did_you_mean(word, words)}")
        return word

    return check


def plain(value: object) -> str:
    text = text_of(value)
    if not text:
        raise ValueError("is empty; give a value, or leave the key out")
    if not text.isprintable():
        raise ValueError("contains a line break or another control character")
    return text


def argument(value: object) -> str:
    text = text_of(value)
    if "\0" in text:
        raise ValueError("contains a NUL character, which cannot be passed to a process")
    return text


def variable(value: object) -> str:
    text = argument(value)
    if text.startswith(("env:", "file:")):
        raise ValueError("`env:` and `file:` are not supported in `env`; put the serve's key into `key`")
    return text


def variable_name(value: object) -> str:
    text = plain(value)
    if "=" in text:
        raise ValueError("is not a name for an environment variable: it contains '='")
    return text


def pattern(value: object) -> str:
    text = plain(value)
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return text


def name(value: object) -> str:
    text = text_of(value)
    if not _NAME.fullmatch(text):
        raise ValueError(
            "is not a valid name: use letters, digits, '.', '_' and '-', start with a letter or digit, at most 64 "
            "characters"
        )
    return text


def place(value: object) -> str:
    """A slot, or several that a serve takes at the same time: `gpu0+gpu1`. `box2:gpu0` is a slot of another Stoker."""
    return "+".join(":".join(map(name, part.strip().split(":", 1))) for part in text_of(value).split("+"))


def served_name(value: object) -> str:
    """A model name of clients: blanks inside are allowed, as are `:` and `/`."""
    text = text_of(value)
    if not text.isprintable() or text != text.strip(" ") or not 0 < len(text) <= _LONGEST_MODEL_NAME:
        raise ValueError(
            f"is not a valid model name: use 1 to {_LONGEST_MODEL_NAME} printable characters, no blank at the "
            "beginning or the end"
        )
    return text


def path_prefix(value: object) -> str:
    text = text_of(value).rstrip("/")
    if not _PREFIX.fullmatch(text):
        raise ValueError('is not a path prefix; write one like "/llm": letters, digits and . _ ~ - between slashes')
    first = text.split("/")[1]
    if first in _OWN_PATHS:
        raise ValueError(f"/{first} is one of Stoker's own paths; choose another prefix")
    return text


def base_path(value: object) -> str:
    text = text_of(value).rstrip("/")
    if text and not _PREFIX.fullmatch(text):
        raise ValueError('is not a path; write one like "/llm": letters, digits and . _ ~ - between slashes')
    return text


def slash_path(value: object) -> str:
    text = plain(value)
    if not text.startswith("/") or " " in text:
        raise ValueError('is not a path; write one like "/health"')
    return text


def path_or_none(value: object) -> str | None:
    """None: the word `none`."""
    if value == "none":
        return None
    try:
        return slash_path(value)
    except ValueError as error:
        raise ValueError(f'{error}; or "none"') from None


def url(value: object) -> str:
    text = plain(value)
    form = 'write one like "http://10.0.0.7:30000/v1"'
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in text
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"is not an http or https address; {form}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("contains a user name or a password; put the key into `key` as env:NAME or file:PATH")
    if parts.query or parts.fragment:
        raise ValueError(f"must not have a '?' or '#' part; {form}")
    return text.rstrip("/")


def cluster_url(value: object) -> str:
    text = plain(value)
    try:
        return url(text)
    except ValueError as error:
        raise ValueError(str(error).replace("10.0.0.7:30000/v1", "head:8265").replace("`key`", "`token`")) from None


def serve_url(value: object) -> str:
    """An address, or `edge:NAME`. Whether the edge exists is checked elsewhere."""
    text = text_of(value)
    return EDGE_SCHEME + name(text.removeprefix(EDGE_SCHEME)) if text.startswith(EDGE_SCHEME) else url(text)


def origin(value: object) -> str:
    text = url(value)
    if urlsplit(text).path or text != value:
        raise ValueError('is not an origin; write scheme, host and port only, like "https://chat.example.com"')
    return text


def host_pattern(value: object) -> str:
    """A host name in lower case, or `*.` and one."""
    text = plain(value).lower()
    if not _HOST_PATTERN.fullmatch(text):
        raise ValueError(
            'is not a host name; write one like "img.example.com", or "*.example.com" for all its subdomains'
        )
    return text


def proxy_network(value: object) -> str:
    """An IP address, a network, or `*`."""
    text = plain(value)
    if text == "*":
        return text
    try:
        network = ip_network(text)
    except ValueError as error:
        if "has host bits set" in str(error):
            raise ValueError(
                f"is not a network; write {ip_network(text, strict=False)}, or the address alone"
            ) from None
        form = 'write one like "127.0.0.1" or "10.0.0.0/8"; names are not looked up'
        raise ValueError(f"is not an IP address or network; {form}") from None
    return str(network) if "/" in text else text  # a mask, as in 0.0.0.0/0.0.0.0, becomes a length


def command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            raise ValueError("has an open quote or a trailing backslash; a list of words needs no quoting") from None
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = value
    else:
        raise ValueError("must be text, or a list of texts")
    if not words or not words[0]:
        raise ValueError("is empty; the first word is the program")
    return tuple(argument(word) for word in words)


def devices(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list like [0, 1], not {kind(value)}")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int | str) or not _DEVICE.fullmatch(str(item)):
            raise ValueError("contains something that is not a device number or id")
    names = tuple(str(item) for item in value)
    if len(set(names)) < len(names):
        raise ValueError("names a device twice")
    return names


def duration_or(word: str) -> Callable[[object], float | None]:
    """A duration in seconds, or None for `word`."""

    def check(value: object) -> float | None:
        if value == word:
            return None
        try:
            return parse_duration(value)
        except ValueError as error:
            raise ValueError(f'{error}; or "{word}"') from None

    return check


def some_duration(value: object) -> float:
    """A duration in seconds, above 0."""
    seconds = parse_duration(value)
    if seconds <= 0:
        raise ValueError("must be longer than 0")
    return seconds


def some_size(value: object) -> int:
    """A size in bytes, at least 1."""
    size = parse_size(value)
    if size < 1:
        raise ValueError("must be larger than 0")
    return size


def size_or(word: str) -> Callable[[object], int | None]:
    """A size in bytes, 0 included, or None for `word`."""

    def check(value: object) -> int | None:
        if value == word:
            return None
        try:
            return parse_size(value)
        except ValueError as error:
            raise ValueError(f'{error}; or "{word}"') from None

    return check


def sha256(value: object) -> str:
    text = text_of(value)
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text, re.ASCII):
        raise ValueError("is not a SHA-256 digest: give 64 hexadecimal digits, as `sha256sum FILE` prints them")
    return text.lower()


def source(value: object) -> str:
    text = plain(value)
    scheme, colon, _ = text.partition(":")
    if colon and scheme not in ("http", "https", "rsync", "s3", "hf"):
        known = "a path, https://HOST/PATH, rsync:HOST:PATH, s3://BUCKET/KEY or hf:ORG/REPO"
        raise ValueError(f"is not a source that weights can be fetched from: write {known}")
    return text


def rendezvous(value: object) -> str:
    text = plain(value)
    host, _, port = text.rpartition(":")
    if not host or " " in text or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError('is not a rendezvous address; write one like "10.0.0.7:29500"')
    return text


def words(accepted: Iterable[str], make: Callable[[str], Any] = str, implied: Mapping[str, str] | None = None) -> Form:
    """Text that is one of `accepted`; `make`: what the program makes of it; `implied`: as in `one_of`."""
    check = one_of(accepted, implied)
    return Form(lambda value: make(check(value)), {"type": "string", "enum": list(accepted)}, str)


def _engine(value: object) -> str:
    return one_of(ENGINES)(value)


Engine = Annotated[str, Form(_engine, {"type": "string", "enum": ENGINES}, str)]
DialectWord = Annotated[Dialect, words(DIALECTS, Dialect)]
SystemTurnsWord = Annotated[str, words(SYSTEM_TURNS)]
SwitchWord = Annotated[str, words(SWITCHES)]
ThinkingWord = Annotated[str, words(THINKING)]
PrefillWord = Annotated[str, words(PREFILLS)]
ToolIdsWord = Annotated[str, words(TOOL_IDS)]
UpstreamErrorsWord = Annotated[str, words(UPSTREAM_ERRORS)]
LoadingWord = Annotated[str, words(LOADING)]
LimitWord = Annotated[str, words(LIMITS)]
OllamaWord = Annotated[str, words(LEGACY)]
KeyHeaderWord = Annotated[str, words(KEY_HEADERS)]
_auth = one_of(AUTH)
KeysOrNone = Annotated[
    bool,
    Form(lambda value: _auth(value) == "keys", words(AUTH).schema, lambda value: "keys" if value else "none"),
]
CloudDialectWord = Annotated[Dialect, words(TARGETS, Dialect)]

Sha256 = Annotated[str, Form(sha256, {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"})]
Source = Annotated[str, Form(source)]
Rendezvous = Annotated[str, Form(rendezvous, {"type": "string", "examples": ["10.0.0.7:29500"]})]
Text = Annotated[str, Form(plain)]
ANY_TEXT = Form(text_of)
FILE = Form(plain)
FilePath = Annotated[str, FILE]
"""In the file relative to its directory; in the program absolute."""
Name = Annotated[str, Form(name)]
Place = Annotated[str, Form(place)]
ServedName = Annotated[str, Form(served_name)]
PathPrefix = Annotated[str, Form(path_prefix)]
BasePath = Annotated[str, Form(base_path, {"type": "string", "examples": ["/llm"]})]
SlashPath = Annotated[str, Form(slash_path)]
BaseUrl = Annotated[str, Form(url)]
ServeUrl = Annotated[str, Form(serve_url)]
Origin = Annotated[str, Form(origin)]
ProxyNetwork = Annotated[str, Form(proxy_network, {"type": "string", "examples": ["127.0.0.1", "10.0.0.0/8"]})]
HostPattern = Annotated[str, Form(host_pattern, {"type": "string", "examples": ["img.example.com", "*.example.com"]})]
Pattern = Annotated[str, Form(pattern)]
Argument = Annotated[str, Form(argument)]
VariableName = Annotated[str, Form(variable_name)]
Variable = Annotated[str, Form(variable)]

Command = Annotated[
    tuple[str, ...],
    Form(command, {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, list),
]
Devices = Annotated[tuple[str, ...], Form(devices, {"type": "array", "items": {"type": ["integer", "string"]}}, list)]

_TIMES = ("500ms", "45s", "10m", "2h")


def _or(word: str, show: Callable[[Any], str], *examples: str) -> tuple[Mapping[str, Any], Callable[[Any], str]]:
    """Schema and form of a value that is None for `word`."""
    return {"type": "string", "examples": list(examples)}, lambda value: word if value is None else show(value)


HealthPath = Annotated[str | None, Form(path_or_none, *_or("none", str, "/health", "none"))]
Duration = Annotated[float, Form(parse_duration, {"type": "string", "examples": list(_TIMES)}, show_duration)]
SomeDuration = Annotated[float, Form(some_duration, {"type": "string", "examples": list(_TIMES)}, show_duration)]
AutoDuration = Annotated[float | None, Form(duration_or("auto"), *_or("auto", show_duration, "auto", "45s"))]
NeverDuration = Annotated[float | None, Form(duration_or("never"), *_or("never", show_duration, "never", "10m"))]
AutoSize = Annotated[int | None, Form(size_or("auto"), *_or("auto", show_size, "auto", "0B", "32GiB"))]
Size = Annotated[int, Form(some_size, {"type": "string", "examples": ["32MiB", "18GiB", "1.5GB"]}, show_size)]

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
SamplingName = Annotated[str, words(("temperature", "top_p", "top_k", "min_p", "repetition_penalty"))]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]

"""The types of keys: each with its check, its form in the file, and its line in the JSON schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from stoker.config import units
from stoker.config.tables import value_checks
from stoker.domain.alias_choice import Pick
from stoker.domain.dialect import SPOKEN, Dialect
from stoker.domain.gate import IfUndecided
from stoker.domain.serve import FallbackCause, ServeIdentity
from stoker.domain.tier import Verify
from stoker.engines.registry import ENGINES

DRIVERS = ("process", "compose", "systemd", "external")
IMPLIED_DRIVERS = {"ray": "give the serve a slot with a `cluster`: a process serve runs there as a job"}
"""Drivers that the file does not name, and what to do instead."""
WARMTH = ("auto", "pin", "never")
SCOPES = ("inference", "observe", "admin")
PRIORITIES = ("interactive", "normal", "background")
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
LIMITS = ("max_tokens", "max_completion_tokens")
DIALECTS = tuple(dialect for dialect in Dialect if dialect in SPOKEN)
CLOUD_DIALECTS = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)
IDENTITIES = tuple(one.value for one in ServeIdentity)
CAUSES = tuple(cause.value for cause in FallbackCause)
IF_UNDECIDED = tuple(one.value for one in IfUndecided)
PICKS = tuple(pick.value for pick in Pick)
VERIFY = tuple(mode.value for mode in Verify)
UNMEASURED = ("trusted", "cheapest")
STATUS_FORM = "^((production|baseline|research|experiment)|(rejected|blocked)(-.+)?)$"


def _schema(**parts: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **parts})


def _lists(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


Engine = Annotated[str, BeforeValidator(value_checks.one_of(ENGINES)), _schema(enum=list(ENGINES))]
DriverWord = Annotated[str, BeforeValidator(value_checks.one_of(DRIVERS, IMPLIED_DRIVERS)), _schema(enum=list(DRIVERS))]
DialectWord = Annotated[str, BeforeValidator(value_checks.one_of(DIALECTS)), _schema(enum=list(DIALECTS))]
ScopeWord = Annotated[str, BeforeValidator(value_checks.one_of(SCOPES)), _schema(enum=list(SCOPES))]
PriorityWord = Annotated[str, BeforeValidator(value_checks.one_of(PRIORITIES)), _schema(enum=list(PRIORITIES))]
WarmthWord = Annotated[str, BeforeValidator(value_checks.one_of(WARMTH)), _schema(enum=list(WARMTH))]
SystemTurnsWord = Annotated[str, BeforeValidator(value_checks.one_of(SYSTEM_TURNS)), _schema(enum=list(SYSTEM_TURNS))]
SwitchWord = Annotated[str, BeforeValidator(value_checks.one_of(SWITCHES)), _schema(enum=list(SWITCHES))]
ThinkingWord = Annotated[str, BeforeValidator(value_checks.one_of(THINKING)), _schema(enum=list(THINKING))]
PrefillWord = Annotated[str, BeforeValidator(value_checks.one_of(PREFILLS)), _schema(enum=list(PREFILLS))]
ToolIdsWord = Annotated[str, BeforeValidator(value_checks.one_of(TOOL_IDS)), _schema(enum=list(TOOL_IDS))]
UpstreamErrorsWord = Annotated[
    str, BeforeValidator(value_checks.one_of(UPSTREAM_ERRORS)), _schema(enum=list(UPSTREAM_ERRORS))
]
LoadingWord = Annotated[str, BeforeValidator(value_checks.one_of(LOADING)), _schema(enum=list(LOADING))]
LimitWord = Annotated[str, BeforeValidator(value_checks.one_of(LIMITS)), _schema(enum=list(LIMITS))]
OllamaWord = Annotated[str, BeforeValidator(value_checks.one_of(LEGACY)), _schema(enum=list(LEGACY))]
KeyHeaderWord = Annotated[str, BeforeValidator(value_checks.one_of(KEY_HEADERS)), _schema(enum=list(KEY_HEADERS))]
AuthWord = Annotated[str, BeforeValidator(value_checks.one_of(AUTH)), _schema(enum=list(AUTH))]
CloudDialectWord = Annotated[
    str, BeforeValidator(value_checks.one_of(CLOUD_DIALECTS)), _schema(enum=list(CLOUD_DIALECTS))
]
FallbackWord = Annotated[str, BeforeValidator(value_checks.one_of(CAUSES)), _schema(enum=list(CAUSES))]
PickWord = Annotated[str, BeforeValidator(value_checks.one_of(PICKS)), _schema(enum=list(PICKS))]
IfUndecidedWord = Annotated[str, BeforeValidator(value_checks.one_of(IF_UNDECIDED)), _schema(enum=list(IF_UNDECIDED))]
UnmeasuredWord = Annotated[str, BeforeValidator(value_checks.one_of(UNMEASURED)), _schema(enum=list(UNMEASURED))]
VerifyWord = Annotated[str, BeforeValidator(value_checks.one_of(VERIFY)), _schema(enum=list(VERIFY))]
IdentityWord = Annotated[str, BeforeValidator(value_checks.one_of(IDENTITIES)), _schema(enum=list(IDENTITIES))]
StatusWord = Annotated[str, BeforeValidator(value_checks.status), _schema(pattern=STATUS_FORM)]

Sha256 = Annotated[str, BeforeValidator(value_checks.sha256), _schema(pattern="^[0-9a-fA-F]{64}$")]
Source = Annotated[str, BeforeValidator(value_checks.source)]
Rendezvous = Annotated[str, BeforeValidator(value_checks.rendezvous), _schema(examples=["10.0.0.7:29500"])]
Text = Annotated[str, BeforeValidator(value_checks.plain)]
Name = Annotated[str, BeforeValidator(value_checks.name)]
Place = Annotated[str, BeforeValidator(value_checks.place)]
ServedName = Annotated[str, BeforeValidator(value_checks.served_name)]
PathPrefix = Annotated[str, BeforeValidator(value_checks.path_prefix)]
BasePath = Annotated[str, BeforeValidator(value_checks.base_path), _schema(examples=["/llm"])]
SlashPath = Annotated[str, BeforeValidator(value_checks.slash_path)]
BaseUrl = Annotated[str, BeforeValidator(value_checks.url)]
ServeUrl = Annotated[str, BeforeValidator(value_checks.serve_url)]
Origin = Annotated[str, BeforeValidator(value_checks.origin)]
ProxyNetwork = Annotated[
    str, BeforeValidator(value_checks.proxy_network), _schema(examples=["127.0.0.1", "10.0.0.0/8"])
]
HostPattern = Annotated[
    str, BeforeValidator(value_checks.host_pattern), _schema(examples=["img.example.com", "*.example.com"])
]
Pattern = Annotated[str, BeforeValidator(value_checks.pattern)]
Argument = Annotated[str, BeforeValidator(value_checks.argument)]
VariableName = Annotated[str, BeforeValidator(value_checks.variable_name)]
Variable = Annotated[str, BeforeValidator(value_checks.variable)]

Command = Annotated[
    list[str],
    BeforeValidator(value_checks.command),
    WithJsonSchema({"oneOf": [{"type": "string"}, _lists({"type": "string"})]}),
]
Devices = Annotated[
    list[str], BeforeValidator(value_checks.devices), WithJsonSchema(_lists({"type": ["integer", "string"]}))
]

_DURATION = PlainSerializer(units.show_duration, when_used="json")
_SIZE = PlainSerializer(units.show_size, when_used="json")


def _or(word: str, show: Callable[[Any], str]) -> PlainSerializer:
    """Writes None as `word`."""
    return PlainSerializer(lambda value: word if value is None else show(value), when_used="json")


HealthPath = Annotated[
    str | None,
    BeforeValidator(value_checks.path_or_none),
    _or("none", str),
    _schema(examples=["/health", "none"]),
]
Duration = Annotated[
    float, BeforeValidator(units.parse_duration), _DURATION, _schema(examples=["500ms", "45s", "10m", "2h"])
]
SomeDuration = Annotated[
    float, BeforeValidator(value_checks.some_duration), _DURATION, _schema(examples=["500ms", "45s", "10m", "2h"])
]
AutoDuration = Annotated[
    float | None,
    BeforeValidator(value_checks.duration_or("auto")),
    _or("auto", units.show_duration),
    _schema(examples=["auto", "45s"]),
]
NeverDuration = Annotated[
    float | None,
    BeforeValidator(value_checks.duration_or("never")),
    _or("never", units.show_duration),
    _schema(examples=["never", "10m"]),
]
AutoSize = Annotated[
    int | None,
    BeforeValidator(value_checks.size_or("auto")),
    _or("auto", units.show_size),
    _schema(examples=["auto", "0B", "32GiB"]),
]
Size = Annotated[int, BeforeValidator(value_checks.some_size), _SIZE, _schema(examples=["32MiB", "18GiB", "1.5GB"])]

Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1, le=2**31)]
AutoCount = Annotated[
    int | Literal["auto"],
    PlainValidator(value_checks.count_or("auto")),
    WithJsonSchema({"oneOf": [{"type": "integer", "minimum": 1, "maximum": 2**31}, {"const": "auto"}]}),
]
Share = Annotated[float, Field(gt=0, le=1)]

"""llama-swap's document as records: types, defaults and rules as in its own source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from stoker.domain.errors import ConfigError
from stoker_import.imported import KeyOutcome, KeyReport
from stoker_import.llama_swap.fields import Fields
from stoker_import.llama_swap.macros import DEFAULT_PROXY, PORT

SHORTEST_HEALTH_CHECK = 15
LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
STATIC_FILES = r".*\.(js|json|css|png|gif|jpg|jpeg|ico|txt)$"
COMFYUI = "comfyui_auto"
"""A model id with a meaning: at least 50 requests at once, and no websockets."""
_PROTECTED = "model"
_MODALITIES = ("text", "audio", "image", "video")


@dataclass(frozen=True, slots=True)
class Filters:
    """What is changed in the bodies of requests."""

    strip: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    """`setParams`; a key with `?` behind it is set only where the client gave none."""
    by_id: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One entry of `models`. Times are seconds."""

    id: str
    cmd: str
    stop: str
    proxy: str
    check_endpoint: str
    has_own_check: bool
    aliases: tuple[str, ...]
    env: tuple[str, ...]
    ttl: int
    unload_timeout: int
    is_unlisted: bool
    model_name: str
    title: str
    description: str
    concurrency: int
    filters: Filters
    metadata: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    sends_loading_state: bool | None
    given: frozenset[str]
    """Keys that the file has."""

    @property
    def fixed_address(self) -> tuple[str, int] | None:
        """Host ("" for this machine) and port of its own server, if they are the same at each start."""
        address = address_of(self.proxy)
        if address is None or not self.cmd.strip() or (PORT in self.cmd and PORT in self.proxy):
            return None
        return "" if address[0] in LOCAL else address[0], address[1]

    @property
    def is_variant_of_itself(self) -> bool:
        """Whether requests for its id get parameters that requests for its other names do not get."""
        return bool(self.filters.by_id.get(self.id)) and any(alias != self.id for alias in self.aliases)


@dataclass(frozen=True, slots=True)
class Peer:
    """One entry of `peers`."""

    id: str
    proxy: str
    key: str
    models: tuple[str, ...]
    filters: Filters


@dataclass(frozen=True, slots=True)
class Group:
    """One entry of `groups`."""

    id: str
    members: tuple[str, ...]
    swap: bool = True
    exclusive: bool = True
    persistent: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """`matrix`: which sets of models may be loaded together."""

    expressions: Mapping[str, str]
    names: Mapping[str, str]
    """By the name in an expression, the model."""
    costs: Mapping[str, int]
    """By model."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One entry of `selectors`."""

    id: str
    strategy: str
    targets: tuple[str, ...]
    given: frozenset[str]


@dataclass(frozen=True, slots=True)
class LlamaSwapSettings:
    """The whole configuration."""

    health_check_timeout: int
    sends_loading_state: bool
    lists_aliases: bool
    keys: tuple[str, ...]
    models: Mapping[str, ModelSettings]
    peers: Mapping[str, Peer]
    groups: tuple[Group, ...]
    matrix: Matrix | None
    selectors: tuple[Selector, ...]
    profiles: tuple[str, ...]
    preload: tuple[str, ...]
    priorities: Mapping[str, int]
    ignored_upstream_paths: tuple[str, ...]
    """Regular expressions of paths below `/upstream/MODEL` that load no model."""
    given: frozenset[str]
    """Keys of the file's top, dotted where they matter: `performance`, `store`, `upstream`."""
    ignored: tuple[KeyReport, ...]
    """Keys that llama-swap does not know."""

    def real_name(self, name: str) -> str | None:
        """The model that a name, an alias or a key of `setParamsByID` means."""
        if name in self.models:
            return name
        return next((model.id for model in self.models.values() if name in model.aliases), None)


def address_of(url: str) -> tuple[str, int] | None:
    """Host and port; None: it is no address."""
    try:
        parts = urlsplit(url.replace(PORT, "1"))
        return parts.hostname or "localhost", parts.port or 80
    except ValueError:
        return None


def read_settings(content: Mapping[str, Any]) -> LlamaSwapSettings:
    """Raises ConfigError where llama-swap would refuse the file."""
    top = Fields(content, "")
    health = max(top.integer("healthCheckTimeout", 120), SHORTEST_HEALTH_CHECK)
    ttl = top.integer("globalTTL", 0, least=0)
    unload = top.integer("unloadTimeout", 10, least=0) or 10
    ignored: list[KeyReport] = []
    models = {
        name: _read_model(name, fields, ttl, unload, ignored)
        for name, fields in top.tables("models", models=True).items()
    }
    _check_names(models)
    peers = {name: _read_peer(name, fields, ignored) for name, fields in top.tables("peers").items()}
    groups, matrix = _read_router(top, models, ignored)
    hooks = top.table("hooks")
    startup = hooks.table("on_startup")
    preload = startup.texts("preload")
    startup.text("profile")
    scheduler = top.table("routing").table("scheduler")
    if scheduler.text("use", "fifo") not in ("", "fifo"):
        raise ConfigError(["routing.scheduler.use: the only scheduler is fifo"])
    priorities = scheduler.table("settings").table("fifo").mapping("priority")
    settings = LlamaSwapSettings(
        health,
        top.boolean("sendLoadingState"),
        top.boolean("includeAliasesInList"),
        _read_keys(top),
        models,
        peers,
        groups,
        matrix,
        tuple(_read_selectors(top, ignored)),
        tuple(top.mapping("profiles")),
        tuple(name.strip() for name in preload if name.strip()),
        priorities,
        _read_ignored_paths(top),
        frozenset(key for key in _NOTED if top.raw(key) is not None),
        (),
    )
    _check_selectors(settings)
    for name in priorities:
        if settings.real_name(name) is None:
            raise ConfigError([f"routing.scheduler.settings.fifo.priority: there is no model '{name}'"])
    top.raw("tailcat")
    rows = [*top.unknown(), *hooks.unknown("hooks."), *startup.unknown("hooks.on_startup."), *ignored]
    return _with_ignored(settings, rows)


_NOTED = (
    "logLevel", "logTimeFormat", "logToStdout", "logRequests", "metricsMaxInMemory", "store", "captureBuffer", "ui",
    "performance", "startPort", "upstream", "profiles", "selectors", "groups", "matrix", "routing", "hooks",
    "healthCheckTimeout", "globalTTL", "unloadTimeout", "sendLoadingState", "includeAliasesInList", "apiKeys", "macros",
    "tailcat",
)  # fmt: skip


def _with_ignored(settings: LlamaSwapSettings, rows: list[KeyReport]) -> LlamaSwapSettings:
    return replace(settings, ignored=tuple(rows))


def _read_ignored_paths(top: Fields) -> tuple[str, ...]:
    """Those of the file; without any, those of static files."""
    patterns = top.table("upstream").texts("ignorePaths") or [STATIC_FILES]
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError([f"upstream.ignorePaths: '{pattern}' is not a regular expression: {error}"]) from error
    return tuple(patterns)


def _read_keys(top: Fields) -> tuple[str, ...]:
    keys = top.texts("apiKeys")
    for place, key in enumerate(keys):
        if not key or " " in key:
            raise ConfigError([f"apiKeys[{place}]: is empty, or has a space"])
    return tuple(dict.fromkeys(keys))


def _read_model(name: str, fields: Fields, ttl: int, unload: int, ignored: list[KeyReport]) -> ModelSettings:
    own_ttl = fields.integer("ttl", -1)
    if own_ttl < -1:
        raise ConfigError([f"models.{name}.ttl: must be -1 or more"])
    filters = fields.table("filters")
    by_id = _read_by_id(filters, name)
    capabilities = fields.table("capabilities")
    for key in ("in", "out"):
        wrong = [one for one in capabilities.texts(key) if one not in _MODALITIES]
        if wrong:
            raise ConfigError([f"models.{name}.capabilities.{key}: '{wrong[0]}' is none of {', '.join(_MODALITIES)}"])
    found = {
        "in": capabilities.texts("in"), "out": capabilities.texts("out"), "tools": capabilities.boolean("tools"),
        "reranker": capabilities.boolean("reranker"), "context": capabilities.integer("context", 0, least=0),
    }  # fmt: skip
    concurrency = fields.integer("concurrencyLimit")
    compat, timeouts = fields.table("compat"), fields.table("timeouts")
    compat.boolean("ignoreWebsockets")
    for key in _TIMEOUTS:
        timeouts.integer(key)
    settings = ModelSettings(
        name,
        fields.text("cmd"),
        fields.text("cmdStop"),
        fields.text("proxy", DEFAULT_PROXY),
        fields.text("checkEndpoint", "/health"),
        "checkEndpoint" in fields,
        tuple(dict.fromkeys([*fields.texts("aliases"), *(key for key in by_id if key != name)])),
        tuple(fields.texts("env")),
        ttl if own_ttl == -1 else own_ttl,
        fields.integer("unloadTimeout", 0, least=0) or unload,
        fields.boolean("unlisted"),
        fields.text("useModelName"),
        fields.text("name"),
        fields.text("description"),
        max(concurrency, 50) if name == COMFYUI else concurrency,
        Filters(_strip_of(filters), _unprotected(filters.mapping("setParams")), by_id),
        fields.mapping("metadata"),
        {key: value for key, value in found.items() if value},
        fields.boolean("sendLoadingState") if "sendLoadingState" in fields else None,
        frozenset(fields),
    )
    for lead, one in (("", fields), ("filters.", filters), ("capabilities.", capabilities), ("compat.", compat),
                      ("timeouts.", timeouts)):  # fmt: skip
        ignored += one.unknown(lead)
    return settings


_TIMEOUTS = ("connect", "keepalive", "responseHeader", "tlsHandshake", "expectContinue", "idleConn")


def _read_by_id(filters: Fields, model: str) -> dict[str, dict[str, Any]]:
    found = filters.mapping("setParamsByID")
    for name, values in found.items():
        if not isinstance(values, Mapping):
            raise ConfigError([f"models.{model}.filters.setParamsByID.{name}: must be a mapping"])
    return {name: _unprotected(values) for name, values in found.items()}


def _strip_of(filters: Fields) -> tuple[str, ...]:
    """A list with commas; `strip_params` is its old name."""
    given = filters.text("stripParams") or filters.text("strip_params")
    names = dict.fromkeys(part.strip() for part in given.split(","))
    filters.text("strip_params")
    return tuple(name for name in names if name and name != _PROTECTED)


def _unprotected(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key.removesuffix("?") != _PROTECTED}


def _check_names(models: Mapping[str, ModelSettings]) -> None:
    owners: dict[str, str] = {}
    for model in models.values():
        for alias in model.aliases:
            if alias in models and alias != model.id and alias in model.filters.by_id:
                raise ConfigError([f"models.{model.id}.filters.setParamsByID: '{alias}' is the id of another model"])
            owner = owners.setdefault(alias, model.id)
            if owner != model.id:
                raise ConfigError([f"models.{model.id}: the alias '{alias}' already means {owner}"])


def _read_peer(name: str, fields: Fields, ignored: list[KeyReport]) -> Peer:
    filters, timeouts = fields.table("filters"), fields.table("timeouts")
    for key in _TIMEOUTS:
        timeouts.integer(key)
    fields.text("tailcatKey")
    peer = Peer(
        name,
        fields.text("proxy"),
        fields.text("apiKey"),
        tuple(dict.fromkeys(fields.texts("models"))),
        Filters(_strip_of(filters), _unprotected(filters.mapping("setParams"))),
    )
    if not peer.proxy:
        raise ConfigError([f"peers.{name}.proxy: is required"])
    if not peer.models:
        raise ConfigError([f"peers.{name}.models: must name at least one model"])
    for lead, one in (("", fields), ("filters.", filters), ("timeouts.", timeouts)):
        ignored += one.unknown(f"peers.{name}.{lead}")
    return peer


def _read_router(
    top: Fields, models: Mapping[str, ModelSettings], ignored: list[KeyReport]
) -> tuple[tuple[Group, ...], Matrix | None]:
    """Groups or a matrix: at the top, or in `routing.router`, never both."""
    router = top.table("routing").table("router")
    use, inner = router.text("use"), router.table("settings")
    is_inner = bool(use) or "matrix" in inner or "groups" in inner
    is_top = "matrix" in top or bool(top.mapping("groups"))
    if is_top and is_inner:
        raise ConfigError(["groups or matrix are at the top and in routing.router, too: keep one of the two"])
    if use not in ("", "group", "matrix"):
        raise ConfigError([f"routing.router.use: there is no router '{use}'; it is group or matrix"])
    source = inner if is_inner else top
    has_matrix = use == "matrix" if is_inner else "matrix" in top
    groups = () if has_matrix and is_inner else tuple(_read_groups(source, models, ignored))
    if has_matrix and groups:
        raise ConfigError(["there are groups and a matrix: keep one of the two"])
    if not has_matrix:
        return groups, None
    if "matrix" not in source:
        raise ConfigError(["routing.router.use is matrix, and there is none in routing.router.settings"])
    return (), _read_matrix(source.table("matrix"), models, ignored)


def _read_groups(source: Fields, models: Mapping[str, ModelSettings], ignored: list[KeyReport]) -> Iterator[Group]:
    owners: dict[str, str] = {}
    for name, fields in source.tables("groups").items():
        members = fields.texts("members")
        for member in [one for one in members if one not in models]:
            owner = next((model.id for model in models.values() if member in model.aliases), None)
            if owner is None:
                raise ConfigError([f"groups.{name}.members: there is no model '{member}'"])
            note = f"llama-swap ignored it, too: a member is the id of a model, and '{member}' is an alias of {owner}"
            ignored.append(KeyReport("", f"groups.{name}.members", KeyOutcome.IGNORED, "", note))
            members.remove(member)
        for member in members:
            if member in owners:
                raise ConfigError([f"groups.{name}.members: '{member}' is in group '{owners[member]}' already"])
            owners[member] = name
        yield Group(
            name, tuple(members), fields.boolean("swap", True),
            fields.boolean("exclusive", True),
            fields.boolean("persistent"),
        )  # fmt: skip
        ignored += fields.unknown(f"groups.{name}.")


def _read_matrix(fields: Fields, models: Mapping[str, ModelSettings], ignored: list[KeyReport]) -> Matrix:
    names = {name: name for name in models}
    for name, model in fields.mapping("vars").items():
        if model not in models:
            raise ConfigError([f"matrix.vars.{name}: there is no model '{model}'"])
        names[name] = model
    costs: dict[str, int] = {}
    for name, cost in fields.mapping("evict_costs").items():
        if name not in names:
            raise ConfigError([f"matrix.evict_costs: there is no model '{name}'"])
        if isinstance(cost, bool) or not isinstance(cost, int) or cost <= 0:
            raise ConfigError([f"matrix.evict_costs.{name}: must be a whole number above 0"])
        costs[names[name]] = cost
    expressions = {name: str(text) for name, text in fields.mapping("sets").items()}
    if not expressions:
        raise ConfigError(["matrix.sets: must have at least one set"])
    ignored += fields.unknown("matrix.")
    return Matrix(expressions, names, costs)


def _check_selectors(settings: LlamaSwapSettings) -> None:
    """Targets are models or models of peers, never selectors; a selector has a name of its own."""
    selectors = {selector.id for selector in settings.selectors}
    far = {name for peer in settings.peers.values() for model in peer.models for name in (model, f"{peer.id}/{model}")}
    for selector in settings.selectors:
        where = f"selectors.{selector.id}"
        if settings.real_name(selector.id) is not None:
            raise ConfigError([f"{where}: '{selector.id}' is the name of a model"])
        for target in selector.targets:
            is_local = settings.real_name(target) is not None
            if target in selectors:
                raise ConfigError([f"{where}.targets: '{target}' is a selector, and selectors cannot be chained"])
            if not is_local and target not in far:
                raise ConfigError([f"{where}.targets: there is no model '{target}'"])
            if not is_local and selector.strategy == "warm":
                raise ConfigError([f"{where}.targets: '{target}' is a peer's; strategy warm takes local models only"])


def _read_selectors(top: Fields, ignored: list[KeyReport]) -> Iterator[Selector]:
    for name, fields in top.tables("selectors").items():
        strategy, targets = fields.text("strategy"), fields.texts("targets")
        if strategy not in ("pin", "warm", "spillover"):
            raise ConfigError([f"selectors.{name}.strategy: must be pin, warm or spillover"])
        if not targets:
            raise ConfigError([f"selectors.{name}.targets: must name at least one model"])
        fields.table("settings").integer("spillover", 1, least=1)
        for key in ("name", "description", "unlisted", "metadata"):
            fields.raw(key)
        ignored += fields.unknown(f"selectors.{name}.")
        yield Selector(name, strategy, tuple(targets), frozenset(fields))

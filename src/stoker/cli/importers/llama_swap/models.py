"""One model of llama-swap as a `[[serve]]`, with a row of the report for each key. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from stoker.cli.importers.engine_command import EngineCommand, exact_llama_keys, recognise
from stoker.cli.importers.imported import KeyOutcome, KeyReport
from stoker.cli.importers.llama_swap.command import split_command
from stoker.cli.importers.llama_swap.macros import DEFAULT_PROXY, PID, PORT
from stoker.cli.importers.llama_swap.settings import Filters, ModelSettings
from stoker.cli.importers.relative_paths import RelativePaths
from stoker.cli.importers.secret_words import SecretStore, command_text, in_shell, is_secret_name

CARRIED, CHANGED, DROPPED, FAILED = KeyOutcome.CARRIED, KeyOutcome.CHANGED, KeyOutcome.DROPPED, KeyOutcome.FAILED
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_FILLED_IN = re.compile(r"(?<!\{)\{(port|model|dir|host|name|key)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIXED = ("messages", "input", "prompt", "stream")
_BRACES = "contains {port}, {model} or the like, which Stoker would fill in; move it into a script"
LONGEST_NAME = 200


@dataclass
class ConvertedModel:
    """A model's serve, and the report of its keys."""

    id: str
    name: str
    table: dict[str, Any] = field(default_factory=dict)
    rows: list[KeyReport] = field(default_factory=list)

    def add(self, key: str, outcome: KeyOutcome, became: str = "", note: str = "") -> None:
        self.rows.append(KeyReport(self.id, key, outcome, became, note))

    @property
    def has_failed(self) -> bool:
        return any(row.outcome is FAILED for row in self.rows)


@dataclass(frozen=True, slots=True)
class ImportContext:
    """What the conversion of a model needs besides the model."""

    names: Mapping[str, str]
    """By model id, the name of its serve."""
    ports: Mapping[str, int]
    """By model id, a port that has to be the one of llama-swap."""
    secrets: SecretStore
    paths: RelativePaths
    ready_timeout: int
    loading: bool
    """`sendLoadingState` of the file."""


def convert_model(model: ModelSettings, context: ImportContext) -> ConvertedModel:
    found = ConvertedModel(model.id, context.names[model.id])
    found.table["name"] = found.name
    _add_names(found, model)
    if model.cmd.strip():
        _add_process(found, model, context)
    else:
        _add_external(found, model)
    _add_listing(found, model)
    _add_filters(found, model.filters, model)
    if model.concurrency > 0:
        found.table["max_active"] = model.concurrency
        found.add("concurrencyLimit", CHANGED, f"max_active = {model.concurrency}", "more requests wait instead of 429")
    if model.sends_loading_state is not None and model.sends_loading_state != context.loading:
        found.add("sendLoadingState", DROPPED, "", "Stoker has one setting for all models: front_door.loading")
    elif model.sends_loading_state is not None:
        found.add("sendLoadingState", CARRIED, "front_door.loading", "")
    if "timeouts" in model.given:
        found.add("timeouts", DROPPED, "", "front_door.stall_timeout limits the silence of an engine, for all models")
    if "compat" in model.given:
        found.add("compat", DROPPED, "", "Stoker relays the WebSocket of /v1/realtime only")
    return found


def _add_names(found: ConvertedModel, model: ModelSettings) -> None:
    aliases = [alias for alias in model.aliases if alias not in model.filters.by_id and alias != model.id]
    if found.name != model.id:
        aliases.insert(0, model.id)
    kept = [alias for alias in dict.fromkeys(aliases) if alias != found.name and _is_alias(found, alias)]
    if kept:
        found.table["aliases"] = kept
    if found.name != model.id:
        found.add("id", CHANGED, f'name = "{found.name}"', "a serve's name has no such characters; the id is an alias")
    if "aliases" in model.given:
        found.add("aliases", CARRIED, "aliases", "")


def _is_alias(found: ConvertedModel, alias: str) -> bool:
    if alias != alias.strip() or len(alias) > LONGEST_NAME or not alias.isprintable() or not alias:
        found.add("aliases", DROPPED, "", f"'{alias[:40]}' is no name that a request can have")
        return False
    if "*" in alias or "?" in alias:
        found.add("aliases", CHANGED, "aliases", f"'{alias}' is a pattern in Stoker: it also matches other names")
    return True


def _add_process(found: ConvertedModel, model: ModelSettings, context: ImportContext) -> None:
    words = context.paths.absolute(split_command(model.cmd))
    if not words:
        found.add("cmd", FAILED, "", "is empty but for comments")
        return
    if any(_FILLED_IN.search(word) for word in words):
        found.add("cmd", FAILED, "", _BRACES)
        return
    command = recognise(words)
    has_port = any(PORT in word for word in words)
    _add_address(found, model, has_port, context.ports.get(model.id))
    exports = _add_environment(found, model, context)
    served = _served_name(found, model, command)
    typed = None
    if command is not None and not exports and has_port:
        typed = exact_llama_keys(command, words)
    if typed is not None and not context.secrets.secrets_in(words):
        found.table |= typed
        found.add("cmd", CARRIED, ", ".join(typed), "Stoker adds --alias, --metrics and --no-slots")
    else:
        _add_command(found, model, words, command, exports, context)
    if served is not None:
        found.table["served_name"] = served
    _add_checks(found, model, command)
    _add_stop(found, model, context)
    found.table["ready_timeout"] = f"{context.ready_timeout}s"
    if model.ttl > 0:
        found.table["idle_unload"] = f"{model.ttl}s"
    if "ttl" in model.given:
        became = f'idle_unload = "{model.ttl}s"' if model.ttl else 'idle_unload = "never"'
        found.add("ttl", CARRIED, became, "")
    found.table["stop_grace"] = f"{model.unload_timeout}s"
    if "unloadTimeout" in model.given:
        found.add("unloadTimeout", CARRIED, f'stop_grace = "{model.unload_timeout}s"', "")


def _served_name(found: ConvertedModel, model: ModelSettings, command: EngineCommand | None) -> str | None:
    """The name by which the engine knows its model; None: the serve's own."""
    in_command = None if command is None else command.served_name
    if command is not None and command.engine in ("vllm", "sglang") and in_command is None:
        in_command = command.model
    name = in_command or model.model_name or model.id
    if model.model_name:
        if in_command is not None and in_command != model.model_name and command and command.engine == "llama.cpp":
            found.add("useModelName", CHANGED, f'served_name = "{in_command}"', "the command gives its model this name")
        else:
            name = model.model_name
            found.add("useModelName", CARRIED, f'served_name = "{name}"', "")
    return None if name == found.name else name


def _add_command(
    found: ConvertedModel, model: ModelSettings, words: list[str], command: EngineCommand | None,
    exports: Mapping[str, str], context: ImportContext,
) -> None:  # fmt: skip
    note = ""
    table = found.table
    if command is None:
        table["engine"] = "openai"
        note = "not a command that Stoker knows: memory, context and what it answers are unknown to it"
    else:
        table["engine"] = command.engine
        if command.model and not command.is_container:
            table["model"] = command.model
        _add_sizes(table, command)
        note = _add_engine_name(found, model, words, command)
    secret_texts = context.secrets.secrets_in(words)
    if secret_texts or exports:
        paths = {text: context.secrets.path_of(text, f"{found.name}-secret") for text in secret_texts}
        words = in_shell(words, paths, exports)
        note = "; ".join(filter(None, (note, "secrets are read from files by a shell that becomes the command")))
    table["cmd"] = command_text([word.replace(PORT, "{port}") for word in words])
    found.add(
        "cmd",
        CARRIED,
        ", ".join(key for key in ("engine", "model", "context", "parallel", "cmd") if key in table),
        note,
    )


def _add_sizes(table: dict[str, Any], command: EngineCommand) -> None:
    if command.parallel is not None:
        table["parallel"] = command.parallel
    if command.context is not None:
        shares = command.parallel if command.engine == "llama.cpp" and command.parallel else 1
        table["context"] = command.context // shares or command.context


def _add_engine_name(found: ConvertedModel, model: ModelSettings, words: list[str], command: EngineCommand) -> str:
    """llama.cpp and its key: it lists its model under the name that `--alias` gives, and takes Stoker's key."""
    if command.engine != "llama.cpp":
        return ""
    notes = []
    if command.served_name is None:
        words += ["--alias", model.model_name or model.id]
        notes.append("Stoker adds --alias, by which it recognises the model")
    if command.key is not None and not command.is_container:
        at = command.key.at
        del words[at : at + (1 if "=" in words[at] else 2)]
        notes.append("--api-key is left out: each start gets a key of its own")
    return "; ".join(notes)


def _add_address(found: ConvertedModel, model: ModelSettings, has_port: bool, port: int | None) -> None:
    url = urlsplit(model.proxy.replace(PORT, "1"))
    if base_path := url.path.rstrip("/"):
        found.table["base_path"] = base_path
        found.add("proxy", CARRIED, f'base_path = "{base_path}"', "")
    if url.scheme not in ("http", ""):
        found.add("proxy", FAILED, "", f"{url.scheme} to a server that Stoker starts; use http")
        return
    host = url.hostname or "localhost"
    if host not in _LOCAL:
        found.table["host"] = host
        found.add("proxy", CHANGED, f'host = "{host}"', "Stoker connects to it there")
    if port is not None and has_port:
        found.table["port"] = port
        found.add("cmd", CHANGED, f"port = {port}", "${PORT} is used outside of the command, so it stays the same")
    elif not has_port:
        if PORT in model.proxy or not url.port:
            found.table["port"] = url.port or 80
        else:
            found.table["port"] = url.port
        found.add("proxy", CARRIED, f"port = {found.table['port']}", "")
    elif PORT not in model.proxy:
        found.table["port"] = url.port or 80
        found.add("proxy", CARRIED, f"port = {found.table['port']}", "")
    elif "proxy" in model.given and host in _LOCAL and model.proxy != DEFAULT_PROXY:
        found.add("proxy", CARRIED, "a free port at each start", "")


def _add_environment(found: ConvertedModel, model: ModelSettings, context: ImportContext) -> dict[str, str]:
    """Sets `env`; returns the variables that hold secrets, with their files."""
    env: dict[str, str] = {}
    exports: dict[str, str] = {}
    for entry in model.env:
        name, equals, value = entry.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            found.add("env", DROPPED, "", f"'{name[:40]}' is no NAME=VALUE")
        elif is_secret_name(name) and value:
            exports[name] = context.secrets.path_of(value, f"{found.name}-{name.lower()}")
        else:
            env[name] = value
    if env:
        found.table["env"] = env
    if env or exports:
        note = f"{', '.join(exports)} is read from a file when it starts" if exports else ""
        if "CUDA_VISIBLE_DEVICES" in env:
            note = "; ".join(filter(None, (note, "give the slot `devices` instead, and Stoker measures their memory")))
        found.add("env", CARRIED, "env", note)
    return exports


def _add_checks(found: ConvertedModel, model: ModelSettings, command: EngineCommand | None) -> None:
    endpoint = model.check_endpoint.strip()
    if endpoint == "none":
        found.table["health"] = "none"
        became = 'health = "none"'
    else:
        path = endpoint if endpoint.startswith("/") else f"/{endpoint}"
        became = f'health = "{path}"'
        if path != "/health":
            found.table["health"] = path
    is_listed = command is not None and (command.engine == "llama.cpp" or command.served_name or command.model)
    if not is_listed:
        found.table["identity"] = "none"
    if model.has_own_check:
        found.add("checkEndpoint", CARRIED, became, "")


def _add_stop(found: ConvertedModel, model: ModelSettings, context: ImportContext) -> None:
    if not model.stop.strip():
        return
    words = context.paths.absolute(split_command(model.stop))
    if any(_FILLED_IN.search(word) or "{pid}" in word for word in words):
        found.add("cmdStop", FAILED, "", _BRACES)
        return
    secret_texts = context.secrets.secrets_in(words)
    if secret_texts:
        words = in_shell(
            words, {text: context.secrets.path_of(text, f"{found.name}-stop") for text in secret_texts}, {}
        )
    found.table["stop"] = command_text([word.replace(PID, "{pid}").replace(PORT, "{port}") for word in words])
    found.add("cmdStop", CARRIED, "stop", "")


def _add_external(found: ConvertedModel, model: ModelSettings) -> None:
    if model.proxy == DEFAULT_PROXY:
        found.add("cmd", FAILED, "", "has neither a command nor a `proxy`")
        return
    base = model.proxy.rstrip("/")
    found.table["base_url"] = base if base.endswith("/v1") else f"{base}/v1"
    found.add("proxy", CARRIED, f'base_url = "{found.table["base_url"]}"', "")
    name = model.model_name or model.id
    if name != found.name:
        found.table["served_name"] = name
    if model.model_name:
        found.add("useModelName", CARRIED, f'served_name = "{name}"', "")


def _add_listing(found: ConvertedModel, model: ModelSettings) -> None:
    for key, target, value in (("name", "title", model.title), ("description", "description", model.description)):
        if value:
            found.table[target] = value
            found.add(key, CARRIED, target, "")
    if model.is_unlisted:
        found.table["listed"] = False
    if "unlisted" in model.given:
        found.add("unlisted", CARRIED, "listed = false" if model.is_unlisted else "listed = true", "")
    plain = {key: value for key, value in model.metadata.items() if _is_plain(key, value)}
    if plain:
        found.table["metadata"] = plain
    if model.metadata:
        nested = [key for key in model.metadata if key not in plain]
        note = f"left out, because they are lists or tables: {', '.join(nested)}" if nested else ""
        found.add("metadata", CHANGED if nested else CARRIED, "metadata" if plain else "", note)
    _add_capabilities(found, model)


def _is_plain(key: str, value: object) -> bool:
    return bool(_NAME.fullmatch(key)) and isinstance(value, str | int | float)


def _add_capabilities(found: ConvertedModel, model: ModelSettings) -> None:
    given = model.capabilities
    if given.get("in"):
        found.table["modalities"] = list(given["in"])
        found.add("capabilities.in", CARRIED, "modalities", "")
    if given.get("context"):
        if "context" in found.table:
            found.add("capabilities.context", DROPPED, "", "the command says it")
        else:
            found.table["context"] = given["context"]
            found.add("capabilities.context", CARRIED, f"context = {given['context']}", "")
    for key in ("out", "tools", "reranker"):
        if given.get(key):
            found.add(f"capabilities.{key}", DROPPED, "", "Stoker asks the engine what it can do")


def _add_filters(found: ConvertedModel, filters: Filters, model: ModelSettings) -> None:
    request = request_table(filters, found, "filters.")
    own = filters.by_id.get(model.id)
    if own:
        values, rows = _split_values(own)
        request.setdefault("set", {}).update(values)
        request["default"] = {key: value for key, value in request.get("default", {}).items() if key not in values}
        _add_left_out(found, "filters.setParamsByID", rows)
        note = "aliases get them, too" if model.aliases else ""
        found.add("filters.setParamsByID", CHANGED if note else CARRIED, "request.set", note)
    if request := {key: value for key, value in request.items() if value}:
        found.table["request"] = request
    variants = list(_variants(found, filters, model))
    if variants:
        found.table["variant"] = variants
        names = ", ".join(variant["name"] for variant in variants)
        found.add("filters.setParamsByID", CARRIED, f"[[serve.variant]] {names}", "")


def _variants(found: ConvertedModel, filters: Filters, model: ModelSettings) -> Iterator[dict[str, Any]]:
    for name, given in filters.by_id.items():
        if name == model.id:
            continue
        values, left_out = _split_values(given)
        _add_left_out(found, f"filters.setParamsByID.{name}", left_out)
        variant: dict[str, Any] = {"name": name}
        defaults = {key.removesuffix("?"): value for key, value in values.items() if key.endswith("?")}
        own = {key: value for key, value in values.items() if not key.endswith("?")}
        if own:
            variant["set"] = own
        if defaults:
            variant["default"] = defaults
        yield variant


def request_table(filters: Filters, found: ConvertedModel, lead: str) -> dict[str, Any]:
    """`set`, `default` and `drop` of a serve. llama-swap strips first, then sets."""
    values, left_out = _split_values(filters.values)
    _add_left_out(found, f"{lead}setParams", left_out)
    own = {key: value for key, value in values.items() if not key.endswith("?")}
    defaults = {key.removesuffix("?"): value for key, value in values.items() if key.endswith("?")}
    for key in filters.strip:
        if key in defaults:  # stripped first, so it never arrives
            own[key] = defaults.pop(key)
    drop = [key for key in filters.strip if key not in own and key not in _FIXED]
    refused = [key for key in filters.strip if key in _FIXED]
    if refused:
        found.add(f"{lead}stripParams", DROPPED, "", f"{', '.join(refused)}: what the client asks for is not removed")
    if drop:
        found.add(f"{lead}stripParams", CARRIED, f"request.drop: {', '.join(drop)}", "")
    elif filters.strip and not refused:
        found.add(f"{lead}stripParams", CARRIED, "request.set", "each is set afterwards")
    if own or defaults:
        parts = [part for part, names in (("request.set", own), ("request.default", defaults)) if names]
        found.add(f"{lead}setParams", CARRIED, ", ".join(parts), "")
    return {"set": own, "default": {key: value for key, value in defaults.items() if key not in own}, "drop": drop}


def _split_values(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Values that a configuration can hold, and the keys that cannot be set."""
    kept = {}
    left_out = []
    for key, value in given.items():
        if key.removesuffix("?") in _FIXED or _has_null(value):
            left_out.append(key)
        else:
            kept[key] = value
    return kept, left_out


def _has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


def _add_left_out(found: ConvertedModel, key: str, names: list[str]) -> None:
    for name in names:
        why = "is what the client asks for" if name.removesuffix("?") in _FIXED else "is null, which TOML does not have"
        found.add(f"{key}.{name}", DROPPED, "", why)

"""One model of llama-swap as a `[[serve]]`, with a row of the report for each key. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from stoker.domain.secret_names import is_secret_name
from stoker_import.engine_command import EngineCommand, exact_llama_keys, recognise
from stoker_import.imported import KeyOutcome, KeyReport
from stoker_import.kinds import dialects_of_name
from stoker_import.llama_swap.command import is_of_windows, split_command
from stoker_import.llama_swap.macros import DEFAULT_PROXY, PID, PORT
from stoker_import.llama_swap.settings import LOCAL, Filters, ModelSettings, address_of
from stoker_import.secret_words import FILLED_IN, SecretStore, command_text, in_shell

CARRIED, CHANGED, DROPPED, FAILED = KeyOutcome.CARRIED, KeyOutcome.CHANGED, KeyOutcome.DROPPED, KeyOutcome.FAILED
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DOT = re.compile(r"(?<!\\)\.")
_FIXED = ("messages", "input", "prompt", "stream")
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
    source: Path
    """Where llama-swap was started: its commands run there."""
    target: Path
    """The configuration's directory: Stoker's commands run there, unless `cwd` says otherwise."""
    inherited: Sequence[str]
    """`inherit_env` of each serve."""
    ready_timeout: int
    loading: bool
    """`sendLoadingState` of the file."""

    @property
    def is_elsewhere(self) -> bool:
        return os.path.realpath(self.source) != os.path.realpath(self.target)

    def file(self, given: str) -> str:
        """A path of the command as the configuration names it."""
        is_relative = not given.startswith(("/", "~")) and not PureWindowsPath(given).drive
        return os.path.normpath(self.source / given) if is_relative and self.is_elsewhere else given

    def in_shell(self, words: Sequence[str], name: str, exports: Mapping[str, str]) -> list[str]:
        """The words as they are written: through a shell, if they hold secrets or texts that Stoker would fill in."""
        texts = {text: self._beside(self.secrets.path_of(text, name)) for text in self.secrets.secrets_in(words)}
        if not texts and not exports and not any(map(FILLED_IN.search, words)):
            return list(words)
        return in_shell(words, texts, {variable: self._beside(path) for variable, path in exports.items()})

    def _beside(self, path: str) -> str:
        """A file beside the configuration, as a command names it."""
        return str(self.target / path) if self.is_elsewhere else path


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
    if found.name != model.id and not model.is_variant_of_itself:
        aliases.insert(0, model.id)
    kept = [alias for alias in dict.fromkeys(aliases) if alias != found.name and _is_alias(found, alias)]
    if kept:
        found.table["aliases"] = kept
    if model.is_variant_of_itself:
        note = "the id has parameters that its other names do not have, so it is a variant"
        found.add("id", CHANGED, f'name = "{found.name}"', note)
    elif found.name != model.id:
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
    words = split_command(model.cmd)
    if not words:
        found.add("cmd", FAILED, "", "is empty but for comments")
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
        found.table |= typed | {"model": context.file(typed["model"]), "embedded": False}
        found.add("cmd", CARRIED, ", ".join(typed), "Stoker adds --alias, --metrics and --no-slots")
    else:
        _add_command(found, model, words, command, exports, context)
    if served is not None:
        found.table["served_name"] = served
    _add_dialects(found, model, command)
    if context.is_elsewhere:
        found.table["cwd"] = str(context.source)
    if context.inherited:
        found.table["inherit_env"] = list(context.inherited)
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


_EVERYTHING = ("chat", "completions", "embeddings", "rerank", "speech", "transcription", "image")
_TASKS = {
    "embed": "embeddings", "embedding": "embeddings", "score": "rerank", "classify": "rerank", "reward": "rerank",
    "transcription": "transcription",
}  # fmt: skip
"""vLLM's `--task` and `--convert`."""
_WITH_PROJECTOR = ("chat", "completions", "messages", "responses", "transcription")
"""A projector may read sound: then llama-server transcribes, too."""
_PROGRAMS = {
    "whisper-server": ("transcription",), "sd-server": ("image",), "text-embeddings-router": ("embeddings", "rerank"),
    "infinity_emb": ("embeddings", "rerank"), "piper": ("speech",), "llama-tts": ("speech",),
}  # fmt: skip


def _add_dialects(found: ConvertedModel, model: ModelSettings, command: EngineCommand | None) -> None:
    """llama-swap sends every request to the engine, whatever its path. Stoker asks which it answers:

    1. what options of its engine say  2. what `capabilities` say  3. what its program is for
    4. what the names of the model say  5. a known engine: what such an engine answers
    6. an unknown command: everything that Stoker can pass on
    """
    dialects = (
        _of_options(command)  # 1
        or _of_capabilities(model.capabilities)  # 2
        or next((kind for word in split_command(model.cmd)[:4] if (kind := _PROGRAMS.get(word.rsplit("/", 1)[-1]))), ())
        or _of_names(model, command)  # 4
        or (() if command is not None else _EVERYTHING)  # 5, 6
    )
    if dialects:
        found.table["dialects"] = list(dialects)


def _of_options(command: EngineCommand | None) -> tuple[str, ...]:
    if command is None:
        return ()
    if command.engine == "llama.cpp":
        facts = (("embeddings", "embeddings"), ("reranking", "rerank"))
        return tuple(dialect for fact, dialect in facts if command.facts.get(fact)) or (
            _WITH_PROJECTOR if command.facts.get("mmproj") else ()
        )
    for word in command.words:
        if word.option in ("--task", "--convert") and word.value in _TASKS:
            return (_TASKS[word.value],)
        if word.option == "--is-embedding":
            return ("embeddings",)
    return ()


def _of_capabilities(given: Mapping[str, Any]) -> tuple[str, ...]:
    takes, gives = given.get("in") or ["text"], given.get("out") or ["text"]
    if given.get("reranker"):
        return ("rerank",)
    if gives == ["audio"]:
        return ("speech",)
    if gives == ["image"]:
        return ("image",)
    return ("transcription",) if takes == ["audio"] and gives == ["text"] else ()


def _of_names(model: ModelSettings, command: EngineCommand | None) -> tuple[str, ...]:
    """Not of llama.cpp, whose options have said it."""
    if command is not None and command.engine == "llama.cpp":
        return ()
    names = [model.id, *model.aliases, model.model_name]
    if command is not None and command.model is not None:
        names.append(command.model)
    return next((dialects for name in names if (dialects := dialects_of_name(name))), ())


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
            is_file = command.engine == "llama.cpp" or command.model.startswith(".")
            table["model"] = context.file(command.model) if is_file else command.model
        _add_sizes(table, command)
        note = _add_engine_name(found, model, words, command)
    has_secrets = bool(context.secrets.secrets_in(words) or exports)
    program = words[0]
    words = context.in_shell(words, f"{found.name}-secret", exports)
    if words[0] != program:
        table["requires"] = {"commands": [program]}
    if has_secrets:
        note = "; ".join(filter(None, (note, "secrets are read from files by a shell that becomes the command")))
    table["cmd"] = command_text([word.replace(PORT, "{port}") for word in words])
    became = ", ".join(key for key in ("engine", "model", "context", "parallel", "cmd") if key in table)
    if is_of_windows(model.cmd):
        found.add(
            "cmd", CHANGED, became, f"a program of Windows: name this machine's, and its files; {note}".rstrip("; ")
        )
    else:
        found.add("cmd", CARRIED, became, note)


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
    address = address_of(model.proxy)
    url = urlsplit(model.proxy.replace(PORT, "1")) if address is not None else None
    if url is None or address is None:
        found.add("proxy", FAILED, "", "is no http address")
        return
    if base_path := url.path.rstrip("/"):
        found.table["base_path"] = base_path
        found.add("proxy", CARRIED, f'base_path = "{base_path}"', "")
    if url.scheme not in ("http", ""):
        found.add("proxy", FAILED, "", f"{url.scheme} to a server that Stoker starts; use http")
        return
    host, fixed = address
    if host not in LOCAL:
        found.table["host"] = host
        found.add("proxy", CHANGED, f'host = "{host}"', "Stoker connects to it there")
    if port is not None and has_port:
        found.table["port"] = port
        found.add("cmd", CHANGED, f"port = {port}", "${PORT} is used outside of the command, so it stays the same")
    elif not has_port or PORT not in model.proxy:
        found.table["port"] = fixed
        found.add("proxy", CARRIED, f"port = {fixed}", "")
    elif "proxy" in model.given and host in LOCAL and model.proxy != DEFAULT_PROXY:
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
    words = context.in_shell(split_command(model.stop), f"{found.name}-stop", {})
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
            found.table[target] = " ".join(value.split())
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
    if own and not model.is_variant_of_itself:
        values = _settable(own, found, "filters.setParamsByID", request["set"])
        request["set"] = {**request["set"], **values}
        request["default"] = {key: value for key, value in request["default"].items() if key not in values}
        found.add("filters.setParamsByID", CARRIED, "request.set", "")
    if request := {key: value for key, value in request.items() if value}:
        found.table["request"] = request
    variants = list(_variants(found, filters, model, request.get("set", {})))
    if variants:
        found.table["variant"] = variants
        names = ", ".join(variant["name"] for variant in variants)
        found.add("filters.setParamsByID", CARRIED, f"[[serve.variant]] {names}", "")


def _variants(
    found: ConvertedModel, filters: Filters, model: ModelSettings, common: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """`common`: what the serve sets for all of them."""
    for name, given in filters.by_id.items():
        if name == model.id and not model.is_variant_of_itself:
            continue
        values = _settable(given, found, f"filters.setParamsByID.{name}", common)
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
    values = _settable(filters.values, found, f"{lead}setParams")
    own = {key: value for key, value in values.items() if not key.endswith("?")}
    defaults = {key.removesuffix("?"): value for key, value in values.items() if key.endswith("?")}
    paths = [key for key in filters.strip if "." in key]
    if paths:
        note = f"{', '.join(paths)}: Stoker removes whole fields only"
        found.add(f"{lead}stripParams", DROPPED, "", note)
    for key in filters.strip:
        if key in defaults:  # stripped first, so it never arrives
            own[key] = defaults.pop(key)
    drop = [key for key in filters.strip if key not in own and key not in _FIXED and key not in paths]
    refused = [key for key in filters.strip if key in _FIXED]
    if refused:
        found.add(f"{lead}stripParams", DROPPED, "", f"{', '.join(refused)}: what the client asks for is not removed")
    if drop:
        found.add(f"{lead}stripParams", CARRIED, f"request.drop: {', '.join(drop)}", "")
    elif filters.strip and not refused and not paths:
        found.add(f"{lead}stripParams", CARRIED, "request.set", "each is set afterwards")
    if own or defaults:
        parts = [part for part, names in (("request.set", own), ("request.default", defaults)) if names]
        found.add(f"{lead}setParams", CARRIED, ", ".join(parts), "")
    return {"set": own, "default": {key: value for key, value in defaults.items() if key not in own}, "drop": drop}


def _settable(
    given: Mapping[str, Any], found: ConvertedModel, where: str, before: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Values that a configuration can hold, by the field of the body; a row for each of the others.

    A key with dots is a path: `a.b` sets `b` in the field `a`, beside what was set there `before`.
    """
    kept: dict[str, Any] = {}
    for key, value in sorted(given.items()):
        mark = "?" if key.endswith("?") else ""
        first, *rest = (part.replace("\\.", ".") for part in _DOT.split(key.removesuffix("?")))
        if first in _FIXED:
            found.add(f"{where}.{key}", DROPPED, "", "is what the client asks for")
        elif _has_null(value):
            found.add(f"{where}.{key}", DROPPED, "", "is null, which TOML does not have")
        elif any(part.lstrip("-").isdigit() for part in rest):
            found.add(f"{where}.{key}", DROPPED, "", "is a place in a list; Stoker sets whole fields")
        else:
            for part in reversed(rest):
                value = {part: value}
            field = first + mark
            kept[field] = _merged(kept.get(field, before.get(first)), value) if rest else value
            if rest:
                note = f"replaces the whole field `{first}` of a request that has one"
                found.add(f"{where}.{key}", CHANGED, f"request.set.{key}", note)
    return kept


def _merged(under: Any, over: Any) -> Any:
    """`over` on `under`: tables key by key, anything else replaced."""
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}
    return over


def _has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None

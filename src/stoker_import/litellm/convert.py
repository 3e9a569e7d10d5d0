"""LiteLLM's config.yaml: deployments by their group, fallbacks, prices, the master key, and a row for all the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Any

from stoker.config.secrets import SHORTEST_KEY
from stoker.domain.errors import ConfigError
from stoker_import.imported import ImportedConfig, KeyOutcome, KeyReport
from stoker_import.litellm.deployment import (
    Deployment,
    from_variable,
    is_variable,
    read_deployment,
    secrets_reference,
)
from stoker_import.owned_models import plain_name, shown
from stoker_import.secret_words import SecretStore

FALLBACK_ON = ("memory", "unavailable", "busy")
_FALLBACKS = "fallbacks"
_NOTES = {
    "routing_strategy": "of several servers of one model the first that can be used answers",
    "context_window_fallbacks": "`[router] long_context` or an alias of a model with a larger context",
    "content_policy_fallbacks": "Stoker does not judge answers by their refusal",
    "default_fallbacks": "give each serve its own `fallback`",
    "num_retries": "a request is not repeated; `fallback` answers instead",
    "allowed_fails": "`[router] breaker_failures`",
    "cooldown_time": "`[router] breaker_cool_down`",
    "redis_host": "Stoker keeps its state on disk",
    "redis_port": "Stoker keeps its state on disk",
    "redis_password": "Stoker keeps its state on disk",
    "cache": "Stoker keeps no answers",
    "drop_params": "`[serve.request] drop` removes fields that a server does not take",
    "max_budget": "give keys their `cost_per_month`: stoker keys create --help",
    "budget_duration": "give keys their `cost_per_month`: stoker keys create --help",
    "callbacks": "GET /metrics and `stoker decisions` show what happens",
    "success_callback": "see `stoker decisions`",
    "failure_callback": "see `stoker decisions`",
    "database_url": "virtual keys are in LiteLLM's database: make them again with `stoker keys create`",
    "request_timeout": "`front_door.stall_timeout` ends a stream without data",
    "master_key": "",
}


@dataclass(slots=True, eq=False)
class _Group:
    """Deployments of one `model_name`, and the serves or variants that answer for it."""

    title: str
    members: list[Deployment] = field(default_factory=list)
    uses: list[_Use] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The serves or variants that answer for it, in the order of its deployments."""
        return list(dict.fromkeys(use.answers for use in self.uses))


@dataclass(slots=True, eq=False)
class _Use:
    """One deployment as its group asks for it."""

    group: _Group
    member: Deployment
    names: list[str]
    """The names that mean it: those of its group, or `GROUP-1` if the group has several deployments."""
    answers: str = ""
    """The serve or variant that answers for it."""

    @property
    def request(self) -> dict[str, Any]:
        return self.member.keys.get("request") or {}


@dataclass(slots=True, eq=False)
class _Server:
    """Deployments that differ in nothing but their parameters: one serve."""

    keys: dict[str, Any]
    """Without `request`."""
    uses: list[_Use] = field(default_factory=list)


def command_litellm(document: Any, name: str, port: int, environment: Mapping[str, str]) -> ImportedConfig:
    """`document`: the YAML. `environment`: the variables that LiteLLM sees. Raises ConfigError if it is not LiteLLM's,
    or nothing in it can be carried.
    """
    if not isinstance(document, dict) or not isinstance(document.get("model_list"), list):
        raise ConfigError([f"{name}: there is no `model_list`: give the config.yaml of LiteLLM's proxy"])
    sections = {key: value if isinstance(value, dict) else {} for key, value in document.items()}
    own = {key: str(value) for key, value in sections.get("environment_variables", {}).items()}
    secrets = SecretStore(own)
    report: list[KeyReport] = []
    groups = _groups(document["model_list"], secrets, {**environment, **own}, report)
    aliases = {**sections.get("router_settings", {}).get("model_group_alias", {})}
    rows = _serves(groups, aliases, report)
    if not rows:
        reasons = [f"{row.model}: {row.note}" for row in report if row.outcome is KeyOutcome.FAILED]
        raise ConfigError([f"{name}: no model can be carried", *reasons])
    _fallbacks(groups, rows, sections, report)
    door = _front_door(sections, secrets, {**environment, **own}, port, report)
    result: dict[str, Any] = {"front_door": door, "serve": list(rows.values())}
    chosen = _alias_tables(groups, aliases)
    if chosen:
        result["alias"] = chosen
    tiers = _tiers(groups, rows)
    if tiers:
        result["tier"] = tiers
    report += _rest(document, sections)
    comments = (f"From LiteLLM's {name.rsplit('/', 1)[-1]}.",)
    return ImportedConfig(result, tuple(report), tuple(secrets.files), comments)


def _groups(
    entries: Sequence[Any], secrets: SecretStore, variables: Mapping[str, str], report: list[KeyReport]
) -> list[_Group]:
    """Entries by their `model_name`, in the order of the file. Those that cannot be imported get a row."""
    groups: dict[str, _Group] = {}
    for place, entry in enumerate(entries, start=1):
        title = entry.get("model_name") if isinstance(entry, dict) else None
        if not isinstance(title, str) or not title:
            report.append(KeyReport(f"entry {place}", "model_name", KeyOutcome.FAILED, note="it has no model_name"))
            continue
        title, problem = from_variable(title, variables)
        if problem:
            report.append(KeyReport(title, "model_name", KeyOutcome.FAILED, note=problem))
            continue
        found = read_deployment(title, entry, secrets, variables)
        if found.problem:
            report.append(KeyReport(title, "litellm_params.model", KeyOutcome.FAILED, note=found.problem))
            continue
        groups.setdefault(title, _Group(title)).members.append(found)
    return list(groups.values())


def _servers(groups: Sequence[_Group], aliases: Mapping[str, Any]) -> list[_Server]:
    servers: list[_Server] = []
    for group in groups:
        own = _own_names(group, aliases)
        for place, member in enumerate(group.members, start=1):
            keys = {key: value for key, value in member.keys.items() if key != "request"}
            server = next((one for one in servers if one.keys == keys), None)
            if server is None:
                server = _Server(keys)
                servers.append(server)
            use = _Use(group, member, own if len(group.members) == 1 else [f"{group.title}-{place}"])
            server.uses.append(use)
            group.uses.append(use)
    return servers


def _serves(groups: Sequence[_Group], aliases: Mapping[str, Any], report: list[KeyReport]) -> dict[str, dict[str, Any]]:
    """A serve for each server and model, by its name. Its deployments

    1. with the parameters of the serve   -> names of that serve
    2. with other parameters              -> variants of that serve

    The parameters of the serve are those of all its deployments, if they agree, else none.
    """
    servers = _servers(groups, aliases)
    taken = {group.title for group in groups} | {str(alias) for alias in aliases}
    taken |= {name for server in servers for use in server.uses for name in use.names}
    rows: dict[str, dict[str, Any]] = {}
    for server in servers:
        requests = [use.request for use in server.uses]
        request = requests[0] if all(one == requests[0] for one in requests) else {}
        plain = [use for use in server.uses if use.request == request]
        wish = plain[0].names[0] if plain else str(server.keys["served_name"])
        own = set(plain[0].names[:1]) if plain else set()
        name = plain_name(wish.rsplit("/", 1)[-1], {*rows, *(taken - own)})
        row: dict[str, Any] = {"name": name, "aliases": [], **server.keys}
        if request:
            row["request"] = request
        report += (plain or server.uses)[0].member.report
        for use in server.uses:
            title = use.group.title
            if use in plain:  # 1
                row["aliases"] += use.names if len(use.group.members) == 1 else []
                use.answers = name
                if use is not plain[0]:
                    note = f"the same server and model as {name}, so it is another name of that serve"
                    report.append(KeyReport(title, "model_name", KeyOutcome.CARRIED, shown("aliases", use.names), note))
            else:  # 2
                row["variant"] = [*row.get("variant", []), *({"name": one, **use.request} for one in use.names)]
                use.answers = use.names[0]
                note = f"the same server and model as {name}, with parameters of its own"
                became = shown("variant.name", use.names[0])
                report.append(KeyReport(title, "model_name", KeyOutcome.CARRIED, became, note))
        row["aliases"] = [alias for alias in dict.fromkeys(row["aliases"]) if alias != name]
        rows[name] = {key: value for key, value in row.items() if value != []}
    for group in groups:
        if len(group.names) == 1 and len(group.members) > 1:  # one deployment, listed more than once
            row = _row_of(rows, group.names[0])
            row["aliases"] = [*row.get("aliases", ()), *_own_names(group, aliases)]
        elif len(group.names) > 1:
            note = "of several servers of one model the first that can be used answers; nothing is divided among them"
            became = shown(f"alias.{group.title}.serves", group.names)
            report.append(KeyReport(group.title, "model_name", KeyOutcome.CHANGED, became, note))
    return rows


def _own_names(group: _Group, aliases: Mapping[str, Any]) -> list[str]:
    return [group.title, *(str(alias) for alias, to in aliases.items() if _target(to) == group.title)]


def _row_of(rows: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The serve with this name, or with a variant of this name."""
    found = rows.get(name)
    if found is not None:
        return found
    return next(row for row in rows.values() if any(one["name"] == name for one in row.get("variant", ())))


def _target(value: Any) -> Any:
    """LiteLLM takes `alias: group`, and `alias: {model: group, hidden: true}`."""
    return value.get("model") if isinstance(value, dict) else value


def _fallbacks(
    groups: Sequence[_Group], rows: dict[str, dict[str, Any]], sections: Mapping[str, Any], report: list[KeyReport]
) -> None:
    """`fallback` of each serve of a group: the first target that exists. A cycle is cut at its last step."""
    by_title = {group.title: group for group in groups}
    for section in ("router_settings", "litellm_settings"):
        for title, targets in _pairs(sections.get(section, {}).get(_FALLBACKS)):
            group = by_title.get(title)
            known = [by_title[target] for target in targets if target in by_title and target != title]
            known = [one for one in known if one.names]
            if group is None or not group.names or not known:
                note = "it names a model that is not in this file, or could not be carried"
                report.append(KeyReport(title, _FALLBACKS, KeyOutcome.DROPPED, note=note))
                continue
            target = _row_of(rows, known[0].names[0])["name"]
            own = list(dict.fromkeys(_row_of(rows, name)["name"] for name in group.names))
            if any(_leads_to(rows, target, name) for name in own):
                note = f"{title} and {known[0].title} would fall back to each other"
                report.append(KeyReport(title, _FALLBACKS, KeyOutcome.DROPPED, note=note))
                continue
            for name in own:
                rows[name] |= {"fallback": target, "fallback_on": list(FALLBACK_ON)}
            is_all = len(targets) == 1
            note = "" if is_all else f"only the first; {target} may have a fallback of its own"
            outcome = KeyOutcome.CARRIED if is_all else KeyOutcome.CHANGED
            report.append(KeyReport(title, _FALLBACKS, outcome, shown("fallback", target), note))


def _pairs(given: Any) -> Iterator[tuple[str, list[str]]]:
    for entry in given if isinstance(given, list) else []:
        for title, targets in entry.items() if isinstance(entry, dict) else ():
            if isinstance(targets, list):
                yield str(title), [target for target in targets if isinstance(target, str)]


def _leads_to(rows: Mapping[str, Mapping[str, Any]], start: str, name: str) -> bool:
    current: str | None = start
    while current is not None:
        if current == name:
            return True
        current = rows[current].get("fallback")
    return False


def _alias_tables(groups: Sequence[_Group], aliases: Mapping[str, Any]) -> dict[str, Any]:
    """The names of groups with several servers."""
    return {
        alias: {"serves": group.names, "pick": "first"}
        for group in groups
        if len(group.names) > 1
        for alias in _own_names(group, aliases)
    }


def _tiers(groups: Sequence[_Group], rows: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Every serve with a price, the cheapest first."""
    priced: dict[str, dict[str, float]] = {}
    for group in groups:
        for use in group.uses:
            if use.member.cost is not None:
                priced.setdefault(_row_of(rows, use.answers)["name"], use.member.cost)
    cheapest = sorted(priced.items(), key=lambda one: one[1]["input"] + one[1]["output"])
    return [{"name": name, "serve": name, "cost": cost} for name, cost in cheapest]


def _front_door(
    sections: Mapping[str, Any],
    secrets: SecretStore,
    variables: Mapping[str, str],
    port: int,
    report: list[KeyReport],
) -> dict[str, Any]:
    door: dict[str, Any] = {"host": "127.0.0.1", "port": port}
    note = 'LiteLLM listens on every address: for other machines set `host = "0.0.0.0"`, with keys'
    report.append(KeyReport("", "host", KeyOutcome.CHANGED, shown("front_door.host", "127.0.0.1"), note))
    given = sections.get("general_settings", {}).get("master_key")
    if not isinstance(given, str) or not given:
        return door
    value, _ = from_variable(given, variables)
    outcome, note = KeyOutcome.CARRIED, 'LiteLLM\'s key may do everything; for clients scope = "inference" is enough'
    if value and len(value) < SHORTEST_KEY and not is_variable(value):
        outcome, note = (
            KeyOutcome.CHANGED,
            f"shorter than {SHORTEST_KEY} characters: replaced by a new key; give it to its clients",
        )
        source = secrets.reference(f"sk-{token_urlsafe(32)}", "master")
    elif is_variable(given):
        source = secrets_reference(given, "master", secrets)
    else:
        source = secrets.reference(given, "master")
    door["keys"] = [{"name": "master", "value": source, "scope": "admin"}]
    became = f'front_door.keys: {shown("value", source)}, scope = "admin"'
    report.append(KeyReport("", "general_settings.master_key", outcome, became, note))
    return door


def _rest(document: Mapping[str, Any], sections: Mapping[str, Any]) -> Iterator[KeyReport]:
    """A row for each setting that was not read."""
    for section in document:
        if section in ("model_list", "environment_variables"):
            continue
        for key in sections[section] or {"": None}:
            if key in (_FALLBACKS, "model_group_alias") or (section == "general_settings" and key == "master_key"):
                continue
            name = f"{section}.{key}" if key else str(section)
            note = _NOTES.get(key, "Stoker has no such setting")
            yield KeyReport("", name, KeyOutcome.DROPPED, note=note)

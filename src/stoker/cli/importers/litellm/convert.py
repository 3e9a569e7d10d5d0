"""LiteLLM's config.yaml: deployments by their group, fallbacks, prices, the master key, and a row for all the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.cli.importers.imported import ImportedConfig, KeyOutcome, KeyReport
from stoker.cli.importers.litellm.deployment import Deployment, read_deployment, secrets_reference
from stoker.cli.importers.owned_models import plain_name, shown
from stoker.cli.importers.secret_words import SecretStore
from stoker.domain.errors import ConfigError

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


@dataclass(slots=True)
class _Group:
    """Deployments of one `model_name`, and the names of their serves."""

    title: str
    members: list[Deployment] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    """Serves of which it is a variant."""


def import_litellm(document: Any, name: str, port: int) -> ImportedConfig:
    """`document`: the YAML. Raises ConfigError if it is not LiteLLM's."""
    if not isinstance(document, dict) or not isinstance(document.get("model_list"), list):
        raise ConfigError([f"{name}: there is no `model_list`: give the config.yaml of LiteLLM's proxy"])
    sections = {key: value if isinstance(value, dict) else {} for key, value in document.items()}
    secrets = SecretStore({key: str(value) for key, value in sections.get("environment_variables", {}).items()})
    report: list[KeyReport] = []
    groups = _groups(document["model_list"], secrets, report)
    aliases = {**sections.get("router_settings", {}).get("model_group_alias", {})}
    rows = _serves(groups, aliases, report)
    _fallbacks(groups, rows, sections, report)
    result: dict[str, Any] = {"front_door": _front_door(sections, secrets, port, report), "serve": list(rows.values())}
    chosen = _alias_tables(groups, aliases)
    if chosen:
        result["alias"] = chosen
    tiers = _tiers(groups)
    if tiers:
        result["tier"] = tiers
    report += _rest(document, sections)
    comments = (f"From LiteLLM's {name.rsplit('/', 1)[-1]}.",)
    return ImportedConfig(result, tuple(report), tuple(secrets.files), comments)


def _groups(entries: Sequence[Any], secrets: SecretStore, report: list[KeyReport]) -> list[_Group]:
    """Entries by their `model_name`, in the order of the file. Those that cannot be imported get a row."""
    groups: dict[str, _Group] = {}
    for place, entry in enumerate(entries, start=1):
        title = entry.get("model_name") if isinstance(entry, dict) else None
        if not isinstance(title, str) or not title:
            report.append(KeyReport(f"entry {place}", "model_name", KeyOutcome.FAILED, note="it has no model_name"))
            continue
        found = read_deployment(title, entry, secrets)
        if found.problem:
            report.append(KeyReport(title, "litellm_params.model", KeyOutcome.FAILED, note=found.problem))
            continue
        groups.setdefault(title, _Group(title)).members.append(found)
    return list(groups.values())


def _serves(groups: Sequence[_Group], aliases: Mapping[str, Any], report: list[KeyReport]) -> dict[str, dict[str, Any]]:
    """A serve for each deployment, by its name; deployments of one server and model share one.

    1. the same server, model and parameters as an earlier one -> another alias of that serve
    2. the same server and model, with parameters of its own -> a variant of that serve
    3. another server for a model name that an earlier serve has -> dropped, if the group has others, else failed
    4. otherwise -> a serve of its own
    """
    titles = {group.title for group in groups} | {str(alias) for alias in aliases}
    rows: dict[str, dict[str, Any]] = {}
    for group in groups:
        own = [group.title, *(str(alias) for alias, to in aliases.items() if _target(to) == group.title)]
        for place, member in enumerate(group.members, start=1):
            like = next((row for row in rows.values() if row["served_name"] == member.keys["served_name"]), None)
            if like is None and _is_name_taken(rows, member.keys["served_name"], group.title):
                like = {}
            if like is None:  # 4
                is_alone = len(group.members) == 1
                wish = group.title if is_alone else f"{group.title}-{place}"
                name = plain_name(wish.rsplit("/", 1)[-1], {*rows, *(titles - {group.title} if is_alone else titles)})
                rows[name] = {"name": name, "aliases": [], **member.keys}
                group.names.append(name)
                report += member.report
            else:
                _share(group, own, member, like, report)
        _name_group(group, own, rows, report)
    for row in rows.values():
        row["aliases"] = [alias for alias in dict.fromkeys(row["aliases"]) if alias != row["name"]]
    return {name: {key: value for key, value in row.items() if value != []} for name, row in rows.items()}


def _is_name_taken(rows: Mapping[str, Mapping[str, Any]], served_name: str, title: str) -> bool:
    """Whether the engine's name of the model already means another serve."""
    return any(served_name in (row["name"], *row["aliases"]) and title != row["name"] for row in rows.values())


def _share(
    group: _Group, own: Sequence[str], member: Deployment, like: dict[str, Any], report: list[KeyReport]
) -> None:
    """Branches 1 to 3 of `_serves`: `like` has the same served name; empty: the name means another serve."""
    keys, title = member.keys, group.title
    others = {key for key in (*keys, *like) if key not in ("name", "aliases", "variant", "request")}
    is_same_server = bool(like) and all(keys.get(key) == like.get(key) for key in others)
    if is_same_server and keys.get("request") == like.get("request"):  # 1
        like["aliases"] = [*like["aliases"], *own]
        note = f"the same server and model as {like['name']}, so it is another name of that serve"
        report.append(KeyReport(title, "model_name", KeyOutcome.CARRIED, shown("aliases", list(own)), note))
        group.names.append(like["name"])
    elif is_same_server and "request" not in like:  # 2
        like["variant"] = [*like.get("variant", []), *({"name": name, **keys["request"]} for name in own)]
        note = f"the same server and model as {like['name']}, with parameters of its own"
        report.append(KeyReport(title, "model_name", KeyOutcome.CARRIED, shown("variant.name", title), note))
        group.shared.append(like["name"])
    else:  # 3
        outcome = KeyOutcome.DROPPED if group.names else KeyOutcome.FAILED
        note = f"an earlier serve already has the model name '{keys['served_name']}', and only one may"
        report.append(KeyReport(title, "litellm_params.model", outcome, note=note))


def _name_group(group: _Group, own: Sequence[str], rows: Mapping[str, dict[str, Any]], report: list[KeyReport]) -> None:
    """One serve has the group's names as aliases; of several, an alias points to them."""
    group.names = list(dict.fromkeys(group.names))
    if len(group.names) == 1:
        rows[group.names[0]]["aliases"] = [*rows[group.names[0]]["aliases"], *own]
    elif len(group.names) > 1:
        note = "of several servers of one model the first that can be used answers; nothing is divided among them"
        became = shown(f"alias.{group.title}.serves", group.names)
        report.append(KeyReport(group.title, "model_name", KeyOutcome.CHANGED, became, note))


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
            target = known[0].names[0]
            if any(_leads_to(rows, target, name) for name in group.names):
                note = f"{title} and {known[0].title} would fall back to each other"
                report.append(KeyReport(title, _FALLBACKS, KeyOutcome.DROPPED, note=note))
                continue
            for name in group.names:
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
    tables: dict[str, Any] = {}
    for group in groups:
        if len(group.names) > 1:
            own = [group.title, *(str(alias) for alias, to in aliases.items() if _target(to) == group.title)]
            tables |= {alias: {"serves": group.names, "pick": "first"} for alias in own}
    return tables


def _tiers(groups: Sequence[_Group]) -> list[dict[str, Any]]:
    """Every deployment with a price, the cheapest first."""
    priced = {
        name: member.cost
        for group in groups
        for member, name in zip(group.members, group.names, strict=False)
        if member.cost is not None
    }
    cheapest = sorted(priced.items(), key=lambda one: one[1]["input"] + one[1]["output"])
    return [{"name": name, "serve": name, "cost": cost} for name, cost in cheapest]


def _front_door(
    sections: Mapping[str, Any], secrets: SecretStore, port: int, report: list[KeyReport]
) -> dict[str, Any]:
    door: dict[str, Any] = {"host": "127.0.0.1", "port": port}
    note = 'LiteLLM listens on every address: for other machines set `host = "0.0.0.0"`, with keys'
    report.append(KeyReport("", "host", KeyOutcome.CHANGED, shown("front_door.host", "127.0.0.1"), note))
    given = sections.get("general_settings", {}).get("master_key")
    if isinstance(given, str) and given:
        is_variable = given.startswith("os.environ/")
        source = secrets_reference(given, "master", secrets) if is_variable else secrets.reference(given, "master")
        door["keys"] = [{"name": "master", "value": source, "scope": "admin"}]
        note = 'LiteLLM\'s key may do everything; for clients scope = "inference" is enough'
        became = f'front_door.keys: {shown("value", source)}, scope = "admin"'
        report.append(KeyReport("", "general_settings.master_key", KeyOutcome.CARRIED, became, note))
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

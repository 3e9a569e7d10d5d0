"""What `stoker stage` prints: the plan, the lines for the configuration, the list."""

from __future__ import annotations

import json as jsons
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.cli.console import figures, terminal

if TYPE_CHECKING:
    from stoker.domain.serve import Serve
    from stoker_setup.prefetch import Order, Prefetched, PrefetchPlan

_COLUMNS = ("MODEL", "SIZE", "FILES", "SHA256", "USED BY")


def show_plan(vault: Path, order: Order, plan: PrefetchPlan, json: bool) -> None:
    from stoker_setup.prefetch import PrefetchAnswer

    situation = plan.situation
    if json:
        terminal.emit({
            "model": f"vault:{order.name}", "path": order.path_of(str(vault)), "source": str(order.source),
            "files": [{"name": item.name, "source": str(item.source), "bytes": plan.source_states[item.name].size}
                      for item in order.items],
            "bytes": situation.size, "kept": situation.kept, "vault": situation.used, "quota": situation.quota,
            "room": situation.room,
            "answer": plan.decision.answer, "why": plan.decision.why,
        })  # fmt: skip
        return
    for item in order.items:
        size = figures.size(plan.source_states[item.name].size)
        terminal.say(f"{item.source}  ->  {order.path_of(str(vault), item.name)}  {size}")
    left = f", {figures.size(situation.kept)} already fetched" if situation.kept else ""
    quota = f" of {figures.size(situation.quota)}" if situation.quota is not None else ""
    terminal.say(f"{figures.size(situation.size)} in all{left}; the vault holds {figures.size(situation.used)}{quota}, "
                 f"its disk has room for {figures.size(max(0, situation.room))}")  # fmt: skip
    if plan.decision.answer is PrefetchAnswer.NOTHING:
        terminal.say(plan.decision.why)


def show_staged(order: Order, result: Prefetched, serves: Sequence[Serve], json: bool, place: str) -> None:
    """What came, the lines for the configuration, and what to type next."""
    lines, following = _lines(order, result, serves), _next(result, serves, place)
    size = sum(result.sizes.values())
    if json:
        terminal.emit({
            "model": f"vault:{result.name}", "path": str(result.path), "source": str(order.source),
            "fetched": result.fetched, "bytes": size, "seconds": round(result.seconds, 3),
            "files": [{"name": name, "bytes": result.sizes[name], "sha256": digest, "verified": name in result.proved}
                      for name, digest in result.sha256.items()],
            "toml": "\n".join(lines), "next": following,
        })  # fmt: skip
        return
    files = f"{figures.counted(len(result.sizes), 'file')}, {figures.size(size)}"
    if result.fetched:
        terminal.say(f"vault:{result.name} is staged: {files}, after {figures.seconds(result.seconds)}")
    else:
        terminal.say(f"vault:{result.name} is already there, unchanged: {files}; nothing was fetched")
    for name, digest in _weights(result).items():
        terminal.say(f"  {digest}  {name}{'  (as given)' if name in result.proved else ''}")
    terminal.say()
    terminal.say("for stoker.toml:")
    terminal.say()
    for line in lines:
        terminal.say(f"    {line}" if line else "")
    terminal.say()
    for line in following:
        terminal.say(f"next: {line}")


def show_list(vault: Path, state: Path, serves: Sequence[Serve], json: bool) -> None:
    from stoker.fleet.weights.copying import FileHasher
    from stoker_setup import vault as vaults
    from stoker_setup.vault import staging_areas

    hashes = FileHasher(state)
    found = vaults.models(vault)
    known = {model.name: {model.key(f): hashes.cached(f) for f in model.weights} for model in found}
    users = {model.name: vaults.users(model, serves) for model in found}
    begun = staging_areas(vault)
    if json:
        terminal.emit({
            "vault": str(vault), "bytes": vaults.used(vault),
            "models": [{"model": f"vault:{m.name}", "path": str(m.path), "bytes": m.size, "files": len(m.files),
                        "missing": m.missing, "sha256": known[m.name], "used_by": users[m.name]} for m in found],
            "unfinished": [{"model": f"vault:{box.name}", "bytes": box.size, "source": _origin(box.note)}
                           for box in begun],
        })  # fmt: skip
        return
    rows = [
        (
            f"vault:{model.name}", figures.size(model.size),
            f"{len(model.files)}" + (f" of {len(model.files) + model.missing}" if model.missing else ""),
            _digest(known[model.name]), ", ".join(users[model.name]) or figures.UNKNOWN,
        )
        for model in found
    ]  # fmt: skip
    if rows:
        terminal.table(_COLUMNS, rows, right=_COLUMNS[1:3])
    else:
        terminal.say(f"{vault} is empty")
    for box in begun:
        terminal.say(f"unfinished: vault:{box.name}, {figures.size(box.size)} so far, from {_origin(box.note) or '?'}")
    terminal.say(f"{figures.size(vaults.used(vault))} in {vault}")


def _origin(note: Any) -> str | None:
    return note.source if note is not None else None


def _digest(known: dict[str, str | None]) -> str:
    """The beginning of the one digest; of several, how many are known."""
    digests = [digest for digest in known.values() if digest is not None]
    if len(known) == 1 and digests:
        return f"{digests[0][:12]}…"
    return f"{len(digests)} of {len(known)} known" if digests else figures.UNKNOWN


def _weights(result: Prefetched) -> dict[str, str]:
    from stoker.fleet.weights.sources import is_file

    found = {name: digest for name, digest in result.sha256.items() if is_file(name)}
    return found or dict(result.sha256)


def _engine_of_a_folder() -> str:
    from stoker.engines.record import Weights
    from stoker.engines.registry import those

    first, *others = (jsons.dumps(name) for name in those(lambda one: one.weights is Weights.FOLDER))
    return f"engine = {first}   # or {', '.join(others)}"


def _lines(order: Order, result: Prefetched, serves: Sequence[Serve]) -> list[str]:
    pairs = [f"{jsons.dumps(name)} = {jsons.dumps(digest)}" for name, digest in _weights(result).items()]
    digests = [f"sha256 = {{ {pairs[0]} }}"] if len(pairs) == 1 else ["[serve.sha256]", *pairs]
    users = _users(result, serves)
    if users:
        return [f"# in serve '{users[0]}', at its end", *digests]
    lines = ["[[serve]]", f"name = {jsons.dumps(_serve_name(result))}"]
    lines += [_engine_of_a_folder()] if order.is_folder else []
    lines += [f"model = {jsons.dumps(f'vault:{result.name}')}"]
    if not order.source.query:  # a signed address is no place to come back to
        lines += [f"source = {jsons.dumps(str(order.source))}"]
    return [*lines, *digests]


def _next(result: Prefetched, serves: Sequence[Serve], place: str) -> list[str]:
    """`place`: the options that lead to the same Stoker."""
    users = _users(result, serves)
    name = users[0] if users else _serve_name(result)
    fit = name if users else shlex.quote(str(result.path))
    added = [] if users else [f"put these lines into stoker.toml, then stoker reload{place}"]
    gate = f"stoker gate {name} --for ALIAS{place}, then stoker promote ALIAS {name}{place}"
    return [f"stoker fit {fit}{place}", *added, gate]


def _users(result: Prefetched, serves: Sequence[Serve]) -> list[str]:
    return [serve.name for serve in serves if serve.model == str(result.path)]


def _serve_name(result: Prefetched) -> str:
    from stoker.store.files.split_gguf import parse_part

    file = result.path.name
    split = parse_part(file)
    stem = split.stem if split is not None else re.sub(r"\.(gguf|safetensors|bin|pth?)$", "", file)
    return re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:64] or "model"

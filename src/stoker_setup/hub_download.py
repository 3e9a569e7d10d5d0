"""What has to be fetched for one model of a hub repository: each file at its commit, with the digest that the hub has.

It is fetched over HTTP by Stoker itself, so that it is resumed and its progress is known, with no program installed.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from stoker.fleet.weights.sources import SourceKind, WeightSource, parse
from stoker.store.files.split_gguf import model_files
from stoker_setup.hub import Hub, HubFile, HubRefused, HubRepository
from stoker_setup.prefetch import Item, Order, checked_name

_OF_A_FOLDER = (".safetensors", ".json", ".txt", ".model", ".jinja", ".tiktoken", ".py")
"""Endings of what engines read beside the weights."""


def hub_order(hub: Hub, repository: HubRepository, model: str, name: str | None = None) -> Order:
    """`model`: as `Choice.file`. `name`: in the vault; None: its own. Raises HubRefused for a file that is not there,
    and ValueError for a name that a vault cannot have.
    """
    if model.endswith(".gguf"):
        called = checked_name(name or model.rpartition("/")[2])
        names = model_files(called)
        files = [_file(repository, path) for path in model_files(model)]
        named = {PurePosixPath(own).name: file for own, file in zip(names, files, strict=True)}
    else:
        folder = "" if model == "./" else model
        called = checked_name(name or (folder.rstrip("/") or repository.name).rpartition("/")[2])
        named = {
            file.path.removeprefix(folder): file
            for file in repository.files
            if file.path.startswith(folder)
            and "/" not in file.path.removeprefix(folder)
            and file.path.endswith(_OF_A_FOLDER)
        }
    items = tuple(Item(own, parse(hub.url(repository, file.path))) for own, file in named.items())
    digests = {own: file.sha256 for own, file in named.items() if file.sha256}
    source = WeightSource(SourceKind.HF, repository.name, "" if model == "./" else model)
    return Order(called, source, items, not model.endswith(".gguf"), digests)


def _file(repository: HubRepository, path: str) -> HubFile:
    file = repository.file(path)
    if file is None:
        raise HubRefused(f"{repository.name} has no {path}, a part of this model: take another one")
    return file

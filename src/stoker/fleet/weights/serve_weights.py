"""The weights of a serve: which files they are, what is missing, what stands in the way, download it, is it right."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from stoker.blocking import in_own_thread
from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve
from stoker.fleet.weights.copying import FileHasher
from stoker.fleet.weights.download import Downloader, DownloadRequest, OnDownloadProgress, mismatch, tool_missing
from stoker.fleet.weights.drafts import draft_of, existing
from stoker.fleet.weights.sources import TOOLS, SourceKind, is_file, of_file, of_folder, parse
from stoker.store.files.split_gguf import model_files

_ENDINGS = (".safetensors", ".gguf", ".bin", ".pt")


def weights_of(serve: Serve) -> dict[str, int]:
    """Path to bytes: a GGUF file with all its parts, or the weights in a model's directory.

    Empty if unknown: a hub id, a model elsewhere, a missing part. Blocks while it reads the directory.
    """
    if not os.path.isabs(serve.model):
        return {}
    try:
        return {path: os.stat(path).st_size for path in _weight_files(serve.model)}
    except OSError:
        return {}


def _weight_files(model: str) -> list[str]:
    if os.path.isdir(model):
        return sorted(entry.path for entry in os.scandir(model) if entry.name.endswith(_ENDINGS))
    return model_files(model)


def missing(serve: Serve) -> list[str]:
    """The files (or the folder) of `model` that are not there, as absolute paths. A few stats; touches nothing.

    Of a folder that is there, the files that `sha256` names. A hub id or a name for the engine's own use: nothing.
    """
    model = serve.model
    if not os.path.isabs(model):
        return []
    if is_file(model):
        return [path for path in model_files(model) if not os.path.exists(path)]
    if os.path.isfile(model):
        return []
    if not os.path.isdir(model) or not os.listdir(model):
        return [model]
    named = [os.path.join(model, name) for name in serve.sha256]
    return [path for path in named if not os.path.exists(path)]


class ServeWeights:
    """One per fleet. All methods belong to the loop's thread."""

    def __init__(
        self, state: str, environment: Mapping[str, str] = os.environ, free: Callable[[Path], int] | None = None
    ) -> None:
        self._hashes = FileHasher(Path(state))
        self._downloader = Downloader(self._hashes, environment, *((free,) if free else ()))

    def problems(self, serve: Serve) -> list[str]:
        """What stands in the way of fetching what is missing: one sentence each; empty also if nothing is missing, or
        the serve has no `source`. Milliseconds; touches nothing.
        """
        if serve.source is None or not (lacking := missing(serve)):
            return []
        who = f"serve '{serve.name}'"
        try:
            wanted = [self._wanted(serve, path) for path in lacking]
        except ValueError as error:
            return [f"{who}: {error}"]
        source = wanted[0].source
        if source.kind in TOOLS and self._downloader.find_tool(source.kind) is None:
            return [f"{who}: {tool_missing(source)}"]
        folder = existing(wanted[0].target.parent)
        if not os.access(folder, os.W_OK | os.X_OK):
            return [f"{who}: its weights are to be fetched into {folder}, which cannot be written: make it writable"]
        return []

    @property
    def listeners(self) -> int:
        """Callers that wait for a fetch under way."""
        return self._downloader.listeners

    async def download(self, serve: Serve, on_progress: OnDownloadProgress = lambda progress: None) -> None:
        """Fetch what is missing, each file verified before it gets its name. Nothing missing: nothing happens.

        Raises StartFailed: `bad_source`, `source_unreachable`, `hash_mismatch`, `disk_full`, `vault_unusable`,
        `tool_missing`. On cancel nothing is left half done, unless another caller waits for the same file.
        """
        lacking = await in_own_thread(partial(missing, serve))
        if not lacking:
            return
        if serve.source is None:
            raise StartFailed(
                f"the weights of serve '{serve.name}' were not found: {', '.join(lacking)}; put them there, correct "
                "`model`, or give the serve a `source`",
                code="cannot_start",
            )
        try:
            wanted = await in_own_thread(lambda: [self._wanted(serve, path) for path in lacking])
        except ValueError as error:
            raise StartFailed(f"serve '{serve.name}': {error}", code="bad_source") from error
        wanted = [replace(each, size=await self._downloader.size(each.source)) for each in wanted]
        sized, folder = wanted, wanted[0].target.parent
        await in_own_thread(lambda: self._downloader.check_room(folder, sum(_left(each) for each in sized)))
        for each in wanted:
            await self._downloader.download(each, on_progress)

    async def verify(self, serve: Serve) -> list[str]:
        """One sentence for each file that `sha256` names and that is not what it should be. Reads what it has not read
        before, in threads; what is missing is no problem here if there is a `source` to fetch it from.
        """
        if serve.sha256 and not os.path.isabs(serve.model):
            return [
                f"serve '{serve.name}' has `sha256`, and its `model` is no path whose files could be read: drop one"
            ]
        paths = await in_own_thread(lambda: [(name, Path(_path_of(serve, name))) for name in serve.sha256])
        found = await asyncio.gather(*(self._problem(serve, name, path) for name, path in paths))
        return [problem for problem in found if problem]

    async def _problem(self, serve: Serve, name: str, path: Path) -> str:
        try:
            digest = await self._hashes.sha256(path)
        except FileNotFoundError:
            if serve.source is not None:
                return ""
            return (
                f"`sha256` of serve '{serve.name}' names {path}, which does not exist: put it there, "
                "or correct `sha256`"
            )
        except OSError as error:
            return f"{path} of serve '{serve.name}' cannot be read ({error.strerror}): run Stoker as a user who may"
        if digest == serve.sha256[name].lower():
            return ""
        text = mismatch(name, str(path.parent), digest, serve.sha256[name])
        again = f"; `rm {path}` makes Stoker fetch it again" if serve.source is not None else ""
        return f"serve '{serve.name}': {text}{again}"

    def _wanted(self, serve: Serve, path: str) -> DownloadRequest:
        """Raises ValueError for an invalid source, or one that does not have this file.

        1. a file, or a part of one
        2. a whole folder
        3. a file in a folder that exists
        """
        source = parse(serve.source or "")
        if source.kind is SourceKind.PATH and os.path.isdir(source.path):
            source = of_folder(source)
        if is_file(serve.model):  # 1
            return DownloadRequest(Path(path), of_file(source, serve.model, path), _only(serve, os.path.basename(path)))
        folder = of_folder(source)
        if path == serve.model:  # 2
            return DownloadRequest(Path(path), folder, serve.sha256)
        name = os.path.relpath(path, serve.model)
        return DownloadRequest(Path(path), replace(folder, path=folder.path + name), _only(serve, name))  # 3


def _only(serve: Serve, name: str) -> Mapping[str, str]:
    return {name: serve.sha256[name]} if name in serve.sha256 else {}


def _path_of(serve: Serve, name: str) -> str:
    """Where a file that `sha256` names has to be: beside the model's file, or in the model's folder."""
    is_single = is_file(serve.model) or os.path.isfile(serve.model)
    return os.path.join(os.path.dirname(serve.model) if is_single else serve.model, name)


def _left(wanted: DownloadRequest) -> int:
    """Bytes that are still to come, as far as that is known."""
    try:
        return max(0, (wanted.size or 0) - draft_of(wanted.target).stat().st_size)
    except OSError:
        return wanted.size or 0

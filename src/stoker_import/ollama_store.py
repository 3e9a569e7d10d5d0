"""Reads Ollama's store: manifests, and the blobs that they name. It is read in place; nothing is copied or changed.

A manifest is a file `manifests/HOST/NAMESPACE/MODEL/TAG` that lists layers by their digest; the layer with the digest
`sha256:HEX` is the file `blobs/sha256-HEX`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.domain.errors import StokerError

_DIGEST = re.compile(r"sha256[:-]([0-9a-fA-F]{64})")
_PART = re.compile(r"\w[\w.:-]*", re.ASCII)
_LAYER = "application/vnd.ollama.image."
_HOST, _NAMESPACE, _TAG = "registry.ollama.ai", "library", "latest"
_LARGEST_TEXT = 2**20
"""Bytes of a manifest or a settings layer; larger ones are not read."""


class UnreadableStore(StokerError):
    """A store, or something in it, cannot be read. The message says what to do."""

    status = 400
    code = "unreadable_store"


@dataclass(frozen=True, slots=True)
class OllamaName:
    """A model's name, by its four parts."""

    host: str
    namespace: str
    model: str
    tag: str

    def __str__(self) -> str:
        """As `ollama list` shows it: `llama3.2:latest`, `hf.co/org/repo:Q4_K_M`."""
        return f"{self._untagged}:{self.tag}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name that Ollama's clients may use for it: also without the tag, if that is `latest`."""
        return (self._untagged, str(self)) if self.tag == _TAG else (str(self),)

    @property
    def short(self) -> str:
        """A name for a serve: `llama3.2`, `llama3.2-3b`, `Qwen3-8B-Q4_K_M`."""
        model = re.sub(r"[-_.]gguf$", "", self.model, flags=re.IGNORECASE)
        return model if self.tag == _TAG else f"{model}-{self.tag}"

    @property
    def _untagged(self) -> str:
        if self.host.lower() != _HOST:
            return f"{self.host}/{self.namespace}/{self.model}"
        return self.model if self.namespace.lower() == _NAMESPACE else f"{self.namespace}/{self.model}"


@dataclass(frozen=True, slots=True)
class OllamaLayer:
    """One layer of a manifest: `kind` is `model`, `params`, `template` and so on."""

    kind: str
    path: Path

    def text(self) -> str:
        """Raises UnreadableStore."""
        return _read_text(self.path)

    def values(self) -> Any:
        """The layer as JSON. Raises UnreadableStore."""
        return _read_json(self.path)


@dataclass(frozen=True, slots=True)
class StoredModel:
    """One manifest. `problem` says why it could not be read; then there are no layers."""

    name: OllamaName
    manifest: Path
    layers: tuple[OllamaLayer, ...] = ()
    config: Mapping[str, Any] | None = None
    """Ollama's metadata of the model: `remote_host`, `model_format` and so on."""
    problem: str = ""

    def of_kind(self, kind: str) -> tuple[OllamaLayer, ...]:
        """The layers of one kind, in the manifest's order."""
        return tuple(layer for layer in self.layers if layer.kind == kind)


def find_stores(environment: Mapping[str, str], home: Path, root: Path = Path("/")) -> list[Path]:
    """Directories with Ollama's models on this machine.

    1. `OLLAMA_MODELS`, from the environment or from Ollama's systemd unit -> only that one
    2. otherwise every usual place that exists
    """
    given = environment.get("OLLAMA_MODELS") or unit_environment(root).get("OLLAMA_MODELS")
    if given:
        return [Path(os.path.expanduser(given))]  # 1
    usual = [
        home / ".ollama" / "models",
        root / "usr/share/ollama/.ollama/models",
        root / "var/lib/ollama/models",
        root / "var/lib/ollama/.ollama/models",
        root / "var/snap/ollama/common/models",
    ]
    return [place for place in usual if os.path.lexists(place / "manifests") or _is_hidden(place)]  # 2


def _is_hidden(place: Path) -> bool:
    """Whether a store may exist that this user cannot see: in the home directory of Ollama's own user."""
    parent = place.parent.parent
    return parent.is_dir() and not os.access(parent, os.X_OK)


def unit_environment(root: Path = Path("/")) -> dict[str, str]:
    """What Ollama's systemd unit and its drop-ins set as `Environment=`. Later lines override earlier ones."""
    folder = root / "etc/systemd/system"
    files = [folder / "ollama.service", *sorted((folder / "ollama.service.d").glob("*.conf"))]
    found: dict[str, str] = {}
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.strip().partition("=")
            if key.strip() == "Environment":
                found.update(_assignments(value))
    return found


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text)
    except ValueError:  # an unclosed quotation mark: systemd ignores the line, too
        return
    for word in words:
        name, is_set, value = word.partition("=")
        if is_set:
            yield name, value


def manifest_files(store: Path) -> list[tuple[OllamaName, Path]]:
    """Every manifest and its name, by name, `latest` first; hidden files are skipped. Raises UnreadableStore."""
    found = []
    try:
        for path in _at_depth(store / "manifests", 4):
            parts = path.relative_to(store / "manifests").parts
            if all(_PART.fullmatch(part) for part in parts):
                found.append((OllamaName(*parts), path))
    except PermissionError as error:
        raise UnreadableStore(
            f"{store} cannot be read by this user: add yourself to Ollama's group with "
            "`sudo usermod -aG ollama $USER`, log in again, and repeat"
        ) from error
    except OSError as error:
        raise UnreadableStore(
            f"{store} is not a store of Ollama's models ({error.strerror}): give the directory that has `manifests` "
            "and `blobs` in it"
        ) from error
    return sorted(found, key=lambda one: (one[0].host, one[0].namespace, one[0].model, one[0].tag != _TAG, one[0].tag))


def _at_depth(folder: Path, depth: int) -> Iterator[Path]:
    for entry in os.scandir(folder):
        if entry.name.startswith("."):
            continue
        if depth == 1 and entry.is_file():
            yield Path(entry.path)
        elif depth > 1 and entry.is_dir():
            yield from _at_depth(Path(entry.path), depth - 1)


def read_model(store: Path, name: OllamaName, manifest: Path) -> StoredModel:
    """Reads one model. If its manifest is invalid, `problem` says why."""
    try:
        found = _read_json(manifest)
        layers = tuple(_layer(store, row) for row in _rows(found))
        config = _config(store, found)
    except UnreadableStore as error:
        return StoredModel(name, manifest, problem=error.message)
    except (KeyError, TypeError, ValueError):
        return StoredModel(name, manifest, problem=f"{manifest} is not a manifest: remove it, or `ollama pull {name}`")
    return StoredModel(name, manifest, layers, config)


def _rows(manifest: Any) -> list[Any]:
    rows = manifest["layers"]
    if not isinstance(rows, list):
        raise TypeError("layers")
    return rows


def _layer(store: Path, row: Any) -> OllamaLayer:
    kind = str(row["mediaType"]).removeprefix(_LAYER).partition(";")[0]
    return OllamaLayer(kind, blob_path(store, row["digest"]))


def blob_path(store: Path, digest: str) -> Path:
    """Raises ValueError if `digest` is not a SHA-256 digest: then it could name a file outside the store."""
    found = _DIGEST.fullmatch(digest)
    if found is None:
        raise ValueError(f"{digest!r} is not a digest")
    return store / "blobs" / f"sha256-{found[1]}"


def _config(store: Path, manifest: Any) -> Mapping[str, Any]:
    """Ollama's metadata of the model; empty if it is missing, because nothing depends on it."""
    row = manifest.get("config")
    if not isinstance(row, dict) or not row.get("digest"):
        return {}
    try:
        found = _read_json(blob_path(store, row["digest"]))
    except UnreadableStore:
        return {}
    return found if isinstance(found, dict) else {}


def _read_json(path: Path) -> Any:
    try:
        return json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise UnreadableStore(f"{path} is not JSON: remove the model, or pull it again") from error


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_TEXT + 1)
    except FileNotFoundError as error:
        raise UnreadableStore(f"{path} is gone: pull the model again") from error
    except OSError as error:
        raise UnreadableStore(f"{path} cannot be read ({error.strerror}): correct its permissions") from error
    if len(data) > _LARGEST_TEXT:
        raise UnreadableStore(f"{path} is larger than {_LARGEST_TEXT} bytes: pull the model again")
    return data.decode("utf-8", "replace")

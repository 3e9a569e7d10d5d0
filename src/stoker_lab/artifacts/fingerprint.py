"""What was measured, in parts that can be read: so that a difference names itself.

identity    model, revision, quantisation, template, sampling
execution   everything else that may change what comes out, or how fast

A part that is not known is left out, and never taken for equal.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

from stoker.domain.run import IDENTITY_PARTS, Fingerprint
from stoker.domain.serve import Secret, Serve, in_place
from stoker.store.files.split_gguf import parse_part

SPARK = "sha256:f981f90eb28b433c7a1aed9abed26545d0f05565db767dda4824faad0351948e"
EMBER = "sha256:9f44de25ce36ed5f7fa1ca380cc865d7ba578491c89cd9c65aebca2174ae50b5"
"""The models in the package, by the part `model` of their fingerprints."""
_ELSEWHERE = frozenset(
    ("name", "model", "served_name", "slot", "slots", "driver", "port", "host", "health", "canary", "key", "key_header",
     "env", "inherit_env", "cwd", "cmd", "extra_args", "tuning", "dialects", "asks_dialects", "directory", "requires",
     "die_with_parent", "engine", "memory", "base_url", "up", "container", "unit")
)  # fmt: skip
"""Settings that change nothing of what comes out, or are parts under another name."""
_OF_IDENTITY = frozenset(("chat_template", "sampling", "quantization", "metrics"))
_SECRET = re.compile(r"(^|[_-])(token|secret|password|passwd|credentials?|keys?)($|[_-])", re.IGNORECASE)
_COMMIT = re.compile(r"/snapshots/([0-9a-f]{40})(/|$)")


class EngineReport(NamedTuple):
    """What the engine says of itself; None: it was not asked, or does not say."""

    props: Any = None
    """llama.cpp's /props."""
    models: Any = None
    version: Any = None


class FingerprintDifference(NamedTuple):
    """Between two fingerprints: `template: 1f2e... -> 99ab...`."""

    identity: list[str]
    unknown: list[str]
    """Parts of the identity that one of the two does not know."""
    execution: list[str]


def fingerprint(
    serve: Serve, report: EngineReport, digests: Mapping[str, str], packages: Mapping[str, str] | None = None
) -> Fingerprint:
    """`digests`: sha256 by path, for the serve's readable files. `packages`: the engine's packages, version by name."""
    identity = _identity(serve, report, digests)
    execution = _execution(serve, report, packages or {})
    known = all(name in identity for name in IDENTITY_PARTS)
    return Fingerprint(_hex(identity) if known else "", _hex(execution), identity | execution)


def reported_fingerprint(model: str, report: EngineReport) -> Fingerprint:
    """Of a server that somebody else runs: what it says of itself. Its identity stays unknown."""
    serve = Serve(model, served_name=model)
    props = report.props if isinstance(report.props, dict) else {}
    meta = _meta(report.models, model)
    found = {
        "template": _template(serve, props, {}),
        "version": _version(report),
        "reported.model": str(props.get("model_path") or ""),
        "reported.meta": _hex({name: str(value) for name, value in meta.items()}) if meta else "",
    }
    return Fingerprint(parts={name: value for name, value in (found | _reported(report, serve)).items() if value})


def difference(before: Fingerprint, after: Fingerprint) -> FingerprintDifference:
    """What changed. Nothing in `identity` and `unknown`: a baseline of `before` counts for `after`."""
    mine, yours = before.parts, after.parts
    differing: list[str] = []
    unknown: list[str] = []
    for name in IDENTITY_PARTS:
        if name not in mine or name not in yours:
            unknown.append(f"{name}: {mine.get(name, 'unknown')} -> {yours.get(name, 'unknown')}")
        elif mine[name] != yours[name]:
            differing.append(f"{name}: {mine[name]} -> {yours[name]}")
    names = sorted((mine.keys() | yours.keys()) - set(IDENTITY_PARTS))
    changed = [name for name in names if mine.get(name) != yours.get(name)]
    execution = [f"{name}: {mine.get(name, 'none')} -> {yours.get(name, 'none')}" for name in changed]
    return FingerprintDifference(differing, unknown, execution)


def identity_files(serve: Serve) -> list[Path]:
    """Whose sha256 its identity needs: the weights, and a template that is a file."""
    found = []
    model = Path(serve.model) if serve.model.startswith("/") else None
    if model is not None and model.is_file():
        found = [path for path in map(Path, _model_files(model)) if path.is_file()]
    elif model is not None and model.is_dir():
        kept = ("*.safetensors", "*.json", "*.jinja", "*.bin", "*.model", "*.gguf")
        found = sorted({path for pattern in kept for path in model.glob(pattern) if path.is_file()})
    template = serve.tuning.chat_template
    if template is not None and os.path.isfile(os.path.join(serve.directory, template)):
        found.append(Path(os.path.join(serve.directory, template)))
    return found


# -- identity ------------------------------------------------------------------------------------------------------


def _identity(serve: Serve, report: EngineReport, digests: Mapping[str, str]) -> dict[str, str]:
    props = report.props if isinstance(report.props, dict) else {}
    meta = _meta(report.models, serve.served_name or serve.name)
    commit = _COMMIT.search(os.path.realpath(serve.model) if serve.model.startswith("/") else serve.model)
    model = _model(serve, digests)
    named = serve.tuning.quantization
    quantisation = str(meta.get("ftype") or props.get("model_ftype") or "")
    found = {
        "model": model,
        # The files' own digest says which revision they are, and how they were quantised.
        "revision": commit[1] if commit else ("as in the files" if model else ""),
        "quantisation": named or ("as in the files" if model else quantisation),
        "template": _template(serve, props, digests),
        "sampling": _sampling(serve),
    }
    return {name: value for name, value in found.items() if value}


def _sampling(serve: Serve) -> str:
    """What the engine takes where a request says nothing, and what the serve's requests are made to say."""
    found: dict[str, Any] = dict(serve.tuning.sampling)
    if serve.request:
        found["request"] = asdict(serve.request)
    return json.dumps(found, sort_keys=True) if found else "default"


def _model(serve: Serve, digests: Mapping[str, str]) -> str:
    listed = [path for path in identity_files(serve) if not _is_template(serve, path)]
    if not listed or any(str(path) not in digests for path in listed):
        return ""
    if len(listed) == 1:
        return f"sha256:{digests[str(listed[0])]}"
    return "sha256 of all:" + _hex({path.name: digests[str(path)] for path in listed})


def _template(serve: Serve, props: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    """1. what the engine says that it uses  2. the file that it was given  3. the one named  4. those beside the
    weights."""
    said = props.get("chat_template")
    if isinstance(said, str):  # 1
        return "sha256:" + hashlib.sha256(said.encode()).hexdigest()
    given = serve.tuning.chat_template
    if given is not None:
        path = os.path.join(serve.directory, given)
        return f"sha256:{digests[path]}" if path in digests else ("" if os.path.isfile(path) else given)  # 2, 3
    beside = {Path(path).name: digest for path, digest in digests.items()}
    own: dict[str, str] = {
        name: beside[name] for name in ("chat_template.jinja", "tokenizer_config.json") if name in beside
    }
    return "sha256 of all:" + _hex(own) if own else ""  # 4


def _is_template(serve: Serve, path: Path) -> bool:
    given = serve.tuning.chat_template
    return given is not None and str(path) == os.path.join(serve.directory, given)


def _model_files(model: Path) -> list[str]:
    part = parse_part(str(model))
    return [str(model)] if part is None else part.siblings()


# -- execution -----------------------------------------------------------------------------------------------------


def _execution(serve: Serve, report: EngineReport, packages: Mapping[str, str]) -> dict[str, str]:
    found = {"engine": serve.engine, "version": _version(report)}
    not_of_output = _ELSEWHERE | in_place()
    for one in fields(serve):
        value = getattr(serve, one.name)
        if one.name not in not_of_output and value not in (None, False, "", ()):
            found[one.name] = _plain(value)
    for one in fields(serve.tuning):
        value = getattr(serve.tuning, one.name)
        if one.name not in _OF_IDENTITY and value not in (None, False, ()) and value != {}:
            found[one.name] = _plain(value)
    if serve.cmd is not None:
        found["command"] = " ".join(without_secrets(serve.cmd))
    if serve.extra_args:
        found["extra_args"] = " ".join(without_secrets(serve.extra_args))
    for name, value in serve.env.items():
        found[f"environment.{name}"] = "set" if _SECRET.search(name) else hashlib.sha256(value.encode()).hexdigest()[:8]
    found |= _reported(report, serve)
    found |= {f"package.{name}": version for name, version in packages.items()}
    return {name: value for name, value in found.items() if value}


def _reported(report: EngineReport, serve: Serve) -> dict[str, str]:
    props = report.props if isinstance(report.props, dict) else {}
    settings = props.get("default_generation_settings")
    own = settings.get("n_ctx") if isinstance(settings, dict) else None
    weights = _meta(report.models, serve.served_name or serve.name).get("ftype")
    found = {"reported.weights": weights, "reported.context": own, "reported.slots": props.get("total_slots")}
    return {name: str(value) for name, value in found.items() if isinstance(value, int | str)}


def _version(report: EngineReport) -> str:
    for source, key in ((report.props, "build_info"), (report.version, "version")):
        if isinstance(source, dict) and isinstance(source.get(key), str):
            return str(source[key])[:100]
    return ""


def without_secrets(words: Sequence[str]) -> list[str]:
    """A command line with `***` for the value of `--api-key X`, `--hf-token=X` and their like."""
    shown: list[str] = []
    hides = False
    for word in words:
        option, has_value, _ = word.partition("=")
        is_secret = option.startswith("-") and _SECRET.search(option.lstrip("-")) is not None
        shown.append("***" if hides else f"{option}=***" if is_secret and has_value else word)
        hides = is_secret and not has_value
    return shown


def _meta(models: Any, served_name: str) -> Mapping[str, Any]:
    listed = models.get("data") if isinstance(models, dict) else None
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and entry.get("id") == served_name and isinstance(entry.get("meta"), dict):
            return dict(entry["meta"])
    return {}


def _plain(value: object) -> str:
    if isinstance(value, Secret):
        return "set"
    if isinstance(value, Mapping):
        return json.dumps(dict(value), sort_keys=True, default=str)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted(str(one) for one in value) if isinstance(value, set | frozenset) else map(str, value))
    return str(value)


def _hex(parts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(parts), sort_keys=True).encode()).hexdigest()

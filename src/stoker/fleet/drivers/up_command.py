"""Reads the `up` command of a container serve, without running it: its kind, and whose container it creates. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.domain.serve import Serve
from stoker.engines import own_command
from stoker.engines.launch import LaunchPlace
from stoker.fleet.drivers.containers import CONFIG_HASH, Container, ContainerRecord
from stoker.fleet.drivers.docker import before_verb, is_compose

_SERVICE = "com.docker.compose.service"
_PROJECT = "com.docker.compose.project"
_FILES = "com.docker.compose.project.config_files"
_DIRECTORY = "com.docker.compose.project.working_dir"
_KEY = re.compile(r"^(?P<indent> *)(?P<key>[^\s#:][^:]*):(?: (?P<value>.*))?$")

_SWITCH = re.compile(
    r"-[ditPq]+|--(detach|disable-content-trust|init|interactive|no-healthcheck|oom-kill-disable|privileged|publish-all"
    r"|quiet|read-only|rm|sig-proxy|tty|use-api-socket)"
)
"""The options of `docker run` that take no value."""


@dataclass(frozen=True, slots=True)
class Service:
    """One service of a Compose file. `image` is empty if Compose builds the image."""

    name: str
    container: str
    image: str = ""


def fill(serve: Serve) -> list[str]:
    """`up` with its placeholders filled in, as for `cmd`; `{key}` is the serve's own key. Empty: it has no `up`."""
    if not serve.up:
        return []
    key = serve.key.reveal() if serve.key is not None else ""
    return list(own_command.launch(replace(serve, cmd=serve.up, extra_args=()), LaunchPlace(serve.port or 0, key)).argv)


def problems(serve: Serve, words: Sequence[str]) -> list[str]:
    """What is wrong with the text of `up`."""
    if "{key}" in " ".join(serve.up or ()) and serve.key is None:
        return [f"`up` of serve '{serve.name}' has a {{key}}, and the serve has no `key`: give it one"]
    verb = verb_of(words)
    flags = [word for word in words if word.startswith("-")]
    is_detached = any(f in ("--detach", "--detach=true", "--wait", "--no-start") or _is_short_d(f) for f in flags)
    if verb in ("run", "up") and not is_detached:
        return [f"`up` of serve '{serve.name}' would not return: add -d, so that the container runs in the background"]
    return []


def verb_of(words: Sequence[str]) -> str:
    """The verb: `run`, `create` or another one of docker, `up` or another one of Compose; empty if it is neither."""
    if is_compose(words):
        rest = words[len(before_verb(words)) :]
    elif words and os.path.basename(words[0]) == "docker":
        rest = words[2:] if "container" in words[1:2] else words[1:]
    else:
        rest = []
    return rest[0] if rest else ""


def named_image(words: Sequence[str]) -> str:
    """The image of a `docker run` or `docker create`: its first word that is no option and no option's value."""
    verb = verb_of(words)
    rest = iter(words[words.index(verb) + 1 :])
    for word in rest:
        if not word.startswith("-"):
            return word
        if "=" not in word and _SWITCH.fullmatch(word) is None:
            next(rest, None)
    return "IMAGE"


def runs_another_command(container: Container, words: Sequence[str]) -> bool:
    """Whether `docker run` or `docker create` would run another command than the one in this container of its image."""
    if verb_of(words) not in ("run", "create") or container.image not in words:
        return False
    given = tuple(words[list(words).index(container.image) + 1 :])
    return bool(given) and given != container.command


def only_creates(words: Sequence[str]) -> bool:
    """Whether the container still has to be started afterwards."""
    return verb_of(words) == "create" or "--no-start" in words


def ownership_problem(container: Container, made: ContainerRecord | None, words: Sequence[str], directory: str) -> str:
    """Empty if `up` makes this container; otherwise who seems to have made it.

    1. Stoker has a record of creating it: ours.
    2. Compose made it: ours if `up` is Compose with the same project directory, files and project.
    3. `docker` made it: ours if `up` names its image.
    4. `up` is something else: unknown, so not ours.
    """
    if made is not None and made.id == container.id:  # 1
        return ""
    labels = container.labels
    if _PROJECT in labels:  # 2
        if is_compose(words) and _is_same_project(labels, words, directory):
            return ""
        return f"belongs to the Compose project '{labels[_PROJECT]}' of {labels.get(_DIRECTORY) or 'unknown place'}"
    if is_compose(words):
        return "was not made by Compose"
    if verb_of(words) in ("run", "create"):  # 3
        return "" if container.image in words else f"uses the image {container.image}, which `up` does not name"
    return "was not made by Stoker"  # 4


def hash_command(words: Sequence[str], service: str) -> list[str]:
    """The command that prints Compose's hash of a service's configuration."""
    return [*before_verb(words), "config", "--hash", service]


def config_command(words: Sequence[str]) -> list[str]:
    """The command that prints the whole configuration, in a canonical form."""
    return [*before_verb(words), "config"]


def service_of(container: Container | None) -> str:
    """The Compose service that the container was created for; empty if none."""
    return container.labels.get(_SERVICE, "") if container is not None and CONFIG_HASH in container.labels else ""


def services(config: str) -> list[Service]:
    """The services in the output of `config_command`: YAML from Compose itself, block style, two spaces per level."""
    found: list[Service] = []
    section, service, values = "", "", dict[str, str]()
    for line in [*config.splitlines(), "end:"]:
        match = _KEY.match(line)
        if match is None:
            continue
        depth, key = len(match["indent"]) // 2, _plain(match["key"])
        if depth <= 1 and service:
            image = "" if "build" in values else values.get("image", "")
            found.append(Service(service, values.get("container_name", ""), image))
            service, values = "", {}
        if depth == 0:
            section = key
        elif section == "services" and depth == 1:
            service = key
        elif section == "services" and depth == 2:
            values[key] = _plain(match["value"] or "")
    return found


def service_for(services: Sequence[Service], container: str) -> Service | None:
    """The service that creates a container of this name: its `container_name`, or Compose's own PROJECT-SERVICE-1."""
    for service in services:
        default = rf".+[-_]{re.escape(service.name)}[-_][0-9]+"
        if service.container == container or (not service.container and re.fullmatch(default, container)):
            return service
    return None


def _plain(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _is_same_project(labels: Mapping[str, str], words: Sequence[str], directory: str) -> bool:
    options = _options(before_verb(words))
    files = [os.path.join(directory, name) for name in options.get("file", [])]
    default = os.path.dirname(files[0]) if files else directory
    place = os.path.join(directory, options.get("project-directory", [default])[0])
    if os.path.realpath(labels.get(_DIRECTORY, "")) != os.path.realpath(place):
        return False
    # By their base names: Compose 1 writes paths as they were typed, from wherever that was.
    theirs = {os.path.basename(name) for name in labels.get(_FILES, "").split(",") if name}
    if files and theirs and theirs != {os.path.basename(name) for name in files}:
        return False
    project = options.get("project-name", [])
    return not project or labels[_PROJECT] == project[0]


def _options(words: Sequence[str]) -> dict[str, list[str]]:
    """`--name value`, `--name=value` and the two short ones that matter here."""
    found: dict[str, list[str]] = {}
    long = {"-f": "file", "-p": "project-name"}
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word in long or (name.startswith("--") and not equals):
            value = words[index + 1] if index + 1 < len(words) else ""
        elif not equals:
            continue
        found.setdefault(long.get(name, name.removeprefix("--")), []).append(value)
    return found


def _is_short_d(word: str) -> bool:
    return re.fullmatch(r"-[a-zA-Z]*d[a-zA-Z]*", word) is not None

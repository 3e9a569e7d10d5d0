"""What `source` says, and the commands that fetch from there. Pure.

    /mnt/models/spark.gguf   https://HOST/PATH   rsync:HOST:PATH   s3://BUCKET/KEY   hf:ORG/REPO[/FILE]

A source that ends in `/` is a folder (so is `hf:ORG/REPO`): a file is looked for in it under its own name. Without it,
it is the one file, or the first part of a split GGUF, whose other parts then lie beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import quote, urlsplit

from stoker.store.files.split_gguf import parse_part

_FILES = (".gguf", ".safetensors", ".bin", ".pt", ".pth")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]*")
_REPO = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")
_IN_A_PATH = "/%:@!$&'()*+,;=-._~"
_LIST_LINE = re.compile(r"^-\S*\s+([0-9,.]+)\s+\d{4}/\d\d/\d\d\s")
_S3_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s+(\d+)\s")


class SourceKind(StrEnum):
    PATH = "path"
    HTTP = "http"
    RSYNC = "rsync"
    S3 = "s3"
    HF = "hf"


@dataclass(frozen=True, slots=True)
class WeightSource:
    """`place` is the host, the bucket or the repository; `path` the file or folder there, empty: all of it.

    For a web address `place` is `https://HOST`, and `query` what follows the question mark. That may be a signature, so
    it is never printed: `url` is the whole address, for the server only.
    """

    kind: SourceKind
    place: str
    path: str
    query: str = ""

    @property
    def is_folder(self) -> bool:
        return not self.path or self.path.endswith("/")

    @property
    def name(self) -> str:
        """The last word of its path; empty for a folder."""
        return self.path.rpartition("/")[2]

    @property
    def url(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.place}/{quote(self.path, safe=_IN_A_PATH)}{query}"

    def __str__(self) -> str:
        match self.kind:
            case SourceKind.PATH:
                return self.path
            case SourceKind.HTTP:
                return f"{self.place}/{self.path}" + "?***" * bool(self.query)
            case SourceKind.RSYNC:
                return f"rsync:{self.place}:{self.path}"
            case SourceKind.S3:
                return f"s3://{self.place}/{self.path}"
            case SourceKind.HF:
                return f"hf:{self.place}/{self.path}".rstrip("/")


@dataclass(frozen=True, slots=True)
class DownloadTool:
    """A command, in order of preference under the names it goes by, and what to type when it is not there."""

    names: tuple[str, ...]
    install: str


TOOLS = {
    SourceKind.RSYNC: DownloadTool(("rsync",), "install the package rsync here and on the other host"),
    SourceKind.S3: DownloadTool(("aws",), "type `pip install awscli`, then `aws configure`"),
    SourceKind.HF: DownloadTool(("hf", "huggingface-cli"), "type `pip install huggingface_hub`"),
}


def parse(text: str) -> WeightSource:
    """Raises ValueError with a sentence that says what is wrong and how it is written."""
    if text.startswith("rsync:"):
        return _rsync(text)
    if text.startswith("s3://"):
        return _s3(text)
    if text.startswith("hf:"):
        return _hf(text)
    if text.startswith(("http://", "https://")):
        return _http(text)
    if text.startswith("/"):
        return WeightSource(SourceKind.PATH, "", text)
    raise ValueError(
        f"`source` {text!r} is not supported: write an absolute path, https://HOST/PATH, rsync:HOST:PATH, "
        "s3://BUCKET/KEY or hf:ORG/REPO/FILE"
    )


def _http(text: str) -> WeightSource:
    said = repr(text.partition("?")[0])
    try:
        url = urlsplit(text)
        is_address = bool(url.hostname) and url.port != 0
    except ValueError:
        is_address = False
    if not is_address or "#" in text or any(ord(letter) <= 0x20 or letter == "\x7f" for letter in text):
        raise ValueError(f"`source` {said} is not a valid address: write https://HOST/PATH, a space as %20 and no #")
    if "@" in url.netloc:
        raise ValueError(
            f"`source` {url.scheme}://***@{url.netloc.rpartition('@')[2]} has a password in it, which would end in "
            "logs: write https://HOST/PATH without it, or fetch by rsync, s3 or hf, whose tools have their own logins"
        )
    return WeightSource(SourceKind.HTTP, f"{url.scheme}://{url.netloc}", url.path.removeprefix("/"), url.query)


def _rsync(text: str) -> WeightSource:
    host, colon, path = text.removeprefix("rsync:").partition(":")
    if not colon or not path or _HOST.fullmatch(host) is None:
        raise ValueError(f"`source` {text!r} names no host and path: write rsync:HOST:PATH, or rsync:USER@HOST:PATH")
    return WeightSource(SourceKind.RSYNC, host, path)


def _s3(text: str) -> WeightSource:
    bucket, _, key = text.removeprefix("s3://").partition("/")
    if _BUCKET.fullmatch(bucket) is None:
        raise ValueError(f"`source` {text!r} names no bucket: write s3://BUCKET/KEY, or s3://BUCKET/FOLDER/")
    return WeightSource(SourceKind.S3, bucket, key)


def _hf(text: str) -> WeightSource:
    org, _, rest = text.removeprefix("hf:").partition("/")
    repo, _, file = rest.partition("/")
    place = f"{org}/{repo}"
    if _REPO.fullmatch(place) is None or file.startswith("-") or ".." in file.split("/"):
        raise ValueError(f"`source` {text!r} names no repository: write hf:ORG/REPO, or hf:ORG/REPO/FILE")
    return WeightSource(SourceKind.HF, place, file)


# -- what a model consists of ------------------------------------------------------------------------------------------


def is_file(model: str) -> bool:
    """Whether a model of this name is a file; else it is a folder, as the model hub's are."""
    return model.endswith(_FILES)


def of_file(source: WeightSource, model: str, wanted: str) -> WeightSource:
    """Where file `wanted` of `model` is. Raises ValueError: the source is one file, and `wanted` is not that one.

    1 a folder: under its own name  2 the model itself: what is named  3 a later part: the source's own later part
    """
    name = wanted.rpartition("/")[2]
    if source.is_folder:  # 1
        return replace(source, path=source.path + name)
    if wanted == model:  # 2
        return source
    mine, its = parse_part(wanted), parse_part(source.path)
    if mine is None or its is None or mine.count != its.count:
        raise ValueError(
            f"`source` {source} is one file, and {name} is another: name the first part, or the folder with a / at its "
            "end"
        )
    return replace(source, path=str(replace(its, number=mine.number)))  # 3


def of_folder(source: WeightSource) -> WeightSource:
    """The folder that holds a model which is one. Raises ValueError for what can only be a file."""
    if source.kind is SourceKind.HF and source.path:
        raise ValueError(f"`source` {source} is a part of a repository, and `model` is a folder: write hf:ORG/REPO")
    if source.kind is SourceKind.HTTP:
        raise ValueError(
            f"`source` {source} cannot be listed, and `model` is a folder: name a file (https://HOST/PATH/FILE.gguf), "
            "or write hf:ORG/REPO, s3://BUCKET/FOLDER/ or rsync:HOST:PATH"
        )
    return source if source.is_folder else replace(source, path=f"{source.path}/")


# -- commands ----------------------------------------------------------------------------------------------------------


def download_command(source: WeightSource, tool: str, draft: str) -> tuple[str, ...]:
    """The command line that fetches `source` to `draft`: a file, or a folder if `source` is one.

    The hub's client cannot choose a file's name: its draft is always a folder, with the file in it under its path.
    """
    match source.kind:
        case SourceKind.RSYNC:
            # Delta transfer into the existing draft: it continues after an interruption, and checks what it finds.
            options = ("-rLt", "-s", "--partial", "--inplace", "--timeout=120")
            return (tool, *options, "--", f"{source.place}:{source.path}", draft + "/" * source.is_folder)
        case SourceKind.S3:
            recursive = ("--recursive",) if source.is_folder else ()
            return (tool, "s3", "cp", "--only-show-errors", *recursive, str(source), draft)
        case SourceKind.HF:
            file = (source.path,) if source.path else ()
            return (tool, "download", source.place, *file, "--local-dir", draft)
        case SourceKind.PATH | SourceKind.HTTP:
            raise ValueError(f"{source} needs no tool: Stoker fetches it itself")


def size_command(source: WeightSource, tool: str) -> tuple[str, ...] | None:
    """The argument list that says how large a file is; None: nothing tells."""
    if source.is_folder:
        return None
    match source.kind:
        case SourceKind.RSYNC:
            return (tool, "-L", "-s", "--list-only", "--timeout=30", "--", f"{source.place}:{source.path}")
        case SourceKind.S3:
            return (tool, "s3", "ls", str(source))
        case _:
            return None


def parse_size(kind: SourceKind, said: Sequence[str]) -> int | None:
    """Bytes, from what `size_command` wrote; None: it cannot be read out of it."""
    pattern = _LIST_LINE if kind is SourceKind.RSYNC else _S3_LINE
    found = [match[1] for line in said if (match := pattern.match(line.strip())) is not None]
    return int(re.sub(r"[,.]", "", found[0])) if len(found) == 1 else None

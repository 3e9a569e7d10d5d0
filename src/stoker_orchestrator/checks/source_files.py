"""The files that the blocks of an answer make, laid out in a directory, for checks that run programs on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from stoker_orchestrator.loop.blocks import WorkerBlock, file_text

_MAX_PATH = 200


def source_before(block: WorkerBlock, committed: Sequence[WorkerBlock]) -> str:
    """The committed text of the file that a block belongs to. Blocks without a file make one together, by language."""
    return "".join(one.text for one in committed if _is_same_file(one, block))


def source_of(block: WorkerBlock, committed: Sequence[WorkerBlock]) -> str:
    """The same with the blank lines that stand between blocks, as it is written to the project."""
    return file_text(one.text for one in committed if _is_same_file(one, block))


def write_committed(directory: Path, committed: Sequence[WorkerBlock]) -> None:
    """The named files as far as they are committed. Raises OSError."""
    texts: dict[str, str] = {}
    for block in committed:
        if block.is_code and block.path:
            texts[block.path] = texts.get(block.path, "") + block.text
    for path, text in texts.items():
        target = path_within(directory, path)
        if target is not None:
            write_file(target, text)


def write_file(target: Path, text: str) -> None:
    """Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8", "replace")


def path_within(directory: Path, path: str) -> Path | None:
    """Where a file of the answer goes; None: it would leave the directory, or is no file's name."""
    pure = PurePosixPath(path)
    if (
        pure.is_absolute()
        or path.startswith("~")
        or ".." in pure.parts
        or not pure.parts
        or not path.isprintable()
        or len(path) > _MAX_PATH
    ):
        return None
    return directory / pure


def _is_same_file(one: WorkerBlock, block: WorkerBlock) -> bool:
    return one.is_code and one.path == block.path and (bool(block.path) or one.language == block.language)

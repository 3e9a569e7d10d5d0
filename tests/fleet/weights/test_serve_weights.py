"""What is there is what it should be, without reading it at every start; and what stands in the way of fetching."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.fleet.weights.vault import Vault, sha256

from stoker.domain.serve import Serve
from stoker.fleet.weights import copying
from stoker.fleet.weights.copying import FileHasher
from stoker.fleet.weights.serve_weights import ServeWeights

CONTENT = b"weights" * 1000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read to be hashed."""
    seen: list[Path] = []
    hash_file = copying.hash_file
    monkeypatch.setattr(copying, "hash_file", lambda path, stop: seen.append(path) or hash_file(path, stop))
    return seen


def verify(vault: Vault, serve: Serve) -> list[str]:
    return asyncio.run(vault.weights().verify(serve))


def test_a_file_is_read_once_and_remembered_across_restarts(vault: Vault, reads: list[Path]) -> None:
    (vault.path / "m.gguf").write_bytes(CONTENT)
    serve = vault.serve(sha256={"m.gguf": sha256(CONTENT)})
    assert verify(vault, serve) == []
    assert verify(vault, serve) == []
    assert len(reads) == 1
    assert (vault.state / "hashes.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["content", "time", "inode"])
def test_a_file_that_changed_is_read_again(vault: Vault, reads: list[Path], change: str) -> None:
    path = vault.path / "m.gguf"
    path.write_bytes(CONTENT)
    serve = vault.serve(sha256={"m.gguf": sha256(CONTENT)})
    assert verify(vault, serve) == []
    if change == "content":
        path.write_bytes(b"other")
    elif change == "time":
        os.utime(path, (1, 1))
    else:
        copy = vault.path / "copy"
        copy.write_bytes(b"x" * len(CONTENT))
        os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        copy.rename(path)
    assert bool(verify(vault, serve)) == (change != "time")
    assert len(reads) == 2


def test_what_was_just_fetched_is_not_read_again(vault: Vault, reads: list[Path]) -> None:
    serve = vault.serve(source=vault.put("m.gguf", CONTENT), sha256={"m.gguf": sha256(CONTENT)})
    asyncio.run(vault.weights().download(serve))
    assert verify(vault, serve) == []
    assert reads == []


def test_a_memory_that_is_broken_or_cannot_be_written_costs_time_only(vault: Vault, reads: list[Path]) -> None:
    (vault.path / "m.gguf").write_bytes(CONTENT)
    serve = vault.serve(sha256={"m.gguf": sha256(CONTENT)})
    (vault.state / "hashes.json").write_text('{"x": 3')
    assert verify(vault, serve) == []
    (vault.state / "hashes.json").unlink()
    (vault.state / "hashes.json").mkdir()
    assert verify(vault, serve) == []
    assert len(reads) == 2


def test_files_that_are_gone_are_forgotten(vault: Vault) -> None:
    async def story() -> None:
        hashes = FileHasher(vault.state)
        for name in ("a", "b"):
            (vault.path / name).write_bytes(b"x")
            await hashes.sha256(vault.path / name)
            (vault.path / "a").unlink(missing_ok=True)

    asyncio.run(story())
    memory = (vault.state / "hashes.json").read_text()
    assert str(vault.path / "b") in memory
    assert str(vault.path / "a") not in memory


def test_what_another_program_has_read_is_known_and_not_forgotten(vault: Vault, reads: list[Path]) -> None:
    async def story() -> None:
        mine, other = (FileHasher(vault.state) for _ in range(2))
        for name in ("a", "b"):
            (vault.path / name).write_bytes(CONTENT)
        assert mine.cached(vault.path / "a") is None
        await mine.sha256(vault.path / "a")
        await other.sha256(vault.path / "b")
        assert mine.cached(vault.path / "b") == other.cached(vault.path / "a") == sha256(CONTENT)
        assert mine.cached(vault.path / "none") is None

    asyncio.run(story())
    assert len(reads) == 2


def test_one_file_asked_for_twice_at_once_is_read_no_more_than_there_are_turns(vault: Vault, reads: list[Path]) -> None:
    (vault.path / "m.gguf").write_bytes(CONTENT)

    async def story() -> None:
        hashes = FileHasher(vault.state)
        assert len(set(await asyncio.gather(*(hashes.sha256(vault.path / "m.gguf") for _ in range(6))))) == 1

    asyncio.run(story())
    assert len(reads) <= 2


def test_a_wrong_file_names_both_digests_and_how_to_get_it_again(vault: Vault) -> None:
    (vault.path / "m.gguf").write_bytes(CONTENT)
    wanted = "ab" * 32
    [problem] = verify(vault, vault.serve(sha256={"m.gguf": wanted}))
    assert sha256(CONTENT) in problem
    assert wanted in problem
    assert "rm " not in problem
    [problem] = verify(vault, vault.serve(sha256={"m.gguf": wanted}, source="hf:org/repo"))
    assert f"`rm {vault.path}/m.gguf` makes Stoker fetch it again" in problem


def test_a_missing_file_is_a_problem_only_where_nothing_can_bring_it(vault: Vault) -> None:
    [problem] = verify(vault, vault.serve(sha256={"m.gguf": "ab" * 32}))
    assert "which does not exist: put it there" in problem
    assert verify(vault, vault.serve(sha256={"m.gguf": "ab" * 32}, source="hf:org/repo")) == []
    folder = vault.serve("Model", sha256={"a.safetensors": "ab" * 32})
    assert f"{vault.path}/Model/a.safetensors" in verify(vault, folder)[0]


def test_a_hash_for_a_model_that_is_no_path_is_not_ignored_in_silence(vault: Vault) -> None:
    [problem] = verify(vault, Serve(name="a", model="org/model", sha256={"x": "ab" * 32}))
    assert "its `model` is no path" in problem


def test_a_file_that_cannot_be_read_is_a_sentence(vault: Vault) -> None:
    (vault.path / "m.gguf").mkdir()
    [problem] = verify(vault, vault.serve(sha256={"m.gguf": "ab" * 32}))
    assert "cannot be read (Is a directory)" in problem


def test_cancelling_stops_the_reading(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    (vault.path / "m.gguf").write_bytes(CONTENT)
    stopped = []
    seen = asyncio.Event()

    async def story() -> None:
        loop = asyncio.get_running_loop()

        def reading(path: Path, stop: object) -> str:
            loop.call_soon_threadsafe(seen.set)
            stopped.append(stop.wait(10))  # type: ignore[attr-defined]
            raise copying.CopyStopped

        monkeypatch.setattr(copying, "hash_file", reading)
        task = loop.create_task(FileHasher(vault.state).sha256(vault.path / "m.gguf"))
        await seen.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert stopped == [True]


# -- what stands in the way --------------------------------------------------------------------------------------------


def problems(vault: Vault, serve: Serve) -> list[str]:
    async def ask() -> list[str]:
        return vault.weights().problems(serve)

    return asyncio.run(ask())


def test_nothing_stands_in_the_way_where_nothing_is_missing_or_nothing_is_to_be_fetched(vault: Vault) -> None:
    assert problems(vault, vault.serve()) == []
    (vault.path / "m.gguf").touch()
    assert problems(vault, vault.serve(source="nonsense")) == []


def test_a_source_that_is_none_and_a_tool_that_is_missing_are_known_beforehand(vault: Vault) -> None:
    assert "serve 'a': `source` 'nonsense' is not supported" in problems(vault, vault.serve(source="nonsense"))[0]
    for source, advice in (
        ("hf:org/repo", "pip install huggingface_hub"),
        ("s3://bucket/k", "pip install awscli"),
        ("rsync:host:m", "install the package rsync"),
    ):
        [problem] = problems(vault, vault.serve(source=source))
        assert "which is not on PATH" in problem
        assert advice in problem
    vault.tool("hf", "")
    assert problems(vault, vault.serve(source="hf:org/repo")) == []


def test_a_vault_that_cannot_be_written_is_known_beforehand(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(vault.path))
    [problem] = problems(vault, vault.serve(source=str(vault.source)))
    assert f"into {vault.path}, which cannot be written" in problem


def test_a_bad_source_is_a_failed_start_with_its_own_code(vault: Vault) -> None:
    async def story() -> None:
        from stoker.domain.errors import StartFailed

        with pytest.raises(StartFailed) as failed:
            await ServeWeights(str(vault.state)).download(vault.serve(source="nonsense"))
        assert failed.value.code == "bad_source"

    asyncio.run(story())

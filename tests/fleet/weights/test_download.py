"""Missing weights come back whole and verified, or not at all: from paths, and by tools that write down their words."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.fleet.weights.vault import Vault, sha256

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve
from stoker.fleet.weights import copying
from stoker.fleet.weights.serve_weights import missing

CONTENT = bytes(range(256)) * 40


def fetch(vault: Vault, serve: Serve) -> None:
    asyncio.run(vault.weights().download(serve, vault.told.append))


def refusal(vault: Vault, serve: Serve) -> StartFailed:
    with pytest.raises(StartFailed) as failed:
        fetch(vault, serve)
    return failed.value


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "CHUNK", 1000)


# -- what is missing ---------------------------------------------------------------------------------------------------


def test_missing_are_the_files_that_are_not_there_and_nothing_of_a_hub_id(vault: Vault) -> None:
    split = vault.serve("m-00001-of-00002.gguf")
    (vault.path / "m-00002-of-00002.gguf").touch()
    assert missing(split) == [split.model]
    assert missing(Serve(name="a", model="org/model")) == []
    folder = vault.serve("Model", sha256={"a.safetensors": "0" * 64})
    assert missing(folder) == [folder.model]
    Path(folder.model).mkdir()
    assert missing(folder) == [folder.model], "an empty folder holds no model"
    (vault.path / "Model" / "config.json").touch()
    assert missing(folder) == [f"{folder.model}/a.safetensors"]
    (vault.path / "Model" / "a.safetensors").touch()
    assert missing(folder) == []
    (vault.path / "plain").touch()
    assert missing(vault.serve("plain")) == []


def test_nothing_missing_is_nothing_to_do_even_without_a_source(vault: Vault) -> None:
    (vault.path / "m.gguf").write_bytes(b"x")
    fetch(vault, vault.serve())
    assert vault.left() == ["m.gguf"]


def test_missing_without_a_source_says_what_to_do(vault: Vault) -> None:
    failed = refusal(vault, vault.serve())
    assert failed.code == "cannot_start"
    assert "give the serve a `source`" in failed.message


# -- from a path -------------------------------------------------------------------------------------------------------


def test_a_file_comes_back_verified_with_its_progress(vault: Vault) -> None:
    source = vault.put("other-name.gguf", CONTENT)
    fetch(vault, vault.serve(source=source, sha256={"m.gguf": sha256(CONTENT).upper()}))
    assert (vault.path / "m.gguf").read_bytes() == CONTENT
    assert vault.left() == ["m.gguf"]
    assert (vault.told[-1].file, vault.told[-1].done, vault.told[-1].total) == ("m.gguf", len(CONTENT), len(CONTENT))


def test_all_parts_come_from_a_folder_and_only_those_that_are_missing(vault: Vault) -> None:
    names = [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    for name in names:
        vault.put(name, name.encode())
    (vault.path / names[1]).write_bytes(b"mine")
    fetch(vault, vault.serve(names[0], source=str(vault.source)))
    assert [(vault.path / name).read_bytes() for name in names] == [names[0].encode(), b"mine", names[2].encode()]


def test_a_model_that_is_a_folder_comes_whole_and_single_files_of_it_too(vault: Vault) -> None:
    vault.put("M/config.json", b"{}")
    vault.put("M/sub/a.safetensors", CONTENT)
    serve = vault.serve("M", source=str(vault.source / "M"), sha256={"sub/a.safetensors": sha256(CONTENT)})
    fetch(vault, serve)
    assert vault.left() == ["M/config.json", "M/sub/a.safetensors"]
    (vault.path / "M/sub/a.safetensors").unlink()
    fetch(vault, serve)
    assert (vault.path / "M/sub/a.safetensors").read_bytes() == CONTENT


def test_a_wrong_hash_leaves_nothing_and_names_both_digests(vault: Vault) -> None:
    serve = vault.serve(source=vault.put("m.gguf", CONTENT), sha256={"m.gguf": "ab" * 32})
    failed = refusal(vault, serve)
    assert failed.code == "hash_mismatch"
    assert sha256(CONTENT) in failed.message
    assert "ab" * 32 in failed.message
    assert vault.left() == []


def test_a_folder_with_a_wrong_or_missing_file_leaves_nothing(vault: Vault) -> None:
    vault.put("M/a.safetensors", CONTENT)
    for name in ("a.safetensors", "b.safetensors"):
        failed = refusal(vault, vault.serve("M", source=str(vault.source / "M"), sha256={name: "ab" * 32}))
        assert failed.code == "hash_mismatch"
        assert name in failed.message
        assert not (vault.path / "M").exists()
    assert vault.left() == []


def test_a_source_that_is_not_there_says_so(vault: Vault) -> None:
    failed = refusal(vault, vault.serve(source=str(vault.source / "none.gguf")))
    assert (failed.code, failed.status) == ("source_unreachable", 503)
    assert f"cannot be fetched from {vault.source}/none.gguf: No such file" in failed.message


def test_without_room_nothing_is_begun_and_the_shortfall_is_named(vault: Vault) -> None:
    vault.room = 4000
    failed = refusal(vault, vault.serve(source=vault.put("m.gguf", CONTENT)))
    assert failed.code == "disk_full"
    assert "make room for 6,240 more" in failed.message
    assert vault.told == []


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel refuses to write more: as near to a full disk as a test gets without one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_chunks")
def test_a_disk_that_gets_full_ends_it_and_the_part_is_removed(vault: Vault) -> None:
    serve = vault.serve(source=vault.put("m.gguf", CONTENT))
    with largest_file(5500):
        failed = refusal(vault, serve)
    assert failed.code == "disk_full"
    assert "became full while m.gguf was fetched" in failed.message
    assert vault.left() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_small_file_system_that_gets_full_while_others_write_is_told_from_other_failures(vault: Vault) -> None:
    import subprocess

    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", vault.path], capture_output=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    try:
        vault.room = 10**9  # somebody else takes it meanwhile
        failed = refusal(vault, vault.serve(source=vault.put("m.gguf", bytes(200_000))))
        assert failed.code == "disk_full"
        assert vault.left() == []
    finally:
        subprocess.run(["umount", vault.path], check=True)


def test_a_vault_that_cannot_be_written_is_no_full_disk(vault: Vault) -> None:
    serve = vault.serve("sub/m.gguf", source=vault.put("m.gguf", CONTENT))
    (vault.path / "sub").write_text("a file where a folder is wanted")
    failed = refusal(vault, serve)
    assert failed.code == "vault_unusable"
    assert "make" in failed.message


# -- interrupted -------------------------------------------------------------------------------------------------------


def leave_half(vault: Vault, source: str, half: bytes) -> None:
    """As a killed program leaves it."""
    stat = os.stat(source)
    (vault.path / ".m.gguf.part").write_bytes(half)
    described = {"source": source, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    (vault.path / ".m.gguf.part.from").write_text(json.dumps(described))


@pytest.mark.usefixtures("small_chunks")
def test_an_interrupted_copy_goes_on_where_it_ended_and_its_hash_is_of_it_all(vault: Vault) -> None:
    source = vault.put("m.gguf", CONTENT)
    leave_half(vault, source, CONTENT[:6000])
    vault.room = len(CONTENT) - 6000  # only the rest needs room
    fetch(vault, vault.serve(source=source, sha256={"m.gguf": sha256(CONTENT)}))
    assert (vault.path / "m.gguf").read_bytes() == CONTENT
    assert min(told.done for told in vault.told) == 6000
    assert vault.left() == ["m.gguf"]


@pytest.mark.parametrize("change", ["time", "size", "note"])
def test_a_source_that_changed_meanwhile_is_copied_anew(vault: Vault, change: str) -> None:
    source = vault.put("m.gguf", CONTENT)
    leave_half(vault, source, b"x" * 6000)
    if change == "time":
        os.utime(source, (1, 1))
    elif change == "size":
        vault.put("m.gguf", CONTENT + b"more")
    else:
        (vault.path / ".m.gguf.part.from").unlink()
    fetch(vault, vault.serve(source=source))
    assert (vault.path / "m.gguf").read_bytes() == Path(source).read_bytes()


def test_a_source_that_breaks_off_keeps_its_part_for_the_next_attempt(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, small_chunks: None
) -> None:
    source = vault.put("m.gguf", CONTENT)
    reads = iter(range(5))

    def breaking(read: Any, path: Path) -> bytes:
        if next(reads, None) is None:
            raise copying.SourceUnreadable(f"{path}: Input/output error")
        return bytes(read(1000))

    with monkeypatch.context() as broken:
        broken.setattr(copying, "read_block", breaking)
        failed = refusal(vault, vault.serve(source=source))
    assert failed.code == "source_unreachable"
    assert "Input/output error" in failed.message
    assert vault.left() == [".m.gguf.part", ".m.gguf.part.from"]
    vault.told.clear()
    fetch(vault, vault.serve(source=source))
    assert min(told.done for told in vault.told) == 5000
    assert (vault.path / "m.gguf").read_bytes() == CONTENT


def test_a_source_that_changes_while_it_is_copied_is_no_model(vault: Vault) -> None:
    source = Path(vault.put("m.gguf", CONTENT))
    with pytest.raises(copying.SourceUnreadable, match="was changed while it was copied"):
        copying.copy(source, vault.path / "d", threading.Event(), lambda done: source.write_bytes(CONTENT + b"x"))


class Gate:
    """Holds a copy up at its first chunk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        read = copying.read_block

        def held(each: Any, path: Path) -> bytes | None:
            self.reached.set()
            self.open.wait(10)
            return read(each, path)

        monkeypatch.setattr(copying, "read_block", held)


def test_two_fetches_of_one_file_are_one_and_both_are_told(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    copies: list[Path] = []
    copy = copying.copy
    monkeypatch.setattr(copying, "copy", lambda source, *rest: copies.append(source) or copy(source, *rest))
    serve = vault.serve(source=vault.put("m.gguf", CONTENT))
    mine: list[Any] = []

    async def story() -> None:
        weights = vault.weights()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(weights.download(serve, vault.told.append))
            tasks.create_task(weights.download(serve, mine.append))
            await asyncio.to_thread(gate.reached.wait, 10)
            while weights.listeners < 2:  # the second one may still be on its way
                await asyncio.sleep(0.001)
            gate.open.set()

    asyncio.run(story())
    assert len(copies) == 1
    assert vault.told[-1].done == mine[-1].done == len(CONTENT)
    assert vault.left() == ["m.gguf"]


def test_who_leaves_does_not_end_it_for_the_other_and_the_last_one_leaves_nothing(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = vault.serve(source=vault.put("m.gguf", CONTENT))

    async def story(leaving: int) -> list[Any]:
        gate = Gate(monkeypatch)
        weights = vault.weights()
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(weights.download(serve)) for _ in range(2)]
        await asyncio.to_thread(gate.reached.wait, 10)
        while weights.listeners < 2:
            await asyncio.sleep(0)
        for task in tasks[:leaving]:
            task.cancel()
        await asyncio.sleep(0)
        gate.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    both = asyncio.run(story(2))
    assert [type(result) for result in both] == [asyncio.CancelledError] * 2
    assert vault.left() == []
    one = asyncio.run(story(1))
    assert [type(result) for result in one] == [asyncio.CancelledError, type(None)]
    assert vault.left() == ["m.gguf"]


def test_a_fetch_that_was_given_up_can_be_asked_for_again_at_once(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = vault.serve(source=vault.put("m.gguf", CONTENT))

    async def story() -> None:
        gate = Gate(monkeypatch)
        weights = vault.weights()
        first = asyncio.get_running_loop().create_task(weights.download(serve))
        await asyncio.to_thread(gate.reached.wait, 10)
        first.cancel()
        await asyncio.sleep(0)
        second = asyncio.get_running_loop().create_task(weights.download(serve))
        await asyncio.sleep(0)
        gate.open.set()
        await second
        assert first.cancelled()

    asyncio.run(story())
    assert vault.left() == ["m.gguf"]


# -- by tools ----------------------------------------------------------------------------------------------------------

BRING = 'pathlib.Path(sys.argv[-1]).write_bytes(b"weights")'
"""A tool that brings something to its last argument."""


def test_aws_is_asked_for_the_size_then_for_the_file(vault: Vault) -> None:
    vault.tool("aws", 'if sys.argv[2] == "ls":\n    print("2026-01-02 03:04:05  7 m.gguf")\nelse:\n    ' + BRING)
    fetch(vault, vault.serve(source="s3://bucket/models/", sha256={"m.gguf": sha256(b"weights")}))
    assert vault.asked() == [
        ["aws", "s3", "ls", "s3://bucket/models/m.gguf"],
        ["aws", "s3", "cp", "--only-show-errors", "s3://bucket/models/m.gguf", str(vault.path / ".m.gguf.part")],
    ]
    assert (vault.path / "m.gguf").read_bytes() == b"weights"


@pytest.mark.parametrize("name", ["hf", "huggingface-cli"])
def test_the_hubs_client_is_found_under_both_names_and_its_box_is_unpacked(vault: Vault, name: str) -> None:
    body = (
        "box = pathlib.Path(sys.argv[-1]); (box / '.cache').mkdir(parents=True); (box / 'q').mkdir()\n"
        "(box / 'q' / 'x.gguf').write_bytes(b'weights')"
    )
    vault.tool(name, body)
    fetch(vault, vault.serve(source="hf:org/repo/q/x.gguf"))
    box = str(vault.path / ".m.gguf.part.d")
    assert vault.asked() == [[name, "download", "org/repo", "q/x.gguf", "--local-dir", box]]
    assert (vault.path / "m.gguf").read_bytes() == b"weights"
    assert vault.left() == ["m.gguf"]


def test_a_whole_repository_becomes_a_folder_without_the_clients_notes(vault: Vault) -> None:
    vault.tool(
        "hf",
        "box = pathlib.Path(sys.argv[-1]); (box / '.cache').mkdir(parents=True)\n"
        "(box / 'config.json').write_bytes(b'{}')",
    )
    fetch(vault, vault.serve("Model", source="hf:org/repo"))
    assert vault.left() == ["Model/config.json"]
    assert not (vault.path / "Model" / ".cache").exists()


def test_a_tool_that_fails_is_quoted_without_secrets_and_leaves_nothing(vault: Vault) -> None:
    body = (
        'pathlib.Path(sys.argv[-1] + ".f00d").write_bytes(b"half") if sys.argv[2] == "cp" else None\n'
        'print("denied for", os.environ["SOME_TOKEN"]) or sys.exit(1 if sys.argv[2] == "cp" else 0)'
    )
    vault.tool("aws", body)
    failed = refusal(vault, vault.serve(source="s3://bucket/m.gguf"))
    assert failed.code == "source_unreachable"
    assert "aws ended with code 1: denied for ***" in failed.message
    assert vault.left() == []


def test_a_size_that_cannot_be_had_is_a_source_that_cannot_be_reached(vault: Vault) -> None:
    vault.tool("aws", "sys.exit(255)")
    failed = refusal(vault, vault.serve(source="s3://bucket/m.gguf"))
    assert failed.code == "source_unreachable"
    assert "ended with code 255: it printed nothing" in failed.message


def test_a_tool_that_ends_well_and_brings_nothing_is_a_failure(vault: Vault) -> None:
    vault.tool("hf", "")
    failed = refusal(vault, vault.serve(source="hf:org/repo/m.gguf"))
    assert "hf succeeded but fetched nothing" in failed.message


def test_a_tool_that_meets_a_full_disk_is_told_from_an_unreachable_source(vault: Vault) -> None:
    vault.tool("hf", 'print("OSError: [Errno 28] No space left on device"); sys.exit(1)')
    assert refusal(vault, vault.serve(source="hf:org/repo/m.gguf")).code == "disk_full"


def test_a_wrong_hash_of_what_a_tool_brought_leaves_nothing(vault: Vault) -> None:
    vault.tool("aws", 'if sys.argv[2] == "cp":\n    ' + BRING)
    failed = refusal(vault, vault.serve(source="s3://b1/m.gguf", sha256={"m.gguf": "ab" * 32}))
    assert failed.code == "hash_mismatch"
    assert vault.left() == []


def test_cancelling_ends_the_tool_with_what_it_started(vault: Vault) -> None:
    vault.link("sleep", str(shutil.which("sleep")))
    vault.tool(
        "hf",
        "import subprocess\nsubprocess.Popen(['sleep', '60'])\n"
        "box = pathlib.Path(sys.argv[-1]); box.mkdir(); (box / 'm.gguf').write_bytes(b'half')\ntime.sleep(60)",
    )

    before = set(psutil.Process().children(recursive=True))

    async def story() -> None:
        task = asyncio.get_running_loop().create_task(
            vault.weights().download(vault.serve(source="hf:org/repo/m.gguf"))
        )
        async with asyncio.timeout(10):
            while not vault.left():
                await asyncio.sleep(0.01)
        assert len(set(psutil.Process().children(recursive=True)) - before) == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert set(psutil.Process().children(recursive=True)) <= before
    assert vault.left() == []


def test_a_tool_that_cannot_be_run_says_so(vault: Vault) -> None:
    (vault.bin / "hf").write_text("#!/no/such/interpreter\n")
    (vault.bin / "hf").chmod(0o755)
    assert refusal(vault, vault.serve(source="hf:org/repo/m.gguf")).code == "tool_missing"


# -- by the real rsync -------------------------------------------------------------------------------------------------

SSH = "import subprocess\nsys.exit(subprocess.run(' '.join(sys.argv[2:]), shell=True).returncode)"
"""Instead of ssh: the first word is the host, the rest is run here."""


@pytest.fixture
def rsync(vault: Vault) -> Vault:
    found = shutil.which("rsync")
    if found is None:
        pytest.skip("rsync is not installed")
    vault.link("rsync", found)
    vault.tool("ssh", SSH)
    vault.environment |= {"RSYNC_RSH": str(vault.bin / "ssh"), "PATH": f"{vault.bin}:{os.environ['PATH']}"}
    return vault


def test_rsync_brings_a_file_with_its_size_known_and_a_name_with_spaces(rsync: Vault) -> None:
    source = rsync.put("my model.gguf", CONTENT)
    fetch(rsync, rsync.serve(source=f"rsync:host:{source}", sha256={"m.gguf": sha256(CONTENT)}))
    assert (rsync.path / "m.gguf").read_bytes() == CONTENT
    assert {told.total for told in rsync.told} <= {len(CONTENT)}
    assert [asked[1] for asked in rsync.asked()] == ["host", "host"]
    assert rsync.left() == ["m.gguf"]


def test_rsync_goes_on_with_what_an_interrupted_one_left_and_checks_it(rsync: Vault) -> None:
    source = rsync.put("m.gguf", CONTENT)
    (rsync.path / ".m.gguf.part").write_bytes(b"wrong" + CONTENT[5:6000])
    fetch(rsync, rsync.serve(source=f"rsync:host:{source}", sha256={"m.gguf": sha256(CONTENT)}))
    assert (rsync.path / "m.gguf").read_bytes() == CONTENT


def test_rsync_brings_a_folder(rsync: Vault) -> None:
    rsync.put("M/config.json", b"{}")
    rsync.put("M/sub/a.safetensors", CONTENT)
    fetch(rsync, rsync.serve("M", source=f"rsync:host:{rsync.source}/M"))
    assert rsync.left() == ["M/config.json", "M/sub/a.safetensors"]


def test_rsync_from_where_nothing_is_says_so(rsync: Vault) -> None:
    failed = refusal(rsync, rsync.serve(source=f"rsync:host:{rsync.source}/none.gguf"))
    assert failed.code == "source_unreachable"
    assert "rsync ended with code 23" in failed.message

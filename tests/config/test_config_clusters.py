"""Clusters, and slots that are shares of them: what the file may say, and what the fleet is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.app.configuration import placed_serves
from stoker.config.changes import changed_settings
from stoker.config.effective import show, to_toml
from stoker.domain.access import Settings
from stoker.domain.cluster import runs_here
from stoker.domain.serve import Driver, JobPlace

Loaded = Callable[[str], Settings]
Problems = Callable[[str], list[str]]
LAB = '[clusters.lab]\naddress = "http://head:8265/"\ntoken = "file:token"\n'
SLOT = '[slots.lab-a]\ncluster = "lab"\ngpus = 2\nnode = { box = "alpha" }\n'
SERVE = '[[serve]]\nname = "fast"\nengine = "openai"\ncmd = "x {port}"\nslot = "lab-a"\n'
BOTH = SERVE.replace('slot = "lab-a"', 'slots = ["gpu0", "lab-a"]')
SECOND = '[slots.lab-b]\ncluster = "lab"\ngpus = 2\n'
HUGE = (
    '[[serve]]\nname = "huge"\nengine = "vllm"\nmodel = "o/m"\nslot = "lab-a+lab-b"\n'
    "tensor_parallel = 2\npipeline_parallel = 2\n"
)
GPU = "[slots.gpu0]\ndevices = [0]\n"
SECRET = "t0k3n-of-the-cluster"


@pytest.fixture(autouse=True)
def _token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)


def test_a_process_serve_in_a_slot_of_a_cluster_is_a_job_there(loaded: Loaded) -> None:
    settings = loaded(LAB + SLOT + SERVE)
    [serve] = placed_serves(settings)
    assert serve.driver is Driver.RAY
    assert serve.job_place == JobPlace("lab", "http://head:8265", 2, {"box": "alpha"})
    assert not runs_here(settings.serves[0], settings.slots)


def test_the_driver_follows_the_slot_not_the_serve(loaded: Loaded) -> None:
    settings = loaded('[paths]\nvault = "vault"\n' + LAB + SLOT + GPU + BOTH)
    here, there = placed_serves(settings)
    assert (here.name, here.driver, here.env["CUDA_VISIBLE_DEVICES"]) == ("fast@gpu0", Driver.PROCESS, "0")
    assert "XDG_CACHE_HOME" in here.env
    assert (there.name, there.driver, dict(there.env)) == ("fast@lab-a", Driver.RAY, {})
    assert runs_here(settings.serves[0], settings.slots)


def test_a_place_of_several_slots_of_a_cluster_is_one_engine_with_a_rank_in_each(loaded: Loaded) -> None:
    settings = loaded(LAB + SLOT + SECOND + HUGE)
    [serve] = placed_serves(settings)
    assert serve.job_place is not None
    first, second = serve.job_place.ranks()
    assert (serve.slot, serve.driver) == ("lab-a+lab-b", Driver.RAY)
    assert first == JobPlace("lab", "http://head:8265", 2, {"box": "alpha"})
    assert second == JobPlace("lab", "http://head:8265", 2)
    assert not runs_here(settings.serves[0], settings.slots)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SLOT + SECOND.replace('"lab"', '"far"') + LAB.replace(".lab", ".far") + HUGE,
            "'lab-a+lab-b': slot 'lab-b' is in another cluster than slot 'lab-a': take slots of one only",
        ),
        (
            SLOT + SECOND.replace("gpus = 2", "gpus = 1") + HUGE,
            "its ranks need the same number of GPUs each, and `gpus` of these slots are 2 and 1",
        ),
        (
            SLOT + SECOND + HUGE.replace("pipeline_parallel = 2\n", ""),
            "these slots reserve 4 GPUs, and the engine is spread over 2: set `tensor_parallel = 2` and "
            "`pipeline_parallel = 2`, or two others whose product is 4",
        ),
        (
            SLOT + SECOND + '[[serve]]\nname = "a"\nmodel = "/m.gguf"\nslot = "lab-a+lab-b"\n',
            "engine llama.cpp runs on one machine, and vllm and sglang on several: make one slot with more `gpus`",
        ),
        (
            SLOT + SECOND + SERVE.replace("lab-a", "lab-a+lab-b"),
            "its command runs once per slot, as one rank of the engine; it has to use {rank}, {rendezvous_host}, "
            "{rendezvous_port}",
        ),
        (
            SLOT + SERVE.replace("{port}", "{port} {rank}"),
            "{rank} is for a place of several slots in a cluster (\"lab-a+lab-b\"), and slot 'lab-a' is a single one",
        ),
        (SLOT + SECOND + HUGE + 'rendezvous = "h:1"\n', "Stoker tells the ranks of an engine where they meet; remove"),
    ],
)
def test_a_place_that_cannot_hold_ranks_is_named_with_what_to_do(problems: Problems, text: str, expected: str) -> None:
    [problem] = problems(LAB + text)
    assert expected in problem


def test_the_token_is_shown_as_its_source_and_its_change_is_named(loaded: Loaded, tmp_path: Path) -> None:
    settings = loaded(LAB + SLOT + SERVE)
    assert SECRET not in to_toml(settings) + repr(settings)
    shown = show(settings)
    assert shown["clusters"] == {"lab": {"address": "http://head:8265", "token": "file:token"}}
    (tmp_path / "token").write_text("another-token")
    assert changed_settings(settings, loaded(LAB + SLOT + SERVE)) == ["clusters.lab.token"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SLOT + SERVE, "key 'slots.lab-a.cluster': there is no cluster 'lab'; add a section [clusters.lab]"),
        (LAB.replace("lab", "lap") + SLOT + SERVE, "there is no cluster 'lab'; did you mean 'lap'?"),
        ('[clusters.lab]\ntoken = "file:token"\n', "`address` is missing: address = \"http://HEAD:8265\""),
        ('[clusters.lab]\naddress = "http://h:1"\n', "`token` is missing: token = \"file:ray.token\""),
        (LAB.replace("http://head:8265/", "ray://head:1"), 'is not an http or https address; write one like "http:'),
        (LAB.replace("file:token", "abc"), "a secret must not be in this file"),
        (GPU.replace("devices = [0]", "gpus = 2"), "has no effect without `cluster`; name a cluster, or remove it"),
        (GPU.replace("devices = [0]", 'node = { a = "b" }'), "has no effect without `cluster`"),
        (LAB + SLOT + "devices = [0]\n" + SERVE, "cannot be used with `cluster`: a cluster chooses the"),
        (LAB + SLOT + 'memory = "8GiB"\n', "Ray reserves whole GPUs, so such a slot holds one serve at a time"),
        (LAB + SLOT + SERVE.replace('cmd = "x {port}"', 'container = "c"\nport = 1'), "where only processes run"),
        (LAB + SLOT + GPU + SERVE.replace("lab-a", "gpu0+lab-a"), "'gpu0+lab-a': slot 'gpu0' is on this machine, and"),
        (LAB + SLOT + SERVE + 'source = "/weights"\n', "Stoker does not see the files of a node"),
        (LAB + SLOT + SERVE + 'memory = "8GiB"\n', "Stoker does not see the memory of a node; remove it"),
        (LAB + SLOT + SERVE + 'warm = "pin"\n', "weights are kept in memory on this machine only"),
        (LAB + SLOT + SERVE + 'host = "0.0.0.0"\n', "a job listens on the address of its node; remove it"),
        (LAB + SLOT + SERVE + 'stop = "x"\n', "the command would run on this machine"),
        (LAB + SLOT + SERVE + 'requires = { files = ["f"] }\n', "it is checked on this machine, and the engine"),
        (LAB + SLOT + SERVE + 'conflicts = ["ollama"]\n', "they are looked for on this machine"),
        (LAB + SLOT + GPU + BOTH + 'warm = "pin"\n', "slot 'lab-a' is in cluster 'lab': weights are kept in memory"),
        (
            LAB + SLOT + '[[serve]]\nname = "a"\nmodel = "/m.gguf"\nslot = "lab-a"\ncontext = "auto"\n',
            "Stoker does not see the memory of a node: give a number",
        ),
        (
            LAB + SLOT + '[[serve]]\nname = "a"\nmodel = "/m.gguf"\nslot = "lab-a"\nkeep_conversations = true\n',
            "the saved caches would lie on the node",
        ),
        (
            LAB + SLOT + '[[serve]]\nname = "a"\nmodel = "o/m"\nengine = "vllm"\nslot = "lab-a"\ntensor_parallel = 4\n',
            "needs 4 GPUs, and slot 'lab-a' reserves 2: set `gpus = 4` there",
        ),
    ],
)  # fmt: skip
def test_a_wrong_one_is_named_with_what_to_do(problems: Problems, text: str, expected: str) -> None:
    [problem] = problems(text)
    assert expected in problem

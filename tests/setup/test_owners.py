"""What owners of usual machines see, from `init` to the page: two Intel cards, a GPU inside an AMD processor, two
unequal NVIDIA cards, cards of two vendors. The drivers and tools are fakes; the commands are real.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.fleet.memory.device_trees import GIB, write
from tests.fleet.memory.model_files import llama
from tests.scenarios.plane import poll
from tests.setup.machines import GAMING, amd_graphics, radeon, two_of_amd, two_of_intel, unequal, vulkaninfo

from stoker.cli.main import run
from stoker.fleet.memory import devices
from stoker.fleet.memory.devices import Amd, Intel, Nvidia
from stoker.fleet.memory.host import HostMemory
from stoker_devices.sampler import Sampler
from stoker_devices.server import document


class Owner:
    """A person at a machine: types commands, and looks at the page."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def types(self, *words: str, code: int = 0) -> str:
        """What is printed, the errors last."""
        ended = run(list(words))
        said = self._capsys.readouterr()
        assert ended == code, said.out + said.err
        return said.out + said.err

    def reads(self, *words: str) -> Any:
        """The document of a command, whatever its exit code: of `doctor` what it found, by part."""
        run([*words, "--json"])
        found = json.loads(self._capsys.readouterr().out)
        return {one["part"]: one for one in found} if words[0] == "doctor" else found

    def restricted(self, serve: str) -> str:
        """What its dry run shows before the command of an engine, or between the name of a container and its image."""
        [plan] = self.reads("serves", "up", serve, "--dry-run")
        words = shlex.split(plan["command"])
        if "--name" in words:
            return " ".join(words[words.index("--name") + 2 : -1])
        before = itertools.takewhile(lambda word: "=" in word, words)
        return " ".join(word for word in before if "_API_KEY=" not in word)

    def page(self) -> list[dict[str, Any]]:
        """The cards of devices: the page draws `devices` of /status."""
        return [document(reading) for reading in Sampler().read()]


Machine = Callable[..., Owner]
DOCKER = Path(__file__).parents[1] / "fleet" / "drivers" / "standin_docker.py"


@pytest.fixture
def at(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    """A machine with 32 GiB of main memory, two models of 4.5 GiB, and a llama-server built for something."""

    def machine(
        system: Mapping[str, str] | None = None, nvidia: object = None, build: str = "", vulkan: str = ""
    ) -> Owner:
        def load() -> object:
            if nvidia is None:
                raise ImportError
            return nvidia

        tree, proc = write(tmp_path / "sys", dict(system or {})), tmp_path / "proc"
        proc.mkdir()
        probes = Nvidia(load, proc, tmp_path / "dev"), Amd(tree, proc), Intel(tree, proc)
        monkeypatch.setattr(devices, "probes", lambda: probes)
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "llama-server").write_bytes(b"\x7fELF libllama.so")
        for interface in build.split():
            (tools / f"libggml-{interface}.so").touch()
        (tools / "said").write_text(vulkan)
        if vulkan:
            (tools / "vulkaninfo").write_text(f"#!/bin/sh\ncat {tools}/said\n")
        for tool in tools.iterdir():
            tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
            monkeypatch.delenv(name, raising=False)
        return Owner(capsys)

    memory = HostMemory(32 * GIB, 28 * GIB)
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: memory)
    for name in ("a", "b"):
        llama(Path(f"{name}.gguf"))
    return machine


def test_of_two_intel_cards_each_has_a_slot_and_its_engine_sees_it_alone(at: Machine) -> None:
    owner = at(two_of_intel(), build="sycl")
    said = owner.types("init", "--yes")
    assert "GPU     0: Intel GPU, 12.0 GiB\nGPU     1: Intel GPU, memory unknown\n" in said
    found = owner.reads("doctor")
    assert found["device 0000:08:00.0"]["detail"].endswith("`intel:1`, 0000:08:00.0; Level Zero 2, Vulkan unknown")
    assert "the runtime also counts graphics inside the processor" in found["device numbers"]["detail"]
    assert (
        "intel 0: Intel GPU, 12.0 GiB, xe driver; intel 1: Intel GPU, memory unknown, xe driver; intel: the driver "
        "does not show" in found["accelerators"]["detail"]
    )
    assert found["slots"]["health"] == "ok"
    assert owner.restricted("b") == "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ZE_AFFINITY_MASK=2"
    assert [one["verdict"] for one in owner.reads("fit")] == ["tight", "unknown"]
    file = Path("stoker.toml")
    assert "say what each serve may take" in file.read_text()
    file.write_text(file.read_text().replace('slot = "gpu1"\n', 'slot = "gpu1"\nmemory = "12GiB"\n'))
    [first, second] = owner.reads("fit")
    assert (first["verdict"], second["verdict"]) == ("tight", "fits"), "a size that a person gives counts"
    first_card, second_card = owner.page()
    assert (first_card["name"], first_card["memory"], first_card["temperature"]) == ("intel:0", 12 * GIB, 51)
    assert (second_card["name"], second_card["memory"], second_card["temperature"]) == ("intel:1", None, None)


PCI = "CUDA_DEVICE_ORDER=PCI_BUS_ID"
HIP = "HIP_VISIBLE_DEVICES=2 CUDA_VISIBLE_DEVICES=2"
LEVEL_ZERO = "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ZE_AFFINITY_MASK=2"
SECOND: dict[str, tuple[Callable[[Machine], Owner], tuple[str, str, str, str]]] = {
    "NVIDIA": (
        lambda at: at(nvidia=unequal(), build="cuda"),
        (f"{PCI} CUDA_VISIBLE_DEVICES=1", f"{PCI} CUDA_VISIBLE_DEVICES=1", f"{PCI} CUDA_VISIBLE_DEVICES=1",
         "--gpus device=GPU-22bb"),
    ),
    "AMD": (
        lambda at: at(two_of_amd(), build="hip"),
        ("ROCR_VISIBLE_DEVICES=GPU-c3d4", HIP, HIP, "--device /dev/kfd --device /dev/dri"),
    ),
    "Intel": (
        lambda at: at(two_of_intel(), build="sycl"),
        (LEVEL_ZERO, LEVEL_ZERO, LEVEL_ZERO, "--device /dev/dri"),
    ),
    "Vulkan": (
        lambda at: at(two_of_amd(), build="vulkan", vulkan=vulkaninfo("0000:0c:00.0", "0000:03:00.0")),
        ("GGML_VK_VISIBLE_DEVICES=0", HIP, HIP, "--device /dev/kfd --device /dev/dri"),
    ),
}  # fmt: skip
"""Machine -> what its dry runs show for the second card: llama.cpp, vLLM, SGLang, a container."""


@pytest.mark.parametrize("kind", SECOND)
def test_the_dry_run_shows_for_each_engine_what_restricts_it_to_the_second_card(
    at: Machine, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, expected = SECOND[kind]
    owner, tools = make(at), tmp_path / "tools"
    for program in ("vllm", "sglang"):
        (tools / program).write_text("#!/bin/sh\n")
    (tools / "docker").write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {DOCKER} "$@"\n')
    (tmp_path / "answers.json").write_text("{}")
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", str(tmp_path))
    for tool in tools.iterdir():
        tool.chmod(0o755)
    found = []
    for lines in (
        'model = "./a.gguf"',
        'model = "org/model"\nengine = "vllm"',
        'model = "org/model"\nengine = "sglang"',
        'container = "fast"\nport = 8100\nup = ["docker", "run", "-d", "--name", "fast", "{devices}", "img:1"]',
    ):
        file = f'[slots.gpu]\ndevices = [1]\n[[serve]]\nname = "a"\nslot = "gpu"\n{lines}\n'
        Path("stoker.toml").write_text(file)
        found.append(owner.restricted("a"))
    assert tuple(found) == expected


def test_a_gpu_inside_the_processor_without_memory_of_its_own_runs_models_in_main_memory(at: Machine) -> None:
    owner = at(amd_graphics(GIB // 2), build="vulkan", vulkan=vulkaninfo("0000:c4:00.0"))
    assert "none found with memory of its own; amd 0000:c4:00.0 computes in main memory" in owner.types("init", "--yes")
    assert "in main memory, on amd 0000:c4:00.0 or the CPU" in Path("stoker.toml").read_text()
    found = owner.reads("doctor")
    assert "models run on amd 0000:c4:00.0, if the engine is built for it" in found["accelerators"]["detail"]
    assert (found["accelerators"]["health"], found["slots"]["health"]) == ("ok", "ok")
    [one, _] = owner.reads("fit")
    assert ([place["place"] for place in one["places"]], one["verdict"]) == (["main memory"], "fits")
    assert owner.restricted("a") == "", "there is nothing to restrict"
    assert owner.page() == []


def test_a_gpu_inside_the_processor_has_main_memory_beside_its_own(at: Machine) -> None:
    owner = at(amd_graphics(4 * GIB), build="vulkan", vulkan=vulkaninfo("0000:c4:00.0"))
    assert "GPU     0: AMD GPU (gfx1103), 18.0 GiB" in owner.types("init", "--yes")
    found = owner.reads("doctor")
    assert "AMD GPU (gfx1103), 16.8 GiB of 18.0 GiB free" in found["accelerators"]["detail"]
    [one, _] = owner.reads("fit")
    assert (one["places"][0]["place"], one["verdict"]) == ("amd 0: AMD GPU (gfx1103)", "tight")
    assert one["context"] > 32_768, "more than its own 4 GiB would hold"
    [card] = owner.page()
    assert (card["name"], card["use"], card["memory"], card["memory_used"]) == ("amd:0", 0.37, 18 * GIB, 5 * GIB // 4)


def test_of_two_unequal_nvidia_cards_each_word_means_the_same_card_everywhere(at: Machine) -> None:
    owner = at(nvidia=unequal(), build="cuda")
    said = owner.types("init", "--yes")
    assert "GPU     0: RTX 3060, 12.0 GiB\nGPU     1: RTX 4090, 24.0 GiB\n" in said
    found = owner.reads("doctor")
    assert found["device 0000:41:00.0"]["detail"].startswith("RTX 4090, 570.1 driver; `nvidia:1`, GPU-22bb; CUDA 1")
    assert "CUDA by itself counts from the fastest device on" in found["device numbers"]["detail"]
    small, large = owner.reads("fit")
    assert (small["places"][0]["place"], large["places"][0]["place"]) == ("nvidia 0: RTX 3060", "nvidia 1: RTX 4090")
    assert small["context"] < large["context"], "each has what its card has room for"
    assert owner.restricted("b") == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1"
    [both] = owner.reads("fit", "./a.gguf")
    needed = [place["needed"] for place in both["places"][:2]]
    assert needed[1] > 1.8 * needed[0], "llama.cpp gives each as much as it has room for"
    assert [(card["name"], card["title"], card["temperature"]) for card in owner.page()] == [
        ("nvidia:0", "RTX 3060", 40), ("nvidia:1", "RTX 4090", 41)
    ]  # fmt: skip


def test_with_cards_of_two_vendors_models_go_to_those_that_the_engine_is_built_for(at: Machine) -> None:
    owner = at(radeon(), nvidia=unequal(), build="cuda")
    said = owner.types("init", "--yes")
    assert "GPU     nvidia:1: RTX 4090, 24.0 GiB\nGPU     amd:0: RX 7900 XT, 20.0 GiB\n" in said
    text = Path("stoker.toml").read_text()
    assert "[slots.amd0]" in text
    assert 'devices = ["amd:0"]' in text
    assert [one["slot"] for one in owner.reads("init", "--force")["serves"]] == ["nvidia0", "nvidia1"]
    assert owner.restricted("b") == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1"
    [one] = owner.reads("fit", "./a.gguf")
    assert [place["place"] for place in one["places"]] == ["nvidia 0: RTX 3060", "nvidia 1: RTX 4090", "main memory"]
    assert "not counted: amd:0 (RX 7900 XT): llama.cpp as it is built here (CUDA)" in owner.types("fit", "./a.gguf")
    assert [card["name"] for card in owner.page()] == ["amd:0", "nvidia:0", "nvidia:1"]


def test_where_nobody_knows_the_build_devices_of_one_vendor_count_and_the_reason_is_said(at: Machine) -> None:
    owner = at(radeon(), nvidia=unequal())
    said = owner.types("fit", "./a.gguf")
    assert "not counted: amd:0 (RX 7900 XT): most builds of llama.cpp use devices of one vendor only" in said
    Path("stoker.toml").write_text(
        '[slots.all]\ndevices = ["nvidia:1", "amd:0"]\n[[serve]]\nname = "a"\nmodel = "a.gguf"\nslot = "all"\n'
    )
    [one] = owner.reads("fit")
    assert len([place for place in one["places"] if place["place"] != "main memory"]) == 2, "the slot names both"
    assert one["not_counted"] is None


def test_room_that_earlier_prompts_may_take_in_main_memory_is_said_where_it_lacks(
    at: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = at(nvidia=unequal(), build="cuda")
    owner.types("init", "--yes")
    assert [one["warnings"] for one in owner.reads("fit")] == [[], []]
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(8 * GIB, 5 * GIB))
    [warning] = owner.reads("fit", "a")[0]["warnings"]
    assert "may grow to 8.0 GiB of main memory" in warning
    assert '`kv_offload = "2GiB"` limits it' in warning
    file = Path("stoker.toml")
    for line in ('kv_offload = "2GiB"', "keep_conversations = true", 'extra_args = ["--cache-ram", "2048"]'):
        file.write_text(file.read_text().replace('name = "a"\n', f'name = "a"\n{line}\n'))
        assert owner.reads("fit", "a")[0]["warnings"] == []
        file.write_text(file.read_text().replace(f"{line}\n", ""))


LIBRARY = """
from types import SimpleNamespace
CARDS = {cards!r}
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlSystemGetDriverVersion(): return "570.1"
def nvmlDeviceGetCount(): return len(CARDS)
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(card): return CARDS[card][0]
def nvmlDeviceGetMemoryInfo(card): return SimpleNamespace(total=CARDS[card][1] << 30, free=CARDS[card][1] << 30)
def nvmlDeviceGetPciInfo(card): return SimpleNamespace(busId=CARDS[card][2])
def nvmlDeviceGetUUID(card): return CARDS[card][3]
"""


def test_a_stoker_that_starts_says_what_its_device_numbers_mean_and_shows_the_cards(
    home: Path, tmp_path: Path, port: int
) -> None:
    (tmp_path / "pynvml.py").write_text(LIBRARY.format(cards=GAMING))
    Path("stoker.toml").write_text(f"""
[front_door]
port = {port}
[paths]
state = "state"
logs = "logs"
[slots.gpu0]
devices = [0]
[[serve]]
name = "a"
model = "a.gguf"
slot = "gpu0"
""")
    llama(Path("a.gguf"))
    code = "from stoker.cli.entry import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "up"], env=os.environ | {"PYTHONPATH": str(tmp_path)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as stoker:  # fmt: skip
        try:
            poll(lambda: devices_of(port), "the cards are read")
            shown = devices_of(port)
        finally:
            stoker.send_signal(signal.SIGTERM)
        said = stoker.communicate()[0]
    assert [(card["name"], card["title"], card["memory"]) for card in shown] == [
        ("nvidia:0", "RTX 3060", 12 * GIB), ("nvidia:1", "RTX 4090", 24 * GIB)
    ]  # fmt: skip
    assert "device numbers: CUDA by itself counts from the fastest device on" in said


def devices_of(port: int) -> list[dict[str, Any]]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/status", timeout=10) as answer:
            return list(json.load(answer).get("devices", []))
    except OSError:
        return []

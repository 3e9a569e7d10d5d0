"""`devices` of a slot, as what each engine obeys on each vendor's cards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.domain.serve import Driver, Serve, Slot
from stoker.engines import masks
from stoker.engines.masks import Card, MachineCards, masked
from stoker.engines.record import Api
from stoker.fleet.process.identity import KeySigner, fingerprint

NVIDIA = (
    Card("nvidia", 0, "GPU-11aa", "0000:01:00.0", "RTX 4090", numbers={Api.VULKAN: 1}, node="/dev/dri/renderD128"),
    Card("nvidia", 1, "GPU-22bb", "0000:41:00.0", "RTX 3060", numbers={Api.VULKAN: 0}, node="/dev/dri/renderD129"),
)
AMD = (  # the graphics inside the processor is HIP 0, and no card of Stoker's
    Card("amd", 0, "a1b2", "0000:03:00.0", numbers={Api.HIP: 1, Api.VULKAN: 0}, node="/dev/dri/renderD130"),
    Card("amd", 1, "c3d4", "0000:0c:00.0", numbers={Api.HIP: 2, Api.VULKAN: 1}, node="/dev/dri/renderD131"),
)
INTEL = (
    Card("intel", 0, "0000:04:00.0", "0000:04:00.0", numbers={Api.LEVEL_ZERO: 1}, node="/dev/dri/renderD132"),
    Card("intel", 1, "0000:08:00.0", "0000:08:00.0", numbers={Api.LEVEL_ZERO: 2}, node="/dev/dri/renderD133"),
)
MACHINES = {"nvidia": NVIDIA, "amd": AMD, "intel": INTEL, "vulkan": AMD}
BUILDS = {"nvidia": "cuda", "amd": "hip", "intel": "sycl", "vulkan": "vulkan"}
PCI = "CUDA_DEVICE_ORDER=PCI_BUS_ID"


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Of a `llama-server` on PATH that was built for nothing yet."""
    (tmp_path / "llama-server").write_bytes(b"\x7fELF libllama.so")
    (tmp_path / "llama-server").chmod(0o755)
    return Serve("a", model="/m/a.gguf", slot="gpu", env={"PATH": str(tmp_path)})


def build(serve: Serve, *backends: str) -> Serve:
    for backend in backends:
        (Path(serve.env["PATH"]) / f"libggml-{backend}.so").touch()
    return serve


def seen(serve: Serve, machine: MachineCards, *words: str) -> str:
    """What restricts it, as a line."""
    found = masked(serve, Slot("gpu", devices=words), machine)
    if found.device_problem:
        return found.device_problem
    given = [f"{name}={value}" for name, value in found.env.items() if name != "PATH"]
    return " ".join([*sorted(given), *found.extra_args])


@pytest.mark.parametrize(
    ("vendor", "engine", "expected"),
    [
        ("nvidia", "llama.cpp", f"{PCI} CUDA_VISIBLE_DEVICES=1"),
        ("nvidia", "vllm", f"{PCI} CUDA_VISIBLE_DEVICES=1"),
        ("nvidia", "sglang", f"{PCI} CUDA_VISIBLE_DEVICES=1"),
        ("nvidia", "container", "--gpus device=GPU-22bb"),
        ("amd", "llama.cpp", "ROCR_VISIBLE_DEVICES=GPU-c3d4"),
        ("amd", "vllm", "CUDA_VISIBLE_DEVICES=2 HIP_VISIBLE_DEVICES=2"),
        ("amd", "sglang", "CUDA_VISIBLE_DEVICES=2 HIP_VISIBLE_DEVICES=2"),
        ("amd", "container", "--device /dev/kfd --device /dev/dri/renderD131"),
        ("intel", "llama.cpp", "ZE_AFFINITY_MASK=2 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"),
        ("intel", "vllm", "ZE_AFFINITY_MASK=2 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"),
        ("intel", "sglang", "ZE_AFFINITY_MASK=2 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"),
        ("intel", "container", "--device /dev/dri/renderD133"),
        ("vulkan", "llama.cpp", "GGML_VK_VISIBLE_DEVICES=1"),
        ("vulkan", "vllm", "CUDA_VISIBLE_DEVICES=2 HIP_VISIBLE_DEVICES=2"),  # it has no Vulkan: the vendor's own
        ("vulkan", "sglang", "CUDA_VISIBLE_DEVICES=2 HIP_VISIBLE_DEVICES=2"),
        ("vulkan", "container", "--device /dev/kfd --device /dev/dri/renderD131"),
    ],
)
def test_the_second_card_of_each_vendor_for_each_engine(serve: Serve, vendor: str, engine: str, expected: str) -> None:
    machine = MachineCards(MACHINES[vendor])
    if engine == "container":
        up = ("docker", "run", "-d", "{devices}", "image")
        boxed = replace(serve, driver=Driver.COMPOSE, container="a", up=up)
        assert masked(boxed, Slot("gpu", devices=("1",)), machine).up == (*up[:3], *expected.split(), "image")
        assert " ".join(masks.container_options(["1"], machine)) == expected
    else:
        build(serve, BUILDS[vendor])
        assert seen(replace(serve, engine=engine), machine, "1") == expected


MIXED = MachineCards((
    replace(NVIDIA[0], numbers={Api.VULKAN: 0}),
    replace(AMD[0], numbers={Api.HIP: 0, Api.VULKAN: 1}),
    replace(INTEL[0], numbers={Api.LEVEL_ZERO: 0, Api.VULKAN: 2}),
))  # fmt: skip


@pytest.mark.parametrize(
    ("builds", "words", "expected"),
    [
        ("cuda", "0000:01:00.0", f"{PCI} CUDA_VISIBLE_DEVICES=0"),
        ("cuda vulkan", "nvidia:0", f"{PCI} CUDA_VISIBLE_DEVICES=0 GGML_VK_VISIBLE_DEVICES= --device CUDA0"),
        ("cuda vulkan", "amd:0", "CUDA_VISIBLE_DEVICES= GGML_VK_VISIBLE_DEVICES=1 --device Vulkan0"),
        ("cuda vulkan", "nvidia:0 intel:0",
         f"{PCI} CUDA_VISIBLE_DEVICES=0 GGML_VK_VISIBLE_DEVICES=2 --device CUDA0,Vulkan0"),
        ("cuda hip", "03:00.0", "CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES=GPU-a1b2 --device ROCm0"),
        ("vulkan", "amd:0 intel:0", "GGML_VK_VISIBLE_DEVICES=1,2"),
        ("sycl", "intel:0", "ZE_AFFINITY_MASK=0 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"),
        # a number means the card of each vendor that the build can use: each interface gets its own
        ("cuda", "0", f"{PCI} CUDA_VISIBLE_DEVICES=0"),
        ("", "0", f"{PCI} CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=GPU-a1b2 "
         "ZE_AFFINITY_MASK=0 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"),
        ("cuda", "amd:0", "serve 'a': llama.cpp as it is built here (CUDA) cannot use amd:0: name one of nvidia:0 "
         "(0000:01:00.0) in `devices` of its slot, or install a build for that device"),
        ("hip vulkan", "MIG-1", "serve 'a': llama.cpp as it is built here (HIP, Vulkan) cannot use MIG-1: name one of "
         "nvidia:0 (0000:01:00.0), amd:0 (0000:03:00.0), intel:0 (0000:04:00.0) in `devices` of its slot, or install "
         "a build for that device"),
    ],
)  # fmt: skip
def test_on_a_machine_with_cards_of_all_vendors_the_build_decides(
    serve: Serve, builds: str, words: str, expected: str
) -> None:
    build(serve, *builds.split())
    assert seen(serve, MIXED, *words.split()) == expected


def test_one_engine_of_one_vendor_is_not_given_cards_of_two(serve: Serve) -> None:
    told = seen(replace(serve, engine="vllm"), MIXED, "nvidia:0", "amd:0")
    assert "vLLM uses devices of one vendor only" in told
    assert '`devices = ["0000:01:00.0"]`' in told
    assert seen(replace(serve, engine="vllm"), MIXED, "0").startswith(f"{PCI} CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE")
    assert seen(replace(serve, engine="mlx-lm"), MIXED, "0") == "", "one device, no mask"


@pytest.mark.parametrize(
    ("words", "llama", "vllm"),
    [
        (("GPU-22bb",), "GPU-22bb", "1"),
        (("GPU-2",), "GPU-2", "1"),
        (("1", "0"), "1,0", "1,0"),
        (("GPU-11aa", "1"), "0,1", "0,1"),  # CUDA takes no mixture
        (("1", "GPU-22bb", "nvidia:1"), "1", "1"),
        (("nvidia:1",), "1", "1"),
        (("41:00.0",), "1", "1"),
        (("MIG-377e/3/0",), "MIG-377e/3/0", "MIG-377e/3/0"),
    ],
)
def test_ids_are_kept_for_engines_that_take_them_and_become_numbers_for_others(
    serve: Serve, words: tuple[str, ...], llama: str, vllm: str
) -> None:
    build(serve, "cuda")
    for engine, value in (("llama.cpp", llama), ("vllm", vllm)):
        told = seen(replace(serve, engine=engine), MachineCards(NVIDIA), *words)
        assert told == f"{PCI} CUDA_VISIBLE_DEVICES={value}"


def test_a_word_that_means_nothing_or_too_much_keeps_the_serve_from_starting(serve: Serve) -> None:
    twins = (NVIDIA[0], replace(NVIDIA[1], uuid="GPU-11ab"))
    told = seen(serve, MachineCards(twins), "7", "GPU-11")
    assert told == (
        "serve 'a': no device is 7: there are nvidia:0 (0000:01:00.0), nvidia:1 (0000:41:00.0): correct `devices` of "
        "its slot; `stoker doctor` shows every device"
    )
    assert "GPU-11 means nvidia:0 (0000:01:00.0), nvidia:1" in seen(serve, MachineCards(twins), "GPU-11")
    boxed = replace(serve, driver=Driver.COMPOSE, container="a", up=("docker", "run", "-d", "{devices}", "image"))
    assert "no device is 7" in masked(boxed, Slot("gpu", devices=("7",)), MachineCards(twins)).device_problem


@pytest.mark.parametrize(
    "machine", [MachineCards(), MachineCards(AMD, frozenset(("nvidia",)))], ids=["none", "perhaps more"]
)
def test_where_a_device_may_be_that_is_not_shown_the_words_count_as_they_are_written(
    serve: Serve, machine: MachineCards
) -> None:
    assert seen(serve, machine, "7") == f"{PCI} CUDA_VISIBLE_DEVICES=7 HIP_VISIBLE_DEVICES=7"
    assert masks.container_options(["GPU-9"], MachineCards()) == ["--gpus", "device=GPU-9"]


SILENT = MachineCards(AMD, frozenset(("nvidia",)))
"""NVIDIA's driver does not answer."""


@pytest.mark.parametrize(
    ("engine", "builds", "word", "expected"),
    [
        ("llama.cpp", "cuda", "0", f"{PCI} CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=0"),
        ("llama.cpp", "cuda vulkan", "1",
         f"{PCI} CUDA_VISIBLE_DEVICES=1 GGML_VK_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=1"),
        ("llama.cpp", "cuda vulkan", "GPU-9",
         f"{PCI} CUDA_VISIBLE_DEVICES=GPU-9 GGML_VK_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=GPU-9"),
        ("llama.cpp", "hip", "1", "ROCR_VISIBLE_DEVICES=GPU-c3d4"),
        ("llama.cpp", "", "1",
         f"{PCI} CUDA_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=GPU-c3d4"),
        ("llama.cpp", "cuda", "nvidia:0", f"{PCI} CUDA_VISIBLE_DEVICES=0"),
        ("llama.cpp", "cuda", "0000:41:00.0", "serve 'a': nobody knows which device is 0000:41:00.0, since no driver "
         "shows it: type `pip install nvidia-ml-py` for NVIDIA's, or write its number or id into `devices` of its "
         "slot"),
        ("llama.cpp", "hip", "amd:7", "serve 'a': no device is amd:7: there are amd:0 (0000:03:00.0), amd:1 "
         "(0000:0c:00.0): correct `devices` of its slot; `stoker doctor` shows every device"),
        ("vllm", "", "0", f"{PCI} CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=0"),
        ("vllm", "", "amd:0", "CUDA_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=1"),
    ],
)  # fmt: skip
def test_where_a_driver_is_silent_a_number_may_mean_its_device_and_no_other_is_taken_for_it(
    serve: Serve, engine: str, builds: str, word: str, expected: str
) -> None:
    build(serve, *builds.split())
    assert seen(replace(serve, engine=engine), SILENT, word) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("0", "0"), ("7", "7"), ("GPU-11aa 7", "0,7"), ("GPU-11aa GPU-9", "GPU-11aa,GPU-9"), ("nvidia:0 0", "0"),
    ],
)  # fmt: skip
def test_a_lost_device_takes_none_of_the_others_from_a_slot(serve: Serve, words: str, expected: str) -> None:
    machine = MachineCards(NVIDIA, frozenset(("nvidia",)))
    build(serve, "cuda")
    told = seen(serve, machine, *words.split())
    assert f"CUDA_VISIBLE_DEVICES={expected}" in told.split()


def test_without_any_known_card_words_of_stokers_own_are_translated_or_refused(serve: Serve) -> None:
    assert seen(serve, MachineCards(), "nvidia:0") == f"{PCI} CUDA_VISIBLE_DEVICES=0"
    assert seen(serve, MachineCards(), "amd:1") == "HIP_VISIBLE_DEVICES=1"
    assert "`pip install nvidia-ml-py`" in seen(serve, MachineCards(), "0000:41:00.0")


def test_a_container_is_given_words_that_may_mean_a_silent_device_or_is_refused(serve: Serve) -> None:
    boxed = replace(serve, driver=Driver.COMPOSE, container="a", up=("docker", "run", "-d", "{devices}", "image"))
    for word, options in (("9", "--gpus device=9"), ("nvidia:0", "--gpus device=0"), ("GPU-9", "--gpus device=GPU-9")):
        found = masked(boxed, Slot("gpu", devices=(word,)), SILENT)
        assert (found.device_problem, " ".join((found.up or ())[3:-1])) == ("", options)
        assert " ".join(masks.container_options([word], SILENT)) == options
    assert masks.container_options(["9"], MachineCards(NVIDIA)) == ["--gpus", "device=9"]
    told = masked(boxed, Slot("gpu", devices=("0000:41:00.0",)), SILENT).device_problem
    assert "`pip install nvidia-ml-py`" in told


@pytest.mark.parametrize(
    ("own", "machine", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1"}, NVIDIA, "CUDA_VISIBLE_DEVICES=1"),
        ({"HIP_VISIBLE_DEVICES": "1"}, AMD, "HIP_VISIBLE_DEVICES=1"),  # it counts within ROCR's: both hide all
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:1"}, INTEL, "ONEAPI_DEVICE_SELECTOR=level_zero:1"),
    ],
)
def test_a_serve_that_chooses_its_devices_by_its_own_environment_is_left_alone(
    serve: Serve, own: dict[str, str], machine: tuple[Card, ...], expected: str
) -> None:
    found = masked(replace(serve, env={**serve.env, **own}), Slot("gpu", devices=("0",)), MachineCards(machine)).env
    assert expected in [f"{name}={value}" for name, value in found.items()]
    assert not {"ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"} & set(found)
    wrong = masked(replace(serve, env={**serve.env, **own}), Slot("gpu", devices=("7",)), MachineCards(machine))
    assert wrong.device_problem == "", "what `devices` says does not count then"


@pytest.mark.parametrize("own", ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_an_own_choice_for_amd_is_left_alone_as_a_whole(serve: Serve, own: str) -> None:
    env = {**serve.env, own: "0"}
    assert masked(replace(serve, engine="vllm", env=env), Slot("gpu", devices=("1",)), MachineCards(AMD)).env == env


def test_a_serve_that_chooses_by_the_engines_option_keeps_it(serve: Serve) -> None:
    build(serve, "cuda", "vulkan")
    assert seen(replace(serve, extra_args=("--device", "CUDA0")), MIXED, "nvidia:0").endswith("= --device CUDA0")


@pytest.mark.parametrize(
    ("engine", "machine", "inherited", "expected"),
    [
        ("vllm", NVIDIA, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
         "serve 'a': CUDA_VISIBLE_DEVICES=1 in Stoker's own environment hides nvidia:0 (0000:01:00.0): name one of "
         "nvidia:1 (0000:41:00.0) in `devices` of its slot, or unset the variable"),
        ("vllm", NVIDIA, {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
         f"{PCI} CUDA_VISIBLE_DEVICES=0"),
        # of unequal cards nobody knows which one is the fastest
        ("vllm", NVIDIA, {"CUDA_VISIBLE_DEVICES": "1"}, f"{PCI} CUDA_VISIBLE_DEVICES=0"),
        ("vllm", AMD, {"ROCR_VISIBLE_DEVICES": "1"},
         "serve 'a': vLLM refuses ROCR_VISIBLE_DEVICES, which Stoker's own environment sets: unset it there, or set "
         "HIP_VISIBLE_DEVICES instead"),
        ("llama.cpp", AMD, {"HIP_VISIBLE_DEVICES": "1"}, "HIP_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=GPU-a1b2"),
        ("llama.cpp", AMD, {"ROCR_VISIBLE_DEVICES": "GPU-c3d4"}, "serve 'a': ROCR_VISIBLE_DEVICES=GPU-c3d4 in Stoker's "
         "own environment hides amd:0 (0000:03:00.0): name one of amd:1 (0000:0c:00.0) in `devices` of its slot, or "
         "unset the variable"),
        ("vllm", INTEL, {"ZE_AFFINITY_MASK": "2"}, "serve 'a': ZE_AFFINITY_MASK=2 in Stoker's own environment hides "
         "intel:0 (0000:04:00.0): name one of intel:1 (0000:08:00.0) in `devices` of its slot, or unset the variable"),
    ],
)  # fmt: skip
def test_a_mask_that_stoker_inherited_is_kept_within_or_refused_with_the_reason(
    serve: Serve, engine: str, machine: tuple[Card, ...], inherited: dict[str, str], expected: str
) -> None:
    assert seen(replace(serve, engine=engine), MachineCards(machine, environment=inherited), "0") == expected


@pytest.mark.parametrize(
    ("machine", "inherited", "word", "hidden"),
    [
        (NVIDIA, "GPU-22bb", "0", "nvidia:0 (0000:01:00.0)"),  # unequal cards, but ids do not depend on their order
        (NVIDIA, "-1", "0", "nvidia:0 (0000:01:00.0)"),
        (NVIDIA[:1], "", "0", "nvidia:0 (0000:01:00.0)"),
        (NVIDIA[:1], "NoDevFiles", "0", "nvidia:0 (0000:01:00.0)"),
        (NVIDIA, "MIG-7", "0", "nvidia:0 (0000:01:00.0)"),
        (NVIDIA, "MIG-7", "MIG-8", "MIG-8"),
        (NVIDIA, "GPU-11aa", "MIG-8", "MIG-8"),
        (NVIDIA, "GPU-11aa", "MIG-GPU-11aa/1/0", ""),
        (NVIDIA, "MIG-7", "MIG-7", ""),
        (INTEL, "1.0", "0", "intel:0 (0000:04:00.0)"),
    ],
)
def test_an_inherited_mask_of_any_form_is_kept_within(
    serve: Serve, machine: tuple[Card, ...], inherited: str, word: str, hidden: str
) -> None:
    name = "ZE_AFFINITY_MASK" if machine is INTEL else "CUDA_VISIBLE_DEVICES"
    told = seen(serve, MachineCards(machine, environment={name: inherited}), word)
    assert f"own environment hides {hidden}:" in told if hidden else "hides" not in told


def test_a_number_is_written_in_ascii() -> None:
    assert not masks.names_device("²", "nvidia", 2, "GPU-1")


def test_vulkan_without_numbers_restricts_nothing_and_says_so(serve: Serve) -> None:
    cards = tuple(replace(card, numbers={}) for card in AMD)
    build(serve, "vulkan")
    assert seen(serve, MachineCards(cards), "1") == ""
    assert "install `vulkaninfo`" in masks.note(serve, Slot("gpu", devices=("1",)), MachineCards(cards))
    assert masks.note(serve, Slot("gpu", devices=("0",)), MachineCards(cards[:1])) == "", "there is only that one"


def test_what_a_program_was_built_for_is_read_from_its_file_or_from_the_libraries_beside_it(serve: Serve) -> None:
    from stoker.engines import llama_cpp

    program = Path(serve.env["PATH"]) / "llama-server"
    assert llama_cpp.computes_with(serve) is None, "for processors, or nobody knows"
    program.write_bytes(b"\x7fELF \0libcudart.so.13\0libvulkan.so.1\0")
    assert llama_cpp.computes_with(serve) == {Api.CUDA, Api.VULKAN}
    program.write_bytes(b"#!/bin/sh\nexec other libcudart.so\n")
    assert llama_cpp.computes_with(serve) is None, "a script may start anything"
    assert llama_cpp.computes_with(replace(serve, embedded=True)) is None


@pytest.mark.parametrize(
    ("words", "command", "expected"),
    [
        ((), "docker", "--gpus all --device /dev/kfd --device /dev/dri"),
        (("nvidia:0",), "podman", "--device nvidia.com/gpu=GPU-11aa"),
        (("nvidia:0", "amd:0"), "docker", "--gpus device=GPU-11aa --device /dev/kfd --device /dev/dri/renderD130"),
    ],
)
def test_a_container_gets_its_devices_and_counts_them_from_zero(
    words: tuple[str, ...], command: str, expected: str
) -> None:
    assert " ".join(masks.container_options(words, MIXED, (command, "run"))) == expected
    sudo = masks.container_options(["nvidia:0"], MIXED, ("sudo", "-n", "podman", "run"))
    assert sudo == ["--device", "nvidia.com/gpu=GPU-11aa"]
    assert masks.container_options(["0", "1"], MachineCards(NVIDIA)) == ["--gpus", '"device=GPU-11aa,GPU-22bb"']


@pytest.mark.parametrize("driver", [Driver.PROCESS, Driver.COMPOSE])
def test_a_driver_that_no_longer_answers_makes_no_other_launch_of_what_runs(serve: Serve, driver: Driver) -> None:
    """Its engine stays at a reload, and is adopted by a restart; so are those of versions without masks."""
    signer = KeySigner(lambda: bytes(32))
    up = ("docker", "run", "-d", "{devices}", "image")
    plain = replace(build(serve, "cuda", "vulkan"), driver=driver, up=up if driver is Driver.COMPOSE else None)
    slot = Slot("gpu", devices=("nvidia:0",))
    seen_now, silent = masked(plain, slot, MIXED), masked(plain, slot, MachineCards(unseen=frozenset(("nvidia",))))
    assert (seen_now.extra_args, seen_now.up) != (silent.extra_args, silent.up)
    assert silent.launches_like(seen_now)
    as_before = {
        PCI.partition("=")[0]: "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "nvidia:0",
        "HIP_VISIBLE_DEVICES": "nvidia:0",
    }
    earlier = replace(plain, env={**as_before, **plain.env})
    assert fingerprint(seen_now, signer) == fingerprint(silent, signer) == fingerprint(earlier, signer)
    assert not masked(plain, Slot("gpu", devices=("nvidia:1",)), MIXED).launches_like(seen_now), "another device"

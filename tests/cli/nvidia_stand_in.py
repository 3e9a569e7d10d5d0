"""Stands for an NVIDIA driver: a module `pynvml` and a command `nvidia-smi` that show the real embedded engines of one
test as processes that hold memory of GPUs which are not there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

MODULE = '''
"""Each engine that inherited this test's variable holds HELD bytes of the device that its mask names."""
import os, pathlib
from types import SimpleNamespace

TOKEN, COUNT, HELD, FAULT = {token!r}, {count}, {held}, {fault!r}
TOTAL, OTHERS = 24 * 2**30, 2**30
HERE = pathlib.Path(__file__).parent

class NVMLError(Exception): pass

def engines():
    found = {{}}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            words = pathlib.Path(f"/proc/{{entry}}/cmdline").read_bytes()
            parts = pathlib.Path(f"/proc/{{entry}}/environ").read_bytes().split(b"\\0")
        except OSError:
            continue
        environ = dict(part.partition(b"=")[::2] for part in parts)
        if b"stoker.engines.embedded" in words and environ.get(b"CUDA_STAND_IN") == TOKEN.encode():
            word = environ.get(b"CUDA_VISIBLE_DEVICES", b"0").decode()
            device = int(word) if word.isdigit() else int(word.rpartition("-")[2])
            found[int(entry)] = 0 if FAULT == "mask" else device
    return found

def held(device):
    now = {{pid: HELD for pid, place in engines().items() if place == device}}
    kept = HERE / f"kept-{{device}}"
    if FAULT == "leak" and now:
        kept.touch()
    return now, HELD if kept.exists() and not now else 0

def nvmlInit(): pass
def nvmlDeviceGetCount(): return COUNT
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(device): return f"GPU-stand-in-{{device}}"
def nvmlDeviceGetName(device): return "Stand-in GPU"
def nvmlSystemGetDriverVersion(): return "570.1"
def nvmlDeviceGetCudaComputeCapability(device): return (9, 0)
def nvmlDeviceGetMemoryInfo(device):
    now, kept = held(device)
    return SimpleNamespace(total=TOTAL, free=TOTAL - OTHERS - sum(now.values()) - kept)
def nvmlDeviceGetComputeRunningProcesses(device):
    return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in held(device)[0].items()]
def nvmlDeviceGetGraphicsRunningProcesses(device): return []

def smi(words):
    fields = words[0].partition("=")[2].split(",")
    if "--query-gpu" in words[0]:
        for device in range(COUNT):
            memory = nvmlDeviceGetMemoryInfo(device)
            shown = {{"index": device, "uuid": nvmlDeviceGetUUID(device), "name": nvmlDeviceGetName(device),
                     "driver_version": "999.9" if FAULT == "driver" else "570.1",
                     "memory.total": memory.total >> 20, "memory.free": memory.free >> 20}}
            print(", ".join(str(shown[field]) for field in fields))
    else:
        for device in range(COUNT):
            for pid, size in held(device)[0].items():
                shown = {{"pid": pid, "gpu_uuid": nvmlDeviceGetUUID(device), "used_memory": size >> 20}}
                print(", ".join(str(shown[field]) for field in fields))
'''


def install(folder: Path, count: int = 1, held: int = 400 * 2**20, fault: str = "") -> Mapping[str, str]:
    """Writes both into `folder`; the environment of a program that sees this driver.

    `fault`: "mask" (each engine is on device 0), "leak" (memory of an ended engine stays in use), "driver" (the two
    tell other versions).
    """
    folder.mkdir()
    token = f"{os.getpid()}-{folder}"
    (folder / "pynvml.py").write_text(MODULE.format(token=token, count=count, held=held, fault=fault))
    command = folder / "nvidia-smi"
    command.write_text(f"#!{sys.executable}\nimport sys, pynvml\npynvml.smi(sys.argv[1:])\n")
    command.chmod(0o755)
    # /usr/bin: no `llama-server` of this machine
    return {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": str(folder), "CUDA_STAND_IN": token}

"""Finds Ollama's models that only its own llama.cpp can load, and where that is installed.

Ollama publishes models in layouts of its own, and translates them while it loads them. Stock llama.cpp refuses such a
file, or loads it wrongly. The GGUF header alone identifies them: architectures that only Ollama has, settings that only
its files have, and tensors for images and sound in the file of the language model
(https://github.com/ollama/ollama, llama/compat and server/create.go).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.store.files.gguf_header import Header, TextCount

_OWN_ARCHITECTURES = frozenset(("deepseekocr", "glm4moelite", "glmocr", "gptoss", "olmo3", "qwen25vl"))
"""Architecture names that stock llama.cpp does not know; it has other names for them."""
_EMBEDDED_PARTS = {
    "v.": "a vision encoder", "mm.": "a projector", "a.": "an audio encoder", "mtp.": "prediction layers",
    "s.": "a speech decoder",
}  # fmt: skip
"""Tensors with these prefixes belong in a file of their own."""
_OWN_KEYS = {
    "gemma3": ("gemma3.mm.tokens_per_image", "gemma3.rope.global.freq_base", "gemma3.rope.local.freq_base",
               "tokenizer.ggml.add_padding_token", "tokenizer.ggml.add_unknown_token"),
    "qwen35": ("qwen35.vision.block_count", "qwen35.image_token_id", "qwen35.ssm.v_head_reordered",
               "qwen35.rope.mrope_interleaved"),
    "qwen35moe": ("qwen35moe.vision.block_count", "qwen35moe.image_token_id", "qwen35moe.ssm.v_head_reordered",
                  "qwen35moe.feed_forward_length", "qwen35moe.rope.mrope_interleaved"),
    "mistral3": ("mistral3.rope.scaling.beta_fast", "mistral3.rope.scaling.mscale_all_dim",
                 "mistral3.rope.scaling_beta"),
    "laguna": ("laguna.rope.swa.dimension_count", "laguna.rope.swa.freq_base"),
}  # fmt: skip
_NEEDED_KEYS = {
    "gemma3": "gemma3.attention.layer_norm_rms_epsilon",
    "qwen3vl": "qwen3vl.rope.dimension_sections",
    "qwen3vlmoe": "qwen3vlmoe.rope.dimension_sections",
}
"""Settings that stock llama.cpp needs but Ollama's files lack."""
_SEES_ITS_OWN_FILE = frozenset(
    ("gemma3", "gemma4", "qwen35", "qwen35moe", "qwen25vl", "qwen3vl", "qwen3vlmoe", "mistral3", "deepseekocr",
     "glmocr", "llama4", "nemotron_h_omni")
)  # fmt: skip
"""Ollama's engine reads the vision encoder of these from the file of the language model."""
_END_OF_TEXT, _END_OF_TURN = 128001, 128009
"""Ids of Llama 3's tokenizer."""


def foreign_layout(header: Header) -> str:
    """Why only Ollama's own engine loads this file; empty if stock llama.cpp does. Pure.

    1. an architecture that only Ollama has
    2. parts that belong into files of their own
    3. settings that only Ollama's files have, or that they lack
    4. tensors that Ollama names or shapes in another way
    """
    architecture = architecture_of(header)
    names = {name for name, *_ in header.tensors}
    if architecture in _OWN_ARCHITECTURES:
        return f"its architecture is Ollama's own {architecture}"  # 1
    for prefix, what in _EMBEDDED_PARTS.items():
        if any(name.startswith(prefix) for name in names):
            return f"it has {what} in the file of the language model"  # 2
    for key in _OWN_KEYS.get(architecture, ()):
        if key in header.facts:
            return f"it has Ollama's own setting {key}"  # 3
    needed = _NEEDED_KEYS.get(architecture)
    if needed is not None and needed not in header.facts:
        return f"it lacks the setting {needed}"
    return _foreign_tensors(architecture, header, names)


def _foreign_tensors(architecture: str, header: Header, names: set[str]) -> str:
    """Branch 4 of `foreign_layout`."""
    facts = header.facts
    found = {
        "gemma3": "dense.0.weight" in names,
        "gemma3n": _gemma3n_sizes_differ(header),
        "gemma4": facts.get("tokenizer.ggml.model") == "llama"
        or any(name.startswith("model.vision_tower.") for name in names),
        "qwen3next": any(name.endswith(".ssm_dt") for name in names),
        "lfm2": "output_norm.weight" in names and "token_embd_norm.weight" not in names,
        "laguna": "blk.0.attn_g.weight" in names,
        "nemotron_h_moe": any(name.startswith(("blk.0.ffn_latent_in", "blk.1.ffn_latent_in")) for name in names),
        "bert": facts.get("tokenizer.ggml.model") == "t5"
        and isinstance(facts.get("tokenizer.ggml.precompiled_charsmap"), TextCount),
    }
    return f"its tensors or tokenizer are in Ollama's own layout of {architecture}" if found.get(architecture) else ""


def _gemma3n_sizes_differ(header: Header) -> bool:
    """Whether the two vocabularies of a gemma3n file have different lengths. Unknown counts as Ollama's file."""
    sizes = {name: elements for name, _, elements, _ in header.tensors}
    both = (sizes.get("token_embd.weight"), sizes.get("per_layer_token_embd.weight"))
    width, layers = (header.facts.get(f"gemma3n.{key}") for key in ("embedding_length", "block_count"))
    inner = header.facts.get("gemma3n.embedding_length_per_layer_input")
    if not (both[0] and both[1] and isinstance(width, int) and isinstance(layers, int) and isinstance(inner, int)):
        return both[1] is not None
    return width > 0 and inner * layers > 0 and both[0] // width != both[1] // (inner * layers)


def architecture_of(header: Header) -> str:
    """`general.architecture`; empty if the header has none."""
    found = header.facts.get("general.architecture")
    return found if isinstance(found, str) else ""


def sees_its_own_file(header: Header) -> bool:
    """Whether Ollama's engine can use this file as its own projector, so that the model accepts images."""
    return architecture_of(header) in _SEES_ITS_OWN_FILE and any(name.startswith("v.") for name, *_ in header.tensors)


def is_embedding_model(header: Header) -> bool:
    """Whether it answers with vectors: the header says how it pools them."""
    return f"{architecture_of(header)}.pooling_type" in header.facts


def llama3_corrections(header: Header) -> dict[str, str]:
    """Settings of Llama 3's tokenizer that old files of Ollama lack, by key: what llama.cpp's `--override-kv` takes.

    Without them llama.cpp loads the file, splits text wrongly, and does not stop at the end of a turn.
    """
    facts = header.facts
    template = facts.get("tokenizer.chat_template")
    if architecture_of(header) != "llama" or not isinstance(template, str):
        return {}
    if not any(mark in template for mark in ("<|start_header_id|>", "<|eot_id|>")):
        return {}
    corrections = {}
    if facts.get("tokenizer.ggml.pre") in (None, "", "default"):
        corrections["tokenizer.ggml.pre"] = "str:llama-bpe"
    if facts.get("tokenizer.ggml.eos_token_id") == _END_OF_TEXT:
        corrections["tokenizer.ggml.eos_token_id"] = f"int:{_END_OF_TURN}"
    return corrections


@dataclass(frozen=True, slots=True)
class OllamaEngine:
    """Ollama's own `llama-server`: its directory, and the backend for the machine's GPU."""

    directory: Path
    backend: Path | None = None

    def environment(self, path: str) -> dict[str, str]:
        """The environment with which a serve starts this `llama-server`. `path`: the PATH without it."""
        libraries = [self.directory] if self.backend is None else [self.directory, self.backend.parent]
        found = {
            "PATH": os.pathsep.join((str(self.directory), path)),
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        }
        return found if self.backend is None else found | {"GGML_BACKEND_PATH": str(self.backend)}


def find_engine(environment: Mapping[str, str], vendor: str = "", root: Path = Path("/")) -> OllamaEngine | None:
    """Ollama's `llama-server`, if it is installed. `vendor`: of the machine's GPU, `nvidia` or `amd`."""
    command = shutil.which("ollama", path=environment.get("PATH"))
    beside = [Path(command).resolve().parent] if command is not None else []
    places = [place for folder in beside for place in (folder.parent / "lib/ollama", folder / "lib/ollama", folder)]
    places += [root / "usr/local/lib/ollama", root / "usr/lib/ollama"]
    for place in places:
        if os.access(place / "llama-server", os.X_OK):
            return OllamaEngine(place, _backend(place, vendor))
    return None


def _backend(directory: Path, vendor: str) -> Path | None:
    """The newest backend for GPUs of this vendor."""
    kinds = {"nvidia": "cuda", "amd": "rocm"}
    if vendor not in kinds:
        return None
    files = sorted(directory.glob(f"{kinds[vendor]}_v*/libggml-*.so*"), key=lambda file: (file.parent.name, file.name))
    own = [file for file in files if not file.name.startswith(("libggml-base", "libggml-cpu"))]
    newest = max((file.parent for file in own), default=None, key=lambda folder: folder.name)
    return next((file for file in own if file.parent == newest), None)

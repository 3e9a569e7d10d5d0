"""A GGUF header becomes a shape; a hostile or broken one becomes a sentence, in bounded time and memory."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.fleet.memory.model_files import LLAMA_8B, gguf, llama

from stoker.domain.errors import UnreadableModel
from stoker.domain.serve import Serve
from stoker.fleet.memory.fit import gguf as reader
from stoker.fleet.memory.fit.check import check_fit, choose_context
from stoker.fleet.memory.fit.estimate import Layer
from stoker.fleet.memory.host import HostMemory
from stoker.store.files.gguf_header import read_header

MODELS = Path(__file__).parents[3] / "src" / "stoker" / "models"


def test_the_shipped_models_are_read_as_their_writer_wrote_them() -> None:
    spark = reader.read(str(MODELS / "spark.gguf"))
    assert (spark.name, spark.architecture, spark.precision, spark.weights) == ("spark", "llama", "Q8_0", 499_584)
    assert (spark.context, spark.vocabulary, spark.width, spark.is_moe) == (2048, 1024, 96, False)
    assert {(layer.heads, layer.elements) for layer in spark.layers} == {(3, 64)}
    ember = reader.read(str(MODELS / "ember.gguf"))
    assert [(layer.heads, layer.elements) for layer in ember.layers] == [(2, 64)] * 5
    assert 0 < sum(layer.weights for layer in ember.layers) < ember.weights == 1_058_816


def test_the_vocabulary_is_counted_and_not_kept(tmp_path: Path) -> None:
    path = llama(tmp_path / "m.gguf")
    assert read_header(str(path)).facts["tokenizer.ggml.tokens"] == 128256
    shape = reader.read(str(path))
    assert (shape.vocabulary, shape.parameters, shape.precision) == (128256, 8_029_995_008, "Q4_K")
    assert shape.embedding == 4096 * 128256 // 256 * 144
    assert shape.layers[0] == Layer(218_103_808 // 256 * 144, 8, 256)


def layers_of(path: Path, architecture: str, tensors: int = 1, **facts: object) -> tuple[Layer, ...]:
    own = {"block_count": 6, "embedding_length": 64, "attention.head_count": 4, **facts}
    named = {"general.architecture": architecture, **{f"{architecture}.{key}": value for key, value in own.items()}}
    return reader.read(str(gguf(path, named, [("x", (32,), 0, 0)], 128))).layers


def test_windowed_layers_follow_the_pattern_of_their_architecture(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    window = {"attention.sliding_window": 512}
    assert [la.window for la in layers_of(path, "gemma3", **window)] == [512] * 5 + [None]
    assert [la.window for la in layers_of(path, "gpt-oss", **window)] == [512, None] * 3
    listed = {**window, "attention.sliding_window_pattern": [1, 0, 0, 0, 0, 1]}
    assert [la.window for la in layers_of(path, "other", **listed)] == [512, None, None, None, None, 512]
    assert {la.window for la in layers_of(path, "other", **window)} == {None}
    assert "counted as none" in reader.read(str(path)).notes[0]


def test_a_latent_cache_is_one_vector_per_token(tmp_path: Path) -> None:
    facts = {"attention.kv_lora_rank": 512, "attention.key_length_mla": 192, "rope.dimension_count": 64,
             "attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512}  # fmt: skip
    assert set(layers_of(tmp_path / "m.gguf", "deepseek2", **facts)) == {Layer(0, 1, 576, is_latent=True)}


def test_state_space_layers_keep_a_state_and_no_cache_per_token(tmp_path: Path) -> None:
    state = {"ssm.inner_size": 128, "ssm.state_size": 16, "ssm.conv_kernel": 4, "ssm.group_count": 1}
    listed = layers_of(tmp_path / "m.gguf", "granitehybrid", **{"attention.head_count_kv": [0, 0, 2, 0, 0, 2], **state})
    assert [la.heads for la in listed] == [0, 0, 2, 0, 0, 2]
    assert listed[0].state == 4 * (3 * (128 + 2 * 16) + 128 * 16)
    every = layers_of(tmp_path / "m.gguf", "qwen3next", **{"full_attention_interval": 3, **state})
    assert [bool(la.state) for la in every] == [True, True, False] * 2


def test_a_split_model_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    first = gguf(tmp_path / "m-00001-of-00002.gguf", LLAMA_8B, [("token_embd.weight", (256,), 0, 0)], 1024)
    with pytest.raises(UnreadableModel, match=r"m-00002-of-00002\.gguf cannot be read"):
        reader.read(str(first))
    gguf(tmp_path / "m-00002-of-00002.gguf", {}, [("blk.31.x", (512,), 0, 0)], 2048)
    shape = reader.read(str(first))
    assert (shape.weights, shape.layers[31].weights, shape.embedding) == (3072, 2048, 1024)


def test_a_tensor_of_a_type_from_the_future_reaches_to_the_next_one(tmp_path: Path) -> None:
    path = gguf(tmp_path / "m.gguf", {}, [("a", (8,), 99, 0), ("b", (8,), 0, 96), ("c", (8,), 99, 128)], 256)
    assert read_header(str(path)).tensors == (
        ("a", 96, 8, "type 99"),
        ("b", 32, 8, "F32"),
        ("c", 128, 8, "type 99"),
    )


def test_a_file_that_is_cut_off_is_named_with_what_it_should_have(tmp_path: Path) -> None:
    path = gguf(tmp_path / "m.gguf", {}, [("a", (1024,), 0, 0)], 4095)
    with pytest.raises(UnreadableModel, match=r"m\.gguf is cut off \(it has \d+ bytes, and should have \d+"):
        read_header(str(path))


HEAD = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<html>", "not a GGUF file"),
        (b"GG", "ends|longer than the file"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version is 9"),
        (HEAD + struct.pack("<QQ", 2**63, 1), "tensors"),
        (HEAD + struct.pack("<QQ", 0, 2**40), "keys"),
        (HEAD + struct.pack("<QQ", 0, 65_537) + bytes(900_000), "65537 keys"),
        (HEAD + struct.pack("<QQQ", 0, 1, 2**62) + bytes(64), "a text of"),
        (HEAD + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 8, 2**61) + bytes(64), "ends inside its header"),
        (HEAD + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 4, 2**61) + bytes(64), "ends inside its header"),
        (HEAD + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 9, 1) + bytes(64), "list of type 9"),
        (HEAD + struct.pack("<QQQ1sI", 0, 1, 1, b"k", 77) + bytes(64), "value of type 77"),
        (HEAD + struct.pack("<QQQ1sI", 1, 0, 1, b"t", 99) + bytes(64), "99 dimensions"),
        (HEAD + struct.pack("<QQQ1sIQQIQ", 1, 0, 1, b"t", 2, 2**40, 2**40, 0, 0) + bytes(64), "impossible size"),
    ],
)
def test_hostile_headers_are_refused_with_a_sentence(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(UnreadableModel, match=said):
        read_header(str(path))


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_whatever_a_file_holds_it_is_a_header_or_a_sentence(data: bytes, place: int, value: int) -> None:
    import tempfile

    base = bytearray((MODELS / "spark.gguf").read_bytes()[:3000])
    base[place] = value
    for content in (HEAD + data, bytes(base)):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(content)
            file.flush()
            with pytest.raises(UnreadableModel):
                reader.read(file.name)


@pytest.mark.parametrize(
    "facts", [{}, {"general.architecture": "llama"}, {"general.architecture": "x", "x.block_count": 0}]
)
def test_what_is_no_language_model_is_refused(tmp_path: Path, facts: dict[str, object]) -> None:
    path = gguf(tmp_path / "m.gguf", facts, [("a", (8,), 0, 0)], 32)
    with pytest.raises(UnreadableModel):
        reader.read(str(path))


@pytest.mark.parametrize(
    ("facts", "tensors", "said"),
    [
        ({}, [], "no weights of a language model"),
        (LLAMA_8B, [], "no weights of a language model"),
        (LLAMA_8B, [("blk.0.x", (0,), 0, 0)], "no weights of a language model"),
        (LLAMA_8B | {"llama.block_count": 0}, [("x", (32,), 0, 0)], "does not say how many layers"),
        (LLAMA_8B | {"llama.block_count": 2**40}, [("x", (32,), 0, 0)], "does not say how many layers"),
        (LLAMA_8B | {"general.architecture": 7}, [("x", (32,), 0, 0)], "no weights of a language model"),
    ],
)
def test_a_file_without_weights_or_layers_is_refused_with_a_sentence(
    tmp_path: Path, facts: dict[str, object], tensors: list[tuple[str, tuple[int, ...], int, int]], said: str
) -> None:
    path = gguf(tmp_path / "m.gguf", facts, tensors, 128)
    assert read_header(str(path)).tensors is not None
    with pytest.raises(UnreadableModel, match=said):
        reader.read(str(path))


def test_a_trained_context_of_zero_is_unknown(tmp_path: Path) -> None:
    assert reader.read(str(llama(tmp_path / "m.gguf", layers=1, **{"llama.context_length": 0}))).context is None


FIGURES = st.sampled_from([0, 1, 2, 3, 64, 4095, 4097, 2**20, 2**31, 2**47, 2**63]) | st.lists(
    st.sampled_from([0, 1, 2**31]), max_size=3
)
NAMES = [
    "block_count", "context_length", "embedding_length", "attention.head_count", "attention.head_count_kv",
    "attention.key_length", "attention.value_length", "attention.kv_lora_rank", "attention.key_length_mla",
    "attention.sliding_window", "attention.sliding_window_pattern", "full_attention_interval", "ssm.inner_size",
    "ssm.state_size", "ssm.conv_kernel", "ssm.group_count", "expert_count", "vocab_size", "rope.dimension_count",
]  # fmt: skip


@settings(deadline=None, max_examples=examples(200))
@given(
    facts=st.dictionaries(st.sampled_from(NAMES), FIGURES).map(lambda facts: {"block_count": 2} | facts),
    dimensions=st.lists(st.sampled_from([0, 1, 32, 256]), min_size=1, max_size=3),
    count=st.integers(0, 3),
    engine=st.sampled_from(["llama.cpp", "vllm", "openai"]),
    room=st.sampled_from([0, 2**20, 2**34]),
)
def test_whatever_a_header_claims_the_model_is_judged_or_refused(
    tmp_path_factory: pytest.TempPathFactory, facts: dict[str, object], dimensions: list[int], count: int, engine: str,
    room: int,
) -> None:  # fmt: skip
    path = tmp_path_factory.getbasetemp() / "claims.gguf"
    tensors = [(f"blk.{number}.x", tuple(dimensions), 0, 0) for number in range(count)]
    named = {"general.architecture": "llama", **{f"llama.{name}": value for name, value in facts.items()}}
    gguf(path, named, tensors, 4 * 256**3)
    serve = Serve(name="m", engine=engine, model=str(path), auto_context=engine == "llama.cpp")
    main = HostMemory(total=room, available=room)
    try:
        shape = reader.read(str(path))
    except UnreadableModel:
        assert choose_context(serve, None, (), main).problem
        return
    assert check_fit(serve, (), main, shape).needed >= shape.weights
    choose_context(serve, None, (), main, shape)

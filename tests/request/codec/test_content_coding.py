"""Compressed replies: which codings are asked for, what is decoded, and what is refused."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import UpstreamError
from stoker.request.codec.content_coding import MAX_PIECE, ContentDecoder, accepts, decoded, readable_codings


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"x-gzip", gzip.compress),
    "members": (b"gzip", lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:]) + b"\0\0"),
    "deflate": (b"deflate", zlib.compress),
    "raw deflate": (b"deflate", raw_deflate),
}


@pytest.mark.parametrize("name", PACKERS)
@given(st.binary(min_size=6, max_size=300), st.lists(st.integers(0, 400)))
def test_what_is_read_is_read_however_it_is_cut(name: str, data: bytes, cuts: list[int]) -> None:
    coding, pack = PACKERS[name]
    packed = pack(data)
    assert decoded(coding, packed) == data
    decoder, out = ContentDecoder(coding), b""
    places = sorted({0, *(cut for cut in cuts if cut < len(packed)), len(packed)})
    for start, end in itertools.pairwise(places):
        out += decoder.feed(packed[start:end])
    decoder.finish()
    assert out == data


def test_an_event_can_be_read_as_soon_as_it_is_flushed() -> None:
    packer = zlib.compressobj(wbits=31)
    decoder = ContentDecoder(b"gzip")
    for number in range(3):
        text = b"data: %d\n\n" % number
        assert decoder.feed(packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)) == text


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"compress", b"gzip, gzip", b"x" * 1000])
def test_what_is_not_read_is_named(coding: bytes) -> None:
    with pytest.raises(UpstreamError, match=coding[:40].decode()) as raised:
        decoded(coding, b"data")
    assert raised.value.code == "upstream_unusable"
    assert len(raised.value.message) < 200


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_what_is_not_in_its_coding_is_refused(coding: bytes) -> None:
    with pytest.raises(UpstreamError, match="cannot be decoded"):
        decoded(coding, b"{} not compressed at all")


@pytest.mark.parametrize("packed", [gzip.compress(b"x" * 100, mtime=0)[:-4], b"x"], ids=["gzip", "deflate"])
def test_a_reply_without_its_end_has_broken_off(packed: bytes) -> None:
    with pytest.raises(UpstreamError, match="before its end") as raised:
        decoded(b"gzip" if len(packed) > 1 else b"deflate", packed)
    assert raised.value.code == "upstream_broke"


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_a_bomb_is_not_unpacked(coding: bytes) -> None:
    bomb = (gzip.compress if coding == b"gzip" else zlib.compress)(bytes(4 * MAX_PIECE))
    tracemalloc.start()
    with pytest.raises(UpstreamError, match="16 MiB"):
        ContentDecoder(coding).feed(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_PIECE


@pytest.mark.parametrize(
    ("accepted", "asked"),
    [
        (b"gzip, deflate", b"gzip, deflate"), (b"gzip, deflate, br, zstd", b"gzip, deflate"), (b"br", b"identity"),
        (b"br;q=1.0, gzip;q=0.5", b"gzip;q=0.5"), (b"*", b"identity"), (b"GZIP , identity;q=0", b"GZIP, identity;q=0"),
        (b"", b"identity"),
    ],
)  # fmt: skip
def test_a_serve_is_asked_only_for_what_is_read(accepted: bytes, asked: bytes) -> None:
    assert readable_codings(accepted) == asked


@pytest.mark.parametrize(
    ("accepted", "found"),
    [(b"gzip", True), (b"deflate, GZIP;q=0.1", True), (b"gzip;q=0", False), (b"gzip; q=0.000", False), (b"br", False),
     (b"", False)],
)  # fmt: skip
def test_a_client_gets_a_coding_only_if_it_named_it(accepted: bytes, found: bool) -> None:
    assert accepts(accepted, b"gzip") is found

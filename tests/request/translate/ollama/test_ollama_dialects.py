"""Ollama's dialects have endpoints, and no serve speaks them."""

from __future__ import annotations

import pytest

from stoker.domain.dialect import ENDPOINTS, SPOKEN, TEXT, Dialect
from stoker.domain.kinds import DIALECTS, one_of
from stoker.domain.serve import Serve
from stoker.engines.registry import ENGINES

OURS = (Dialect.OLLAMA_CHAT, Dialect.OLLAMA_GENERATE, Dialect.OLLAMA_EMBED)
WORD = one_of(DIALECTS)


def test_a_serve_speaks_none_of_them() -> None:
    assert SPOKEN.isdisjoint(OURS)
    assert next(f.default for f in Serve.__dataclass_fields__.values() if f.name == "dialects") == TEXT
    assert not any(engine.dialects & set(OURS) for engine in ENGINES.values())


@pytest.mark.parametrize("dialect", OURS)
def test_a_configuration_cannot_say_that_one_does(dialect: Dialect) -> None:
    with pytest.raises(ValueError, match="is not accepted"):
        WORD(dialect.value)


@pytest.mark.parametrize("dialect", sorted(SPOKEN))
def test_it_can_say_so_of_the_others(dialect: Dialect) -> None:
    assert WORD(dialect.value) == dialect


@pytest.mark.parametrize(("path", "dialect"), [("/api/chat", OURS[0]), ("/api/generate", OURS[1])])
def test_each_has_an_endpoint_that_generates_and_streams(path: str, dialect: Dialect) -> None:
    endpoint = ENDPOINTS[path]
    assert (endpoint.dialect, endpoint.generates, endpoint.streams) == (dialect, True, True)

"""The model in the query of a URL: `?model=NAME`."""

from __future__ import annotations

from urllib.parse import quote, unquote_plus

from stoker.domain.errors import ClientError


def model_of_query(query: bytes, needs_model: bool = True) -> str:
    """Raises ClientError 400 for two models, or none. `needs_model` False: then the model is empty."""
    found = [value for name, value in map(_pair, query.split(b"&")) if name == "model"]
    if len(found) > 1:
        text = f"'model' appears {len(found)} times in the URL's query: send it once"
        raise ClientError(text, code="duplicate_field", param="model")
    if needs_model and (not found or not found[0]):
        text = "the URL's query does not name a model: add ?model=NAME; see GET /v1/models for the names"
        raise ClientError(text, code="bad_model", param="model")
    return found[0] if found else ""


def with_model(query: bytes, model: str) -> bytes:
    """The query with another model; everything else stays as it was sent."""
    parts = query.split(b"&")
    for at, (name, _) in enumerate(map(_pair, parts)):
        if name == "model":
            parts[at] = b"model=" + quote(model, safe="").encode()
    return b"&".join(parts)


def _pair(part: bytes) -> tuple[str, str]:
    name, _, value = part.decode("latin-1").partition("=")
    return unquote_plus(name), unquote_plus(value)

"""The hub's client: it lists a repository, reads parts of its files, and says what to do where the hub refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.memory.model_files import llama
from tests.setup.hub_stand_in import COMMIT, HubStandIn

from stoker.store.files.gguf_header import read_header, read_header_from
from stoker_setup import hub as hub_module
from stoker_setup.hub import Hub, HubRefused


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    monkeypatch.setattr(hub_module, "PAUSE", 0.0)
    server = HubStandIn()
    server.repositories["org/model"] = {**{f"m-{n}.gguf": bytes([n]) * 200 for n in range(7)}, "config.json": b"{}"}
    yield server
    server.close()


def asking(stand_in: HubStandIn, **environment: str) -> Hub:
    return Hub.of({"HF_ENDPOINT": stand_in.url, "HF_HOME": "/nowhere", **environment})


def test_a_repository_is_listed_over_all_pages(stand_in: HubStandIn) -> None:
    repository = asking(stand_in).repository("org/model")
    assert repository.commit == COMMIT
    assert [file.path for file in repository.files] == ["config.json", *(f"m-{n}.gguf" for n in range(7))]
    model, config = repository.file("m-3.gguf"), repository.file("config.json")
    assert model is not None
    assert (model.size, model.sha256) == (200, hashlib.sha256(bytes([3]) * 200).hexdigest())
    assert config is not None
    assert (config.size, config.sha256) == (2, "")


def test_a_name_that_could_be_no_file_or_speak_to_a_terminal_is_left_out(stand_in: HubStandIn) -> None:
    odd = {"a\0.json": b"x", "b\x1b[2J.gguf": b"x", "c\n.json": b"x", "\ud800.json": b"x", "ä b.json": b"x"}
    stand_in.repositories["org/odd"] = {**odd}
    assert [file.path for file in asking(stand_in).repository("org/odd").files] == ["ä b.json"]


@pytest.mark.parametrize("there", ["https://{host}", "http://other.example"])
def test_a_list_goes_on_at_the_same_place_only(stand_in: HubStandIn, there: str) -> None:
    """What follows gets the token, too."""
    stand_in.goes_on_at = there.format(host=stand_in.url.removeprefix("http://"))
    with pytest.raises(HubRefused, match="a list that goes on at another host, or without encryption"):
        asking(stand_in, HF_TOKEN="hf_secret").repository("org/model")


def test_a_part_of_a_file_comes_from_the_store_which_never_sees_the_token(stand_in: HubStandIn) -> None:
    stand_in.private, stand_in.token = {"org/model"}, "hf_secret"
    hub = asking(stand_in, HF_TOKEN="hf_secret")
    repository = hub.repository("org/model")
    assert hub.read(repository, "m-5.gguf", 10, 14) == b"\5" * 4
    assert stand_in.store_saw[-1]["range"] == "bytes=10-13"
    assert "authorization" not in stand_in.store_saw[-1]


def test_a_renamed_repository_is_followed(stand_in: HubStandIn) -> None:
    stand_in.renamed["old/name"] = "org/model"
    assert len(asking(stand_in).repository("old/name").files) == 8


def test_the_token_that_its_own_client_keeps_is_used(stand_in: HubStandIn, tmp_path: Path) -> None:
    stand_in.private, stand_in.token = {"org/model"}, "kept"
    (tmp_path / "token").write_text("kept\n")
    assert asking(stand_in, HF_HOME=str(tmp_path)).repository("org/model").files


def test_a_header_is_read_without_the_weights(stand_in: HubStandIn, tmp_path: Path) -> None:
    path = llama(tmp_path / "m.gguf")
    stand_in.repositories["org/model"]["large.gguf"] = path
    hub = asking(stand_in)
    repository = hub.repository("org/model")
    file = repository.file("large.gguf")
    assert file is not None
    assert file.size > 4 * 2**30
    assert read_header_from(hub.open(repository, file), "large.gguf", file.size) == read_header(str(path))
    assert stand_in.sent < 4 * 2**20


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([(429, {"retry-after": "300"})], "takes no more requests from here for now (429): try again in 300 s, or set"),
        ([(503, {})] * 3, "cannot be asked (answers 503 Service Unavailable, 3 times)"),
        ([(418, {})], "answers 418"),
        ([(403, {"x-error-code": "GatedRepo"})], "accepted its terms: open http"),
    ],
)
def test_a_refusal_says_what_to_do(stand_in: HubStandIn, answers: list[tuple[int, dict[str, str]]], says: str) -> None:
    stand_in.answers = answers
    with pytest.raises(HubRefused) as refused:
        asking(stand_in).repository("org/model")
    assert says in refused.value.message


def test_what_passes_is_tried_again(stand_in: HubStandIn) -> None:
    stand_in.answers = [(503, {}), (429, {"retry-after": "0"})]
    assert asking(stand_in).repository("org/model").files


def test_an_unknown_or_private_repository_a_gated_one_and_an_unknown_file(stand_in: HubStandIn) -> None:
    hub = asking(stand_in)
    with pytest.raises(
        HubRefused, match="has no repository org/other, or it is private: correct the name, or set HF_T"
    ):
        hub.repository("org/other")
    stand_in.gated.add("org/model")
    repository = hub.repository("org/model")
    with pytest.raises(HubRefused, match=r"accepted its terms: open .*/org/model, accept them, then set HF_TOKEN"):
        hub.read(repository, "m-1.gguf", 0, 1)
    stand_in.gated.clear()
    with pytest.raises(HubRefused, match="has no file other"):
        hub.read(repository, "other", 0, 1)


def test_another_server_and_an_endpoint_or_token_that_is_none(stand_in: HubStandIn) -> None:
    stand_in.answers = [(200, {})]
    with pytest.raises(HubRefused, match="answers with no JSON"):
        asking(stand_in).repository("org/model")
    with pytest.raises(HubRefused, match="HF_ENDPOINT is no address"):
        Hub.of({"HF_ENDPOINT": "huggingface.co"})
    with pytest.raises(HubRefused, match="HF_TOKEN is no token") as refused:
        Hub.of({"HF_TOKEN": "hf_a\nb"})
    assert "hf_a" not in refused.value.message


def test_a_hub_that_cannot_be_reached(stand_in: HubStandIn) -> None:
    url = stand_in.url
    stand_in.close()
    with pytest.raises(HubRefused, match=r"127\.0\.0\.1 cannot be asked \(Connection refused, 3 times\)"):
        Hub.of({"HF_ENDPOINT": url}).repository("org/model")
    stand_in.__init__()  # type: ignore[misc]

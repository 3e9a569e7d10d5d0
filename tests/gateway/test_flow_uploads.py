"""Forms with files: they are sent on byte for byte but for the model's name, and nothing of them is left behind."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, ask, story

from stoker.domain.dialect import Dialect
from stoker.domain.request_parameters import RequestParameters
from stoker.domain.serve import Serve
from stoker.domain.usage import MediaUnits
from stoker.request.accept.upload import MEMORY
from stoker_lab.testing.client import RawClient

PATH = "/v1/audio/transcriptions"
EARS = a_serve(served_name="whisper-1-large", dialects=frozenset((Dialect.TRANSCRIPTION, Dialect.IMAGE)))
LARGE = os.urandom(3 * MEMORY)


def form(*fields: tuple[str, bytes], file: bytes = b"RIFF", boundary: str = "bound") -> bytes:
    """A form whose file comes first."""
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode() + file]
    parts += [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value
        for name, value in fields
    ]
    return b"\r\n".join([*parts, f"--{boundary}--\r\n".encode()])


def head(length: int, path: str = PATH, kind: str = "multipart/form-data; boundary=bound", extra: str = "") -> bytes:
    text = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n{extra}content-length: {length}\r\n\r\n"
    return text.encode()


def post(body: bytes, path: str = PATH) -> bytes:
    return head(len(body), path) + body


def open_files(directory: Path) -> list[str]:
    """Files in a directory that this process holds open, those without a name included."""
    links = []
    for one in Path("/dev/fd").iterdir():
        try:
            links.append(os.readlink(one))
        except OSError:
            continue
    return [link for link in links if link.startswith(str(directory))]


def spool_to(stage: Stage, directory: Path) -> None:
    stage.flow.configure(replace(stage.flow.settings, spool=str(directory)))


async def sent(stage: Stage, data: bytes) -> RawClient:
    client = await stage.client()
    await client.send(data)
    return client


@pytest.mark.parametrize("file", [b"RIFF", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("path", [PATH, "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations"])
def test_only_the_models_name_changes_wherever_it_stands(path: str, file: bytes, tmp_path: Path) -> None:
    @story(EARS)
    async def tell(stage: Stage) -> None:
        spool_to(stage, tmp_path)
        body = form(("language", b"en"), ("model", b"a"), ("n", b"1"), file=file)
        client = await sent(stage, post(body, path))
        talk = await stage.asked()
        assert talk.head.startswith(f"POST {path} HTTP/1.1".encode())
        assert talk.header("content-type") == "multipart/form-data; boundary=bound"
        assert talk.header("transfer-encoding") is None
        assert talk.body == body.replace(b"\r\n\r\na\r\n", b"\r\n\r\nwhisper-1-large\r\n")
        talk.reply(b'{"text": "go forward", "duration": "2.5"}')
        reply = await client.reply()
        assert (reply.status, reply.json()["text"]) == (200, "go forward")
        assert reply.header("x-stoker-translation") == "model"
        decision = await stage.sealed()
        assert (decision.outcome, decision.model, decision.endpoint) == ("served", "a", path)
        assert decision.media == MediaUnits(2.5, images=1 if "images" in path else None)
        await stage.quiet()
        assert open_files(tmp_path) == []
        assert list(tmp_path.iterdir()) == []

    tell()


def test_a_serves_parameters_change_the_fields_and_not_the_file(tmp_path: Path) -> None:
    parameters = RequestParameters(set={"temperature": 0}, default={"language": "en"}, drop=("seed",))

    @story(replace(EARS, request=parameters))
    async def tell(stage: Stage) -> None:
        spool_to(stage, tmp_path)
        given = form(("temperature", b"1"), ("model", b"a"), ("seed", b"7"), ("prompt", b"words"), file=LARGE)
        client = await sent(stage, post(given))
        talk = await stage.asked()
        added = "".join(
            f'--bound\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in (("language", "en"), ("temperature", "0"))
        )
        rest = form(("model", b"whisper-1-large"), ("prompt", b"words"), file=LARGE)
        assert talk.body == added.encode() + rest
        assert talk.header("content-length") == str(len(talk.body))
        talk.reply(b"{}")
        reply = await client.reply()
        assert reply.header("x-stoker-translation") == "model,dropped:seed,default:language,set:temperature"

    tell()


@story(a_serve("ears", served_name="ears", dialects=EARS.dialects))
async def test_a_chunked_form_in_small_pieces_arrives_as_it_was(stage: Stage) -> None:
    body = form(("model", b"ears"), file=LARGE[:20_000])
    client = await stage.client()
    await client.send(head(0).replace(b"content-length: 0", b"transfer-encoding: chunked"))
    for at in range(0, len(body), 997):
        piece = body[at : at + 997]
        await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    await client.send(b"0\r\n\r\n")
    talk = await stage.asked()
    assert (talk.body, talk.header("content-length")) == (body, str(len(body)))
    talk.reply(b"{}")
    assert (await client.reply()).header("x-stoker-translation") is None


@story(EARS, body_budget=None)
async def test_while_it_waits_a_large_form_takes_no_memory_of_the_budget(stage: Stage) -> None:
    client = await sent(stage, post(form(("model", b"a"), file=LARGE)))
    talk = await stage.asked()
    assert stage.flow.bodies.held == 0
    talk.reply(b"{}")
    await client.reply()


@story(replace(EARS, max_active=1), queue_bytes=MEMORY + 1)
async def test_in_the_queue_a_large_form_counts_with_what_it_takes_of_memory(stage: Stage) -> None:
    first = await sent(stage, post(form(("model", b"a"))))
    talk = await stage.asked()
    second = await sent(stage, post(form(("model", b"a"), file=LARGE)))
    await stage.until(lambda: stage.flow.waiting_bodies.held, "the second one waits")
    assert stage.flow.waiting_bodies.held == MEMORY
    talk.reply(b"{}")
    assert (await first.reply()).status == 200
    (await stage.asked()).reply(b"{}")
    assert (await second.reply()).status == 200


WRONG = {
    "no model": (form(), 400, "bad_model"),
    "two models": (form(("model", b"a"), ("model", b"b")), 400, "duplicate_field"),
    "wrong boundary": (form(("model", b"a"), boundary="other"), 400, "bad_form"),
    "cut off": (form(("model", b"a"))[:-9], 400, "bad_form"),
    "unknown model": (form(("model", b"nobody")), 404, "unknown_model"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_form_is_refused_and_the_next_request_served(what: str) -> None:
    @story(EARS)
    async def tell(stage: Stage) -> None:
        body, status, code = WRONG[what]
        client = await sent(stage, post(body))
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (status, code)
        again = await sent(stage, post(form(("model", b"a"))))
        (await stage.asked()).reply(b"{}")
        assert (await again.reply()).status == 200

    tell()


def test_an_unknown_model_before_the_file_is_refused_without_the_file(tmp_path: Path) -> None:
    @story(EARS)
    async def tell(stage: Stage) -> None:
        spool_to(stage, tmp_path)
        begun = b'--bound\r\nContent-Disposition: form-data; name="model"\r\n\r\nnobody\r\n'
        client = await sent(stage, head(64 * MEMORY) + begun + form(file=LARGE)[: 2 * MEMORY])
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (404, "unknown_model")
        assert reply.header("connection") == "close"
        decision = await stage.sealed()
        assert (decision.outcome, decision.model) == ("refused", "nobody")
        assert open_files(tmp_path) == []

    tell()


@story(EARS, upload_limit=4 * MEMORY)
async def test_a_known_model_before_the_file_does_not_end_the_upload(stage: Stage) -> None:
    begun = b'--bound\r\nContent-Disposition: form-data; name="model"\r\n\r\na\r\n'
    served = await sent(stage, post(begun + form(file=LARGE)))
    (await stage.asked()).reply(b"{}")
    assert (await served.reply()).status == 200
    chunked = await sent(stage, head(0).replace(b"content-length: 0", b"transfer-encoding: chunked"))
    body = begun + form(file=LARGE + LARGE)
    await chunked.send(b"%x\r\n%b" % (len(body), body))
    reply = await chunked.reply()
    assert (reply.status, reply.header("connection")) == (413, "close")


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [("application/json", 415, "content_type"), ("multipart/form-data", 400, "bad_form")],
)
def test_a_body_that_is_no_form_is_refused_before_it_is_read(kind: str, status: int, code: str) -> None:
    @story(EARS)
    async def tell(stage: Stage) -> None:
        client = await sent(stage, head(10_000_000, kind=kind))
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (status, code)

    tell()


@story(EARS)
async def test_a_form_of_a_foreign_page_is_refused(stage: Stage) -> None:
    """A browser sends forms to other sites without asking first."""
    body = form(("model", b"a"))
    for header in ("origin: https://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: cross-site\r\n"):
        reply = await (await sent(stage, head(len(body), extra=header) + body)).reply()
        assert reply.status == 403


@story(EARS)
async def test_two_content_types_are_refused(stage: Stage) -> None:
    client = await sent(stage, head(2, extra="content-type: multipart/form-data; boundary=b\r\n") + b"--")
    assert (await client.reply()).json()["error"]["code"] == "repeated_header"


@story(EARS, upload_limit=5000, body_limit=100)
async def test_a_form_above_its_limit_is_413_before_or_while_it_is_read(stage: Stage) -> None:
    declared = await sent(stage, head(5001))
    assert (await declared.reply()).json()["error"]["code"] == "body_too_large"
    chunked = await sent(stage, head(0).replace(b"content-length: 0", b"transfer-encoding: chunked"))
    body = form(("model", b"a"), file=bytes(6000))
    await chunked.send(b"%x\r\n%b\r\n" % (len(body), body))
    reply = await chunked.reply()
    assert (reply.status, "front_door.upload_limit" in reply.json()["error"]["message"]) == (413, True)
    within = await sent(stage, post(form(("model", b"a"), file=bytes(4000))))
    (await stage.asked()).reply(b"{}")
    assert (await within.reply()).status == 200


def test_a_client_that_leaves_in_mid_upload_leaves_nothing_behind(tmp_path: Path) -> None:
    @story(EARS)
    async def tell(stage: Stage) -> None:
        spool_to(stage, tmp_path)
        client = await sent(stage, head(8 * MEMORY) + form(("model", b"a"), file=LARGE)[: 2 * MEMORY])
        await stage.until(lambda: open_files(tmp_path), "a file")
        assert list(tmp_path.iterdir()) == []  # it has no name: nothing would be left after a crash
        client.abort()
        assert (await stage.sealed()).outcome == "client_left"
        assert open_files(tmp_path) == []
        assert list(tmp_path.iterdir()) == []

    tell()


@story(EARS)
async def test_a_directory_that_takes_no_file_is_a_503_that_says_so(stage: Stage) -> None:
    spool_to(stage, Path("/nonexistent/directory"))
    client = await sent(stage, post(form(("model", b"a"), file=LARGE)))
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (503, "spool_failed")
    assert "No such file" in reply.json()["error"]["message"]


@story(EARS)
async def test_uploads_leave_a_part_of_the_disk_free(stage: Stage) -> None:
    def full(file: int) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 10**9, 10**5, 10**5, 0, 0, 0, 0, 255))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stoker.request.accept.upload.os.fstatvfs", full)
        reply = await (await sent(stage, post(form(("model", b"a"), file=LARGE)))).reply()
    assert (reply.status, reply.json()["error"]["code"]) == (503, "spool_failed")
    assert "only 391 MiB of the disk are free" in reply.json()["error"]["message"]


def test_a_client_that_leaves_the_queue_leaves_nothing_behind(tmp_path: Path) -> None:
    @story(replace(EARS, max_active=1))
    async def tell(stage: Stage) -> None:
        spool_to(stage, tmp_path)
        first = await sent(stage, post(form(("model", b"a"))))
        talk = await stage.asked()
        second = await sent(stage, post(form(("model", b"a"), file=LARGE)))
        await stage.until(lambda: stage.flow.waiting_bodies.held, "the second one waits")
        assert open_files(tmp_path)
        second.abort()
        await stage.until(lambda: stage.decisions, "its decision")
        assert stage.decisions[0].outcome == "client_left"
        assert open_files(tmp_path) == []
        talk.reply(b"{}")
        assert (await first.reply()).status == 200

    tell()


@story(EARS)
async def test_a_client_that_leaves_while_its_form_is_sent_on_ends_that_too(stage: Stage) -> None:
    client = await stage.client()
    sending = asyncio.get_running_loop().create_task(client.send(post(form(("model", b"a"), file=LARGE * 8))))
    await stage.until(lambda: stage.lines and stage.lines[0].head, "the head of the request")
    stage.lines[0].transport.pause_reading()
    await sending
    client.abort()
    assert (await stage.sealed()).outcome == "client_left"
    stage.lines[0].transport.resume_reading()
    await stage.until(lambda: stage.lines[0].gone.is_set(), "the end of the call")


@story(EARS)
async def test_a_serve_may_refuse_a_form_before_it_has_read_it(stage: Stage) -> None:
    """Its connection is not used again."""
    client = await stage.client()
    sending = asyncio.get_running_loop().create_task(client.send(post(form(("model", b"a"), file=LARGE * 8))))
    await stage.until(lambda: stage.lines and stage.lines[0].head, "the head of the request")
    talk = stage.lines[0]
    talk.transport.pause_reading()
    talk.reply({"error": {"message": "too long"}}, "413 Payload Too Large")
    reply = await client.reply()
    await sending
    assert (reply.status, reply.json()["error"]["message"]) == (413, "too long")
    await stage.until(lambda: talk.gone.is_set() or not stage.pool.idle_connections(), "the end of the connection")
    assert stage.pool.idle_connections() == []
    talk.transport.resume_reading()


@story(EARS)
async def test_a_kept_connection_that_the_serve_had_closed_gets_the_form_again(stage: Stage) -> None:
    body = form(("model", b"a"), file=LARGE[:100_000])
    first = await sent(stage, post(body))
    talk = await stage.asked()
    talk.reply(b"{}")
    await first.reply()
    second = await sent(stage, post(body))
    stale = await stage.asked()
    stale.transport.abort()
    fresh = await stage.asked()
    assert fresh is not stale
    assert fresh.body == stale.body
    fresh.reply(b"{}")
    assert (await second.reply()).status == 200


@story(a_serve(dialects=frozenset((Dialect.CHAT,))), Serve("b", dialects=EARS.dialects, served_name="b"))
async def test_a_serve_of_text_gets_no_forms_and_one_of_forms_no_text(stage: Stage) -> None:
    for data in (post(form(("model", b"a"))), ask("b")):
        reply = await (await sent(stage, data)).reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "dialect_not_spoken")


@story(EARS)
async def test_a_transcription_that_streams_passes_frame_by_frame(stage: Stage) -> None:
    client = await sent(stage, post(form(("model", b"a"), ("stream", b"true"))))
    talk: Talk = await stage.asked()
    talk.begin()
    talk.chunk(b'data: {"type":"transcript.text.delta","delta":"go"}\n\n')
    opened = await client.head()
    events = client.events(opened)
    assert (await anext(events)).json()["delta"] == "go"
    talk.chunk(b'data: {"type":"transcript.text.done","text":"go","usage":{"input_tokens":14,"output_tokens":2}}\n\n')
    talk.send(b"0\r\n\r\n")
    assert (await anext(events)).json()["text"] == "go"
    decision = await stage.sealed()
    assert (decision.stream, decision.input_tokens, decision.output_tokens) == (True, 14, 2)


@story(EARS)
async def test_a_plain_transcription_that_is_called_a_page_is_an_answer(stage: Stage) -> None:
    """whisper-server answers so if `response_format` is `text`."""
    for text, status in ((b" Go forward.\n", 200), (b"<!DOCTYPE html><p>404</p>", 502), (b"<html>", 502)):
        client = await sent(stage, post(form(("model", b"a"))))
        talk = await stage.asked()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(text)}\r\n\r\n"
        talk.send(head.encode() + text)
        reply = await client.reply()
        assert reply.status == status

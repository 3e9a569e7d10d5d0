"""`stoker run`: what is sent, what is shown of the blocks, how it ends, and how it goes on."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.fake_stoker import FakeStoker, error

from stoker.cli.main import run
from stoker.domain.decision import Decision, OrchestratedRecord
from stoker_orchestrator.commands import run_request
from stoker_orchestrator.loop.blocks import LayerResult, WorkerBlock
from stoker_orchestrator.memory import records
from stoker_orchestrator.memory.scratchpad import RunHead, Scratchpad
from stoker_orchestrator.orchestrator import CheckLayer

CHAT = "POST /v1/chat/completions"
ID = "run_1"
CODE = WorkerBlock("def f() -> int:\n    return 1\n", True, "python", "one.py")
Captured = pytest.CaptureFixture[str]


def stream(*texts: str, end: dict[str, Any] | None = None) -> bytes:
    """A streamed chat answer; `end`: the error with which it breaks off."""
    chunks = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, f"data: {json.dumps(end)}\n\n" if end else "data: [DONE]\n\n"]).encode()


class Talker:
    """A Stoker with orchestrators; it answers with one block that failed once."""

    def __init__(self, stoker: FakeStoker, home: Path) -> None:
        self.stoker = stoker
        self.state = home / "work" / "state"
        self.orchestrators("pair")
        self.answer(stream("```python one.py\n", CODE.text, "```\n"))
        self.pad = home / "pad.md"
        self.write()
        self.decide(OrchestratedRecord("pair", "block_by_block", "code-write", 1, failures={"structure": 1}))

    def orchestrators(self, *names: str, project: str = "") -> None:
        known = [{"name": name, "worker": "fast", "policy": "by-class", "project": project} for name in names]
        self.stoker.status(orchestrators=known)

    def answer(self, reply: bytes, code: int = 200) -> None:
        self.stoker.routes[CHAT] = lambda body: (code, reply)

    def write(self, resumes: str = "") -> None:
        """The scratchpad, and how it is asked for."""
        head = RunHead(ID, "pair", "fast", task="code-write", resumes=resumes)
        self.pad.unlink(missing_ok=True)
        pad = Scratchpad(self.pad)
        pad.begin(head)
        if not head.resumes:
            pad.add_block(1, 1, CODE)
            failed = LayerResult(CheckLayer.STRUCTURE, False, "line 1: \x1b[31minvalid syntax")
            pad.add_check(1, 1, failed)
            pad.add_block(1, 2, CODE)
            pad.add_check(1, 2, LayerResult(CheckLayer.STRUCTURE, True))
        pad.commit(1, CODE)
        found, after = records.read_new(self.pad, 0)
        shown = [{**one.facts, "text": one.text} for one in found]
        self.stoker.answer(f"GET /admin/orchestrator/{ID}?offset=0", {"records": shown, "next": after})
        self.stoker.answer(f"GET /admin/orchestrator/{ID}?offset={after}", {"records": [], "next": after})

    def decide(self, record: OrchestratedRecord, **more: Any) -> None:
        fields = {"serve": "fast", "input_tokens": 100, "output_tokens": 50, "latency": 2.0, "outcome": "served"}
        decision = Decision(ID, 0.0, "/v1/chat/completions", orchestrated=record, **{**fields, **more})
        self.stoker.answer(f"GET /admin/decisions/{ID}", {"decision": msgspec.to_builtins(decision)})

    def sent(self) -> dict[str, Any]:
        [body] = [body for asked, body in self.stoker.asked if asked == CHAT]
        return dict(body)

    def headers(self) -> dict[str, str]:
        return next(h for (asked, _), h in zip(self.stoker.asked, self.stoker.headers, strict=True) if asked == CHAT)

    def saved(self) -> Path:
        return self.state / "orchestrator" / f"{ID}.request.json"


@pytest.fixture
def talker(stoker: FakeStoker, home: Path, monkeypatch: pytest.MonkeyPatch) -> Talker:
    monkeypatch.setattr(run_request, "new_id", lambda: ID)
    path = home / "work" / "stoker.toml"
    path.write_text(path.read_text() + '\n[orchestrator.pair]\nworker = "fast"\ncheck_names = false\n')
    return Talker(stoker, home)


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_passed_text_goes_to_stdout_and_what_happened_to_stderr(talker: Talker, capsys: Captured) -> None:
    assert run(["run", "Write f"]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"```python one.py\n{CODE.text}```\n"
    lines = shown.err.splitlines()
    assert lines[0] == "pair: fast writes; class code-write"
    assert lines[1:5] == [
        "block 1: written, 2 lines",
        "block 1: structure failed: line 1: \\u001b[31minvalid syntax",
        "block 1: written, 2 lines, attempt 2",
        "block 1: passed, for one.py",
    ]
    assert lines[5] == f"{ID}: 1 block, 1 failed; 100 tokens in, 50 out; 2.0 s, 25.0 tokens/s"
    assert talker.sent() == {"model": "pair", "messages": [{"role": "user", "content": "Write f"}], "stream": True}


def test_for_programs_there_is_one_document(talker: Talker, capsys: Captured) -> None:
    assert run(["run", "Write f", "--json"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert (document["request"], document["outcome"], document["committed"]) == (ID, "finished", 1)
    [block] = document["blocks"]
    assert (block["attempts"], block["passed"], block["path"]) == (2, True, "one.py")
    assert block["findings"][0]["layer"] == "structure"
    assert document["tokens_per_second"] == 25.0
    assert shown.err == ""


def test_the_cost_is_that_of_the_workers_tier(talker: Talker, home: Path, capsys: Captured) -> None:
    path = home / "work" / "stoker.toml"
    path.write_text(
        path.read_text() + '\n[[tier]]\nname = "fast"\nserve = "fast"\ncost = { input = 1.0, output = 2.0 }\n'
    )
    assert run(["run", "Write f"]) == 0
    assert "; cost 0.0002" in capsys.readouterr().err


def test_an_answer_that_is_not_checked_says_so(talker: Talker, capsys: Captured) -> None:
    talker.stoker.answer(f"GET /admin/orchestrator/{ID}?offset=0", error("none", "unknown_request"), 404)
    talker.decide(OrchestratedRecord("pair", "simple", "caller"))
    assert run(["run", "Who are you?", "--policy", "simple"]) == 0
    assert talker.headers()["x-stoker-policy"] == "simple"
    assert "block" not in capsys.readouterr().err


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_files_are_in_the_prompt_and_their_hashes_in_a_header(talker: Talker, home: Path) -> None:
    (home / "work" / "app").mkdir()
    (home / "work" / "app" / "a b.py").write_text("x = '```'\n")
    (home / "other.py").write_text("y = 1")
    arguments = ["run", "Mend it", "--project", ".", "--file", "app/a b.py", "--file", str(home / "other.py")]
    assert run(arguments) == 0
    digest = hashlib.sha256(b"x = '```'\n").hexdigest()
    headers = talker.headers()
    assert headers["x-stoker-read-files"] == f"app/a%20b.py={digest}", "what lies elsewhere is only shown"
    assert headers["x-stoker-project"] == str(home / "work")
    content = talker.sent()["messages"][0]["content"]
    assert "The file `app/a b.py` as it is now:\n````py app/a b.py\nx = '```'\n````" in content


def test_files_are_looked_for_in_the_configured_project(talker: Talker, home: Path) -> None:
    (home / "project").mkdir()
    (home / "project" / "a.py").write_text("x = 1\n")
    talker.orchestrators("pair", project=str(home / "project"))
    assert run(["run", "Mend it", "--file", "a.py"]) == 0
    assert talker.headers()["x-stoker-read-files"].startswith("a.py=")
    assert "x-stoker-project" not in talker.headers()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either a prompt or --resume"),
        (["x", "--resume", "run_0"], "give either a prompt or --resume"),
        (["--resume", "run_0", "--model", "pair"], "leave out --model"),
        (["--resume", "../x"], "not the id of a request"),
        (["--resume", "run_0"], "stoker orchestrator list"),
        (["x", "--policy", "sometimes"], "there are block_by_block, simple, by-class"),
        (["x", "--project", "nowhere"], "mkdir -p "),
        (["x", "--file", "nowhere.py"], "--file nowhere.py: No such file"),
        (["x", "--file", "binary"], "it is not text in UTF-8"),
        ([" "], "the prompt is empty"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_asked(
    talker: Talker, home: Path, capsys: Captured, arguments: list[str], said: str
) -> None:
    (home / "work" / "binary").write_bytes(b"\xff\xfe")
    assert run(["run", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert talker.stoker.posts() == []


def test_without_an_orchestrator_the_error_names_the_way(stoker: FakeStoker, capsys: Captured) -> None:
    assert run(["run", "Write f"]) == 2
    said = capsys.readouterr().err
    assert "add [orchestrator.NAME]" in said
    assert stoker.posts() == []


def test_of_several_orchestrators_one_has_to_be_named(talker: Talker, home: Path, capsys: Captured) -> None:
    path = home / "work" / "stoker.toml"
    path.write_text(path.read_text() + '\n[orchestrator.trio]\nworker = "slow"\ncheck_names = false\n')
    assert run(["run", "Write f"]) == 2
    assert "name one of them: --model pair (there are pair, trio)" in capsys.readouterr().err
    assert run(["run", "Write f", "--model", "trio"]) == 0
    assert talker.sent()["model"] == "trio"


# -- how it ends, and goes on ------------------------------------------------------------------------------------------


def test_a_block_that_never_passes_ends_with_1_and_the_way_on(talker: Talker, capsys: Captured) -> None:
    talker.answer(stream("x\n", end=error("block 2 failed its structure check 4 times", "validation_failed")))
    assert run(["run", "Write f"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "x\n"
    assert "stoker: block 2 failed its structure check 4 times\n" in shown.err
    assert shown.err.splitlines()[-1].startswith(f"go on after them: stoker run --resume {ID} --config ")


def test_a_refusal_is_shown_in_the_words_of_stoker(talker: Talker, capsys: Captured) -> None:
    talker.answer(json.dumps(error("unknown model 'nobody'", "unknown_model")).encode(), 404)
    assert run(["run", "Write f", "--model", "nobody", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["error"] == {"message": "unknown model 'nobody'", "code": "unknown_model"}
    assert document["outcome"] == "unknown_model"


def test_an_answer_that_breaks_off_is_an_error(talker: Talker, capsys: Captured) -> None:
    talker.answer(b'data: {"choices": [{"delta": {"content": "half"}}]}\n\n')
    assert run(["run", "Write f"]) == 1
    assert "the answer ended too early" in capsys.readouterr().err


def test_what_is_sent_is_kept_for_its_owner_alone_and_sent_again(talker: Talker, capsys: Captured) -> None:
    assert run(["run", "Write f", "--policy", "block_by_block"]) == 0
    first = talker.saved()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    first.rename(first.with_name("run_0.request.json"))
    first.with_name("run_0.md").write_bytes(talker.pad.read_bytes())
    sent = talker.sent()
    talker.stoker.asked.clear()
    talker.stoker.headers.clear()
    talker.write(resumes="run_0")
    assert run(["run", "--resume", "run_0"]) == 0
    assert talker.sent() == sent
    assert talker.headers()["x-stoker-resume"] == "run_0"
    assert talker.headers()["x-stoker-policy"] == "block_by_block"
    assert "block 1: kept from run_0, for one.py" in capsys.readouterr().err


def test_a_request_that_had_not_begun_begins_anew(talker: Talker, capsys: Captured) -> None:
    assert run(["run", "Write f"]) == 0
    talker.saved().rename(talker.saved().with_name("run_0.request.json"))
    talker.stoker.asked.clear()
    talker.stoker.headers.clear()
    assert run(["run", "--resume", "run_0"]) == 0
    assert "x-stoker-resume" not in talker.headers()
    assert "run_0 had not begun" in capsys.readouterr().err

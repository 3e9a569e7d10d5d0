"""Each pass changes one thing of a prompt, tells what is lost, and leaves the client's own prompt alone."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import pytest
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    Block,
    Choice,
    Document,
    Image,
    Prompt,
    Redacted,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from stoker.request.translate.chat.write_prompt import write_prompt as write_chat
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.prepare import BILLING, PASSES, Pass, PassContext, names, prepare
from stoker.request.translate.prepare import billing as billing_pass
from stoker.request.translate.prepare import ids as ids_pass
from stoker.request.translate.prepare import images as images_pass
from stoker.request.translate.prepare import prefill as prefill_pass
from stoker.request.translate.prepare import results as results_pass
from stoker.request.translate.prepare import system as system_pass
from stoker.request.translate.prepare import thinking as thinking_pass
from stoker.request.translate.prepare import user as user_pass

SIGNER = ThinkingSigner((b"key",))
CHAT = capabilities_of("vllm", Dialect.CHAT, cloud=False)
KEEPS = capabilities_of("vllm", Dialect.CHAT, False, {"system_turns": "keep"})
CLOUD = capabilities_of("openai", Dialect.CHAT, cloud=True)
MESSAGES = capabilities_of("vllm", Dialect.MESSAGES, cloud=False)
ANTHROPIC = capabilities_of("openai", Dialect.MESSAGES, cloud=True)
RESPONSES = capabilities_of("openai", Dialect.RESPONSES, cloud=True)


def user(*said: str | Block) -> Turn:
    return Turn(Role.USER, blocks(*said))


def system(*said: str | Block) -> Turn:
    return Turn(Role.SYSTEM, blocks(*said))


def own(*said: str | Block) -> Turn:
    return Turn(Role.ASSISTANT, blocks(*said))


def blocks(*said: str | Block) -> list[Block]:
    return [Text(one) if isinstance(one, str) else one for one in said]


def call(id: str, name: str = "f", custom: bool = False) -> ToolCall:
    return ToolCall(id, name, "{}", custom)


def result(id: str, *said: str | Block, custom: bool = False) -> ToolResult:
    return ToolResult(id, blocks(*said), custom=custom)


MISSING = "(no result: the call was not answered)"


def missing(id: str, custom: bool = False) -> ToolResult:
    return ToolResult(id, [Text(MISSING)], is_error=True, custom=custom)


def through(one: Pass, serve: Capabilities, *turns: Turn, **fields: Any) -> tuple[Prompt, list[str]]:
    losses = Losses()
    prompt = Prompt(fields.pop("dialect", Dialect.MESSAGES), "m", list(turns), **fields)
    before = deepcopy(prompt)
    found = one(prompt, PassContext(serve, SIGNER, losses))
    assert prompt == before
    assert set(losses.codes) <= set(LOSSY)
    return found, list(losses.codes)


# -- thinking -----------------------------------------------------------------------------------------------------


def thought(serve: Capabilities, block: Block, dialect: Dialect = Dialect.MESSAGES) -> tuple[list[Block], list[str]]:
    found, lost = through(thinking_pass, serve, user("a"), own(block, "b"), dialect=dialect)
    assert found.turns[0] == user("a")
    assert found.turns[1].blocks[-1] == Text("b")
    return found.turns[1].blocks[:-1], lost


OURS = Thinking("hm", SIGNER.sign("m", "hm"))


def sealed(text: str = "", signature: str = "", redacted: str = "") -> Thinking:
    return Thinking("", SIGNER.seal("m", text, signature, redacted))


def test_without_thinking_the_prompt_is_the_same() -> None:
    prompt = Prompt(Dialect.CHAT, "m", [user("a")])
    assert thinking_pass(prompt, PassContext(CHAT, SIGNER, Losses())) is prompt


def test_a_seal_is_opened() -> None:
    assert thought(CHAT, sealed("hm"), Dialect.RESPONSES) == ([Thinking("hm")], [])
    assert thought(ANTHROPIC, sealed("hm", "EqQB"), Dialect.RESPONSES) == (
        [Thinking("hm", "EqQB", "anthropic")],
        [],
    )
    assert thought(ANTHROPIC, sealed(redacted="d"), Dialect.RESPONSES) == ([Redacted("d")], [])
    assert thought(CHAT, sealed(redacted="d"), Dialect.RESPONSES) == ([], ["thinking_redacted"])


def test_a_signature_of_ours_must_fit_its_text() -> None:
    assert thought(CHAT, OURS) == ([OURS], [])
    assert thought(CHAT, Thinking("other", OURS.signature)) == ([], ["thinking_altered"])


@pytest.mark.parametrize("block", [OURS, Thinking("hm"), sealed("hm")])
def test_claude_code_71111_anthropic_takes_only_what_it_signed(block: Block) -> None:
    assert thought(ANTHROPIC, block) == ([], ["thinking_unsigned"])
    assert thought(ANTHROPIC, Thinking("hm", "EqQB")) == ([Thinking("hm", "EqQB")], [])
    assert thought(ANTHROPIC, Redacted("d")) == ([Redacted("d")], [])


@pytest.mark.parametrize("block", [Thinking("hm"), Thinking("hm", "EqQB"), sealed("hm", "EqQB")])
def test_to_messages_of_other_makers_all_thinking_is_signed_by_us(block: Block) -> None:
    ((found,), lost) = thought(MESSAGES, block, Dialect.CHAT)
    assert isinstance(found, Thinking)
    assert SIGNER.fits(found.signature, "hm")
    assert lost == (["signature"] if block != Thinking("hm") else [])
    assert thought(MESSAGES, OURS) == ([OURS], [])


def test_what_openai_encrypted_is_its_text_elsewhere() -> None:
    assert thought(CHAT, Thinking("hm", "gAAAA"), Dialect.RESPONSES) == ([Thinking("hm")], ["signature"])
    assert thought(CHAT, Thinking("hm"), Dialect.RESPONSES) == ([Thinking("hm")], [])
    assert thought(ANTHROPIC, Thinking("hm", "gAAAA"), Dialect.RESPONSES) == ([], ["thinking_unsigned"])
    assert thought(RESPONSES, Thinking("hm", "gAAAA"), Dialect.RESPONSES) == ([Thinking("hm", "gAAAA")], [])


def test_what_is_redacted_goes_to_its_maker_alone() -> None:
    assert thought(CHAT, Redacted("d")) == ([], ["thinking_redacted"])


@pytest.mark.parametrize("text", ["hm", ""])
def test_ccr_1041_thinking_stays_with_its_calls_over_a_loop_of_tools(text: str) -> None:
    turns = [user("a")]
    for at in range(3):
        signed = Thinking(text, SIGNER.sign("m", text))
        turns += [own(signed, call(f"t{at}")), user(result(f"t{at}", "r"))]
    losses = Losses()
    fitted, _ = prepare(Prompt(Dialect.MESSAGES, "m", turns), PassContext(CHAT, SIGNER, losses))
    messages = write_chat(fitted, CHAT, losses)["messages"]
    assert [message["reasoning_content"] for message in messages if message["role"] == "assistant"] == [text] * 3
    assert losses.codes == {}


# -- billing ------------------------------------------------------------------------------------------------------


LINE = f"{BILLING}: cch=0a1b2;"


def test_a_local_model_does_not_see_the_line_that_differs_with_each_request() -> None:
    found, lost = through(billing_pass, CHAT, system(LINE, "a"), system(LINE), user(LINE))
    assert (found.turns, lost) == ([system("a"), user(LINE)], [])
    assert through(billing_pass, CHAT, system(f"{LINE}\n\na\nb"))[0].turns == [system("a\nb")]
    assert through(billing_pass, CLOUD, system(LINE, "a"))[0].turns == [system(LINE, "a")]


def test_turns_without_that_line_stay_even_if_they_are_empty() -> None:
    turns = [system(), system("a"), user(), system(Image("image/png", "AAAA"))]
    assert through(billing_pass, CHAT, *turns)[0].turns == turns


# -- results ------------------------------------------------------------------------------------------------------


def answered(*turns: Turn, **fields: Any) -> tuple[list[Turn], list[str]]:
    found, lost = through(results_pass, CHAT, *turns, **fields)
    return found.turns, lost


def test_calls_with_their_results_stay_as_they_are_in_the_order_of_the_results() -> None:
    turns = [user("a"), own("b", call("1"), call("2")), user(result("2", "y"), result("1", "x"), "c")]
    assert answered(*turns) == (turns, [])


def test_claude_relay_980_a_call_without_a_result_gets_one_that_says_so() -> None:
    two = own(call("1"), call("2", custom=True))
    assert answered(two, user(result("1", "x"), "c")) == (
        [two, user(result("1", "x"), missing("2", custom=True), "c")],
        ["result_missing"],
    )
    assert answered(two, own("d")) == ([two, user(missing("1"), missing("2", True)), own("d")], ["result_missing"])


def test_calls_at_the_very_end_are_answered_too_and_begin_no_answer() -> None:
    found, lost = through(results_pass, CHAT, user("a"), own(call("1")), continues=True)
    assert (found.turns[-1], found.continues, lost) == (user(missing("1")), False, ["result_missing"])
    found, lost = through(results_pass, CHAT, user("a"), own("{"), continues=True)
    assert (found.turns[-1], found.continues, lost) == (own("{"), True, [])


def test_omniroute_4413_a_result_without_its_call_becomes_text() -> None:
    head = Text("(result of call 9, which is not in this conversation)")
    picture = Image("image/png", "AAAA")
    assert answered(user(result("9", "x", picture), "a")) == ([user(head, "x", picture, "a")], ["result_orphan"])
    turns = [own(call("1")), user(result("1", "x")), own("b"), user(result("1", "y"))]
    orphan = user("(result of call 1, which is not in this conversation)", "y")
    assert answered(*turns) == ([*turns[:3], orphan], ["result_orphan"])


def test_a_second_result_of_one_call_becomes_text() -> None:
    found, lost = answered(own(call("1")), user(result("1", "x"), result("1", "y")))
    assert found[1].blocks[0] == result("1", "x")
    assert found[1].blocks[-1] == Text("y")
    assert lost == ["result_orphan"]


def test_calls_to_which_their_engine_gave_one_id_have_a_result_each() -> None:
    turns = [own(call("1"), call("1")), user(result("1", "x"), result("1", "y"))]
    assert answered(*turns) == (turns, [])
    assert answered(turns[0], user(result("1", "x")))[0][1] == user(result("1", "x"), missing("1"))


def test_a_result_is_a_custom_one_if_its_call_is() -> None:
    found, _ = answered(own(call("1", custom=True)), user(result("1", "x")))
    assert found[1] == user(result("1", "x", custom=True))


def test_a_system_turn_between_calls_and_results_goes_behind_the_results() -> None:
    calls, results = own(call("1")), user(result("1", "x"))
    assert answered(calls, system("s"), system("t"), results)[0] == [calls, results, system("s"), system("t")]
    assert answered(calls, system("s"), own("b"))[0] == [calls, user(missing("1")), system("s"), own("b")]
    assert answered(calls, system("s"))[0] == [calls, user(missing("1")), system("s")]
    assert answered(own("a"), system("s"), user("b"))[0] == [own("a"), system("s"), user("b")]


# -- system -------------------------------------------------------------------------------------------------------


def placed(serve: Capabilities, *turns: Turn) -> tuple[list[Turn], list[str]]:
    found, lost = through(system_pass, serve, *turns)
    return found.turns, lost


@pytest.mark.parametrize("serve", [CHAT, KEEPS])
def test_vllm_48874_a_system_turn_behind_the_user_leaves_the_users_turn_last(serve: Capabilities) -> None:
    assert placed(serve, user("a"), system("s")) == ([user("a", "s")], ["system_turn"])


@pytest.mark.parametrize("serve", [CHAT, KEEPS])
def test_behind_results_it_joins_the_last_one_so_that_the_turn_stays_one_of_tools(serve: Capabilities) -> None:
    found, lost = placed(serve, user(result("1", "x"), result("2", "y")), system("s"), system("t"))
    assert (found, lost) == ([user(result("1", "x"), result("2", "y", "s", "t"))], ["system_turn"])
    assert placed(serve, user(result("1", "x"), "a"), system("s"))[0] == [user(result("1", "x"), "a", "s")]
    assert placed(serve, user(), system("s"))[0] == [user("s")]


def test_behind_the_assistant_it_stays_where_the_template_has_such_turns() -> None:
    turns = [user("a"), own("b"), system("s"), system("t"), user("c")]
    assert placed(KEEPS, *turns) == (turns, [])
    assert placed(CHAT, *turns) == ([user("a"), own("b"), user("s", "t", "c")], ["system_turn"])


def test_those_in_front_are_one_where_the_template_has_only_one() -> None:
    turns = [system("s"), system("t"), user("a")]
    assert placed(CHAT, *turns) == ([system("s", "t"), user("a")], [])
    assert placed(KEEPS, *turns) == (turns, [])
    assert placed(CHAT, system("s")) == ([system("s")], [])


def test_turns_of_the_user_in_a_row_are_one_and_the_assistants_are_not() -> None:
    assert placed(CHAT, user("a"), user("b"), own("c"), own("d"))[0] == [user("a", "b"), own("c"), own("d")]


def test_a_cloud_gets_system_turns_as_they_are() -> None:
    turns = [user("a"), system("s"), user("b")]
    assert placed(ANTHROPIC, *turns) == (turns, [])


def messages_of(serve: Capabilities, *turns: Turn) -> list[dict[str, Any]]:
    losses = Losses()
    fitted, _ = prepare(Prompt(Dialect.MESSAGES, "m", list(turns)), PassContext(serve, SIGNER, losses))
    found: list[dict[str, Any]] = write_chat(fitted, serve, losses)["messages"]
    return found


@pytest.mark.parametrize("serve", [CHAT, KEEPS, CLOUD])
@pytest.mark.parametrize("more", [(system("s2"), user("c")), (user("c"), system("s2"))])
def test_vllm_48874_one_more_system_turn_changes_nothing_of_what_stood_before(
    serve: Capabilities, more: tuple[Turn, ...]
) -> None:
    turns = [system("s0"), user("a"), own("b"), system("s1"), user("t"), own(call("1")), user(result("1", "x"))]
    before = messages_of(serve, *turns)
    after = messages_of(serve, *turns, own("d"), *more)
    assert after[: len(before)] == before
    assert after[-1]["role"] == "user" or serve is CLOUD


def test_the_texts_of_a_prompt_begin_those_of_the_next_one_even_without_an_answer_between() -> None:
    def texts(*turns: Turn) -> str:
        messages = messages_of(CHAT, *turns)
        return "".join(part if isinstance(part, str) else part["text"] for m in messages for part in m["content"])

    turns = [system("s0"), user("a"), system("s1"), user("b")]
    for count in range(1, len(turns)):
        assert texts(*turns).startswith(texts(*turns[:count]))


@pytest.mark.parametrize(
    "turns",
    [
        [system("s")],
        [user("a"), system("s")],
        [user("a")],
        [user(result("1", "x")), system("s"), user()],
        [own(*(call(str(at), custom=True) for at in range(9)))],
    ],
)
def test_long_conversations_cost_linear_time(turns: list[Turn]) -> None:
    times = 30_000 // sum(max(1, len(turn.blocks)) for turn in turns)
    prompt = Prompt(Dialect.MESSAGES, "m", [user("a"), *turns * times, user("b")])
    began = time.process_time()
    prepare(prompt, PassContext(CHAT, SIGNER, Losses()))
    assert time.process_time() - began < 10


def test_many_calls_in_one_turn_cost_linear_time() -> None:
    ids = [str(at) for at in range(30_000)]
    turns = [own(*(call(id) for id in ids)), user(*(result(id, "x") for id in ids))]
    began = time.process_time()
    assert answered(*turns) == (turns, [])
    assert time.process_time() - began < 10


# -- images, ids, prefill, names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [Image(url="https://a/b.png"), Document(url="https://a/b.pdf")])
@pytest.mark.parametrize(("dialect", "param"), [(Dialect.RESPONSES, "input"), (Dialect.CHAT, "messages")])
def test_an_address_goes_only_to_who_may_have_it(block: Block, dialect: Dialect, param: str) -> None:
    for turn in (user("a", block), user(result("1", block))):
        with pytest.raises(ClientError) as told:
            through(images_pass, CHAT, turn, dialect=dialect)
        assert (told.value.status, told.value.code, told.value.param) == (400, "image_url_refused", param)
        assert through(images_pass, CLOUD, turn)[0].turns == [turn]


def test_an_image_itself_goes_to_everybody() -> None:
    turn = user(Image("image/png", "AAAA"), result("1", Document("text/plain", text="a")))
    assert through(images_pass, CHAT, turn)[0].turns == [turn]


def test_short_ids_are_the_same_in_call_and_result() -> None:
    mistral = capabilities_of("vllm", Dialect.CHAT, False, {"tool_ids": "short"})
    found, _ = through(ids_pass, mistral, own("a", call("call_0123456789")), user(result("call_0123456789", "x")))
    one, two = found.turns[0].blocks[1], found.turns[1].blocks[0]
    assert isinstance(one, ToolCall)
    assert isinstance(two, ToolResult)
    assert one.id == two.id
    assert (len(one.id), one.id.isalnum()) == (9, True)
    turns = [own(call("call_0123456789"))]
    assert through(ids_pass, CHAT, *turns)[0].turns == turns


@pytest.mark.parametrize(
    ("kind", "continues", "still", "lost"),
    [("refuse", True, False, ["prefill"]), ("refuse", False, False, []), ("native", True, True, [])],
)
def test_a_begun_answer_goes_on_only_where_that_can_be_done(
    kind: str, continues: bool, still: bool, lost: list[str]
) -> None:
    serve = capabilities_of("vllm", Dialect.CHAT, False, {"prefill": kind})
    found, told = through(prefill_pass, serve, own("{"), continues=continues)
    assert (found.continues, told) == (still, lost)


def test_names_that_fit_stay() -> None:
    prompt = Prompt(Dialect.MESSAGES, "m", [own(call("1", "f"))], [Tool("g")])
    assert names(prompt, PassContext(CHAT, SIGNER, Losses())) == (prompt, {})


def test_names_that_are_too_long_or_have_other_letters_are_shortened_everywhere_and_lead_back() -> None:
    long, dotted = "x" * 65, "server.tool"
    choice = ToolChoice(Choice.NAMED, long, allowed=[dotted, "f"])
    prompt = Prompt(
        Dialect.MESSAGES,
        "m",
        [user("a"), own("b", call("1", dotted), call("2", "f"))],
        [Tool(long), Tool("f")],
        choice,
    )
    before = deepcopy(prompt)
    found, back = names(prompt, PassContext(CHAT, SIGNER, Losses()))
    assert prompt == before
    short = {own_: given for given, own_ in back.items()}
    assert set(short) == {long, dotted}
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in back)
    assert [tool.name for tool in found.tools] == [short[long], "f"]
    assert [block.name for block in found.turns[1].blocks if isinstance(block, ToolCall)] == [short[dotted], "f"]
    assert found.tool_choice == ToolChoice(Choice.NAMED, short[long], [short[dotted], "f"])


@pytest.mark.parametrize("allowed", [None, []])
def test_a_choice_without_names_stays(allowed: list[str] | None) -> None:
    choice = ToolChoice(Choice.AUTO, allowed=allowed)
    prompt = Prompt(Dialect.MESSAGES, "m", [], [Tool("a.b")], choice)
    assert names(prompt, PassContext(CHAT, SIGNER, Losses()))[0].tool_choice == choice
    prompt.tool_choice = None
    assert names(prompt, PassContext(CHAT, SIGNER, Losses()))[0].tool_choice is None


@pytest.mark.parametrize(
    ("serve", "id", "length"),
    [(CLOUD, "u" * 65, 64), (CLOUD, "u" * 64, 64), (CHAT, "u" * 65, 65), (ANTHROPIC, "u" * 65, 65)],
)
def test_a_users_id_that_openai_does_not_take_becomes_its_hash(serve: Capabilities, id: str, length: int) -> None:
    def written(user_id: str) -> Any:
        return through(user_pass, serve, user("a"), settings={"user": user_id, "seed": 1})[0].settings

    assert (len(written(id)["user"]), written(id)["seed"]) == (length, 1)
    assert written(id) == written(id)
    assert written(id) != written(id + "v")
    assert (written(id)["user"] == id) is (len(id) == length)


def test_every_pass_takes_an_empty_prompt() -> None:
    prompt = Prompt(Dialect.CHAT, "m", [])
    for one in PASSES:
        assert one(prompt, PassContext(CHAT, SIGNER, Losses())).turns == []

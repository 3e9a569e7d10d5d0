"""Runs with the Agents SDK's own Python: BASE_URL MODEL STEP [ID]. Talks through one of its sessions.

Prints what it found, as one JSON document.
"""

import asyncio
import json
import os
import sys

from agents.memory import OpenAIResponsesCompactionSession
from openai import AsyncOpenAI

from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    set_tracing_disabled,
)

BASE_URL, MODEL, STEP, *REST = sys.argv[1:]
set_tracing_disabled(True)
CLIENT = AsyncOpenAI(base_url=BASE_URL, api_key=os.environ["KEY"], max_retries=0)
AGENT = Agent(name="tester", model=OpenAIResponsesModel(MODEL, CLIENT), instructions="Answer briefly.")


async def conversation():
    """Two turns in a session that the server keeps; with an ID, one more turn in that one."""
    id = REST[0] if REST else (await CLIENT.conversations.create()).id
    session = OpenAIConversationsSession(conversation_id=id, openai_client=CLIENT)
    texts = ["a third question"] if REST else ["a first question", "a second question"]
    for text in texts:
        result = await Runner.run(AGENT, text, session=session)
    items = await session.get_items()
    return {"id": id, "answer": result.final_output, "items": [text_of(i) for i in items]}


async def previous():
    """Two turns, of which the second names the first one's response; with an ID, one turn after that response."""
    result = await Runner.run(AGENT, "a first question", previous_response_id=REST[0] if REST else None)
    if not REST:
        result = await Runner.run(AGENT, "a second question", previous_response_id=result.last_response_id)
    return {"id": result.last_response_id, "answer": result.final_output}


async def streamed():
    """A streamed turn in a session that the server keeps."""
    session = OpenAIConversationsSession(openai_client=CLIENT)
    result = Runner.run_streamed(AGENT, "a streamed question", session=session)
    kinds = [event.type async for event in result.stream_events()]
    return {
        "answer": result.final_output,
        "events": "raw_response_event" in kinds,
        "items": [text_of(item) for item in await session.get_items()],
    }


async def compaction():
    """A session that is compacted, and a turn after that."""
    session = OpenAIResponsesCompactionSession("tester", SQLiteSession("tester"), client=CLIENT, model=MODEL)
    for text in ("a first question", "a second question"):
        await Runner.run(AGENT, text, session=session)
    before = len(await session.get_items())
    await session.run_compaction({"force": True})
    kinds = [item.get("type") for item in await session.get_items()]
    result = await Runner.run(AGENT, "a third question", session=session)
    return {"answer": result.final_output, "before": before, "kinds": kinds}


def text_of(item):
    content = item.get("content")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


async def main():
    try:
        found = await globals()[STEP]()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


asyncio.run(main())

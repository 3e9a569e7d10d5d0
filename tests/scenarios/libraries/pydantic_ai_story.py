"""Runs with pydantic-ai's own Python: BASE_URL MODEL STEP [ID]. Prints what it found, as one JSON document."""

import asyncio
import json
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

BASE_URL, MODEL, STEP, *REST = sys.argv[1:]
AGENT = Agent(OpenAIResponsesModel(MODEL, provider=OpenAIProvider(base_url=BASE_URL, api_key=os.environ["KEY"])))


async def auto():
    """Two turns; the library itself finds the response to continue."""
    first = await AGENT.run("a first question")
    settings = OpenAIResponsesModelSettings(openai_previous_response_id="auto")
    second = await AGENT.run("a second question", message_history=first.all_messages(), model_settings=settings)
    return {"id": second.all_messages()[-1].provider_response_id, "answer": second.output}


async def named():
    """One turn after the response ID."""
    settings = OpenAIResponsesModelSettings(openai_previous_response_id=REST[0])
    result = await AGENT.run("a third question", model_settings=settings)
    return {"answer": result.output}


async def main():
    try:
        found = await globals()[STEP]()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


asyncio.run(main())

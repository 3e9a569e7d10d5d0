"""The JSON that was asked for, after its schema."""

from __future__ import annotations

from stoker.request.verify.expectation import Expectation
from stoker.request.verify.finding import AnswerFinding, noted, proved
from stoker.request.verify.json_value import InvalidJson, read_json


def check_json(expected: Expectation, text: str) -> list[AnswerFinding]:
    """The answer's whole text against the wanted form.

    1. the caller cut the answer itself, or began it   -> noted
    2. no JSON (a fence around it is none either)      -> proved
    3. no object, and no schema is known               -> noted: dialects differ in what "a JSON object" is
    4. it breaks the schema                            -> proved; what could not be checked is noted
    """
    value = read_json(text)
    if isinstance(value, InvalidJson):
        check = "too_deep" if value is InvalidJson.DEPTH else "json"
        return [noted(check) if expected.may_be_cut else proved(check)]  # 1, 2
    if expected.schema is None:
        return [] if isinstance(value, dict) else [noted("json", "JSON, but not an object")]  # 3
    fit, unchecked = expected.schema.fits(value)
    if fit is False:
        return [proved("json_schema")]  # 4
    return [noted("schema_unchecked", f"not checked: {', '.join(unchecked)}")] if fit is None else []

"""Which topics a request asks for. Pure."""

from __future__ import annotations

from stoker.domain.errors import ClientError

TOPICS = ("status", "requests", "swaps", "decisions", "results")
LOGS = "logs:"
DEFAULT = "status,swaps,decisions"
MAX_TOPICS = 16
_NAME_SHOWN = 80


def wanted_topics(given: str) -> list[str]:
    """The value of `?topics=`, each topic once. Raises ClientError 400 for an unknown one, or too many."""
    names = list(dict.fromkeys(name.strip() for name in given.split(",", MAX_TOPICS + 1)))
    if len(names) > MAX_TOPICS:
        raise _refusal(f"topics: at most {MAX_TOPICS} in one request")
    for name in names:
        if name not in TOPICS and not (name.startswith(LOGS) and name != LOGS):
            raise _refusal(
                f"there is no topic {name[:_NAME_SHOWN]!r}; the topics are {', '.join(TOPICS)} and {LOGS}SERVE"
            )
    return names


def _refusal(text: str) -> ClientError:
    return ClientError(text, code="bad_field", param="topics")

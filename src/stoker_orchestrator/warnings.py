"""What a configuration says of orchestrators that is allowed but probably not meant."""

from __future__ import annotations

from stoker.domain.access import Settings


def warnings(settings: Settings) -> list[str]:
    """Of validators: one sentence each. A configuration without orchestrators imports nothing for it."""
    if not settings.names_in("orchestrator"):
        return []
    from stoker_orchestrator.commands.validator import validator_warnings

    return validator_warnings(settings)

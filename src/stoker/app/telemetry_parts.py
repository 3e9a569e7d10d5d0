"""Builds what sends traces and metrics, if that is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from stoker import __version__
from stoker.app.configuration import ActiveConfiguration
from stoker.app.context import BuildContext
from stoker.domain.access import Settings
from stoker.domain.serve import Serve, replicas_of
from stoker.domain.telemetry import ServeLabels
from stoker.engines.registry import GENERIC, engine_of
from stoker.store.metrics import Metrics
from stoker.store.telemetry.environment import is_disabled, options
from stoker.store.telemetry.telemetry import TelemetrySender

PROVIDERS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic", "api.mistral.ai": "mistral_ai"}
"""`gen_ai.provider.name` of clouds, by host; that of a local serve is its engine."""


def build_telemetry(context: BuildContext, metrics: Metrics) -> TelemetrySender | None:
    """None: there is no `[telemetry]`, or OTEL_SDK_DISABLED. Its thread has started."""
    settings = context.settings.telemetry
    if settings is None or is_disabled(os.environ):
        return None
    facts = _Facts(context.active)
    sender = TelemetrySender(settings, options(settings, os.environ), __version__, metrics, facts.now)
    sender.start()
    return sender


class _Facts:
    """Made anew after a reload."""

    def __init__(self, active: ActiveConfiguration) -> None:
        self._active = active
        self._known: tuple[Settings | None, Mapping[str, ServeLabels]] = (None, {})

    def now(self) -> Mapping[str, ServeLabels]:
        """By serve and replica."""
        settings, (known, facts) = self._active.settings, self._known
        if known is not settings:
            facts = {
                one.name: ServeLabels(_provider(one), one.slot or "")
                for serve in settings.serves
                for one in (serve, *replicas_of(serve))
            }
            self._known = settings, facts
        return facts


def _provider(serve: Serve) -> str:
    if engine_of(serve.engine) is not GENERIC:
        return serve.engine
    host = urlsplit(serve.base_url or "").hostname or ""
    return PROVIDERS.get(host, ServeLabels().provider)

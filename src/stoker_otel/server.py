"""The part of the server that sends traces and metrics, if that is configured."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stoker import __version__
from stoker.app.server_parts import ServerContext, ServerPart
from stoker.domain.access import Settings
from stoker.domain.events import Event
from stoker.domain.serve import Serve, replicas_of
from stoker.engines.registry import GENERIC, engine_of
from stoker_otel.environment import is_disabled, options
from stoker_otel.settings import ServeLabels, telemetry_of
from stoker_otel.telemetry import TelemetrySender

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PROVIDERS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic", "api.mistral.ai": "mistral_ai"}
"""`gen_ai.provider.name` of clouds, by host; that of a local serve is its engine."""


def build(context: ServerContext) -> ServerPart:
    """What sends nothing if there is no `[telemetry]`, or OTEL_SDK_DISABLED. Else its thread has started."""
    settings = telemetry_of(context.settings())
    if settings is None or is_disabled(os.environ):
        return TelemetryPart(None)
    sender = TelemetrySender(
        settings, options(settings, os.environ), __version__, context.metrics, _Facts(context.settings).now
    )
    sender.start()
    return TelemetryPart(sender)


class TelemetryPart(ServerPart):
    def __init__(self, sender: TelemetrySender | None) -> None:
        self.tracer = self._sender = sender

    def on_event(self, event: Event) -> None:
        if self._sender is not None:
            self._sender.on_event(event)

    def status(self) -> Mapping[str, object]:
        return {"telemetry": None if self._sender is None else self._sender.status()}

    def metrics(self) -> Sequence[Metric]:
        if self._sender is None:
            return ()
        from stoker.store.families import counter

        results = [(("sent",), float(self._sender.sent)), (("dropped",), float(self._sender.dropped))]
        text = "Requests and swaps whose spans were sent to the collector, or dropped."
        return [counter("stoker_telemetry", text, ("result",), results)]

    async def close(self) -> None:
        if self._sender is not None:
            await asyncio.to_thread(self._sender.close)


class _Facts:
    """Made anew after a reload."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._known: tuple[Settings | None, Mapping[str, ServeLabels]] = (None, {})

    def now(self) -> Mapping[str, ServeLabels]:
        """By serve and replica."""
        settings, (known, facts) = self._settings(), self._known
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

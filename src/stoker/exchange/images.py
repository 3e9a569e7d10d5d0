"""Puts downloaded images into a request, for serves that do not take image URLs."""

from __future__ import annotations

from stoker.domain.decision import Candidate
from stoker.domain.dialect import Endpoint
from stoker.domain.errors import StokerError
from stoker.domain.protocols import Leases
from stoker.domain.serve import Serve
from stoker.exchange.formatter import Formatter
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.bounds import HEAVY
from stoker.request.relay.image_fetcher import ImageFetcher
from stoker.request.translate.remote_images import addresses, inlined


class ImageInliner:
    def __init__(self, leases: Leases, formatter: Formatter, fetcher: ImageFetcher) -> None:
        self._leases = leases
        self._formatter = formatter
        self._fetcher = fetcher

    async def inline(
        self, context: RequestContext, serve: Serve, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> bytes:
        """The body with images in the place of their URLs; the same body if the serve takes URLs or nothing may be
        downloaded. A fallback serve gets the images too: a serve that takes URLs also takes images.
        """
        if not self._fetcher.policy.fetch:
            return body
        if not self._formatter.needs_images(serve, self._leases.target(serve.name), endpoint):
            return body
        urls = await context.process(addresses, endpoint.dialect, body)
        if not urls:
            return body
        try:
            found = await context.run_cancellable(self._fetcher.fetch_all(urls))
        except StokerError as error:
            context.decision.candidates = [*context.decision.candidates[:-1], Candidate(serve.name, error.code)]
            raise
        context.raise_if_ended()
        fields.model_at = None  # its position in the old body
        context.token_count = "", None
        size = len(body) + sum(len(data) for _, data in found.values())
        context.is_heavy = context.is_heavy or size >= HEAVY  # the request is now as large as its images
        return await context.process(inlined, endpoint.dialect, body, found)

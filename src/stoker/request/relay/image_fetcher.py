"""Downloads images that requests give by URL, if the operator allows it: by the rules of `public_fetcher`, and these:

1. `fetch` is on, and at most `max_images` different images are asked for
2. at most `max_bytes`, and `timeout` seconds in all
3. its first bytes are those of an image, whatever its Content-Type says

An image whose address may not be asked, or that breaks rule 1, is refused (400 `image_url_refused`); the others fail
(400 `image_unavailable`). Both messages name only the host: the rest of the URL may hold a secret.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterable, Sequence

from stoker.domain.access import Media
from stoker.domain.errors import ClientError
from stoker.domain.special_addresses import is_public
from stoker.http.response import ResponseReader
from stoker.request.relay.public_fetcher import (
    FetchFailed,
    FetchRefused,
    FetchRules,
    PublicAddress,
    PublicFetcher,
    Resolve,
    parse_public_address,
    resolve,
)
from stoker.request.translate.neutral.media import sniff


def parse_image_address(url: str, hosts: Sequence[str], origin: PublicAddress | None = None) -> PublicAddress:
    """As `parse_public_address`. Raises ClientError 400 `image_url_refused`."""
    try:
        return parse_public_address(url, hosts, origin)
    except FetchRefused as error:
        raise _refusal(error) from None


def _refusal(error: FetchRefused) -> ClientError:
    if not error.is_unlisted:
        return refused(error.host, error.why)
    advice = "send the image as a data: URL; the operator can add the host there"
    return refused(error.host, f"the host is not in [media] hosts: {advice}")


def refused(host: str, why: str) -> ClientError:
    """`host`: empty if there is none to name."""
    where = f"the image at '{host[:100]}'" if host else "an image"
    return ClientError(f"{where} is not fetched: {why}", code="image_url_refused")


def unavailable(host: str, why: str) -> ClientError:
    return ClientError(f"the image at '{host[:100]}' could not be fetched: {why}", code="image_unavailable")


class ImageFetcher:
    """Fetches images. `policy` may be replaced; downloads under way keep the one that they began with."""

    def __init__(
        self,
        policy: Media,
        resolve: Resolve = resolve,
        is_allowed_address: Callable[[str], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.policy = policy
        self._fetcher = PublicFetcher(resolve, is_allowed_address, tls)

    async def fetch_all(self, urls: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Media type and base64 data by URL, downloaded concurrently. Raises ClientError 400 for the first failure.
        Then, and on cancel, no connection stays open.
        """
        different = list(dict.fromkeys(urls))
        if len(different) > self.policy.max_images:
            limit = f"the limit is {self.policy.max_images} ([media] max_images): send the others as data: URLs"
            text = f"the request has {len(different)} image URLs; {limit}"
            raise ClientError(text, code="image_url_refused")  # 1
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.fetch(url)) for url in different]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {url: task.result() for url, task in zip(different, tasks, strict=True)}

    async def fetch(self, url: str) -> tuple[str, str]:
        """Media type and base64 data of one image. Raises ClientError 400. On cancel no connection stays open."""
        policy = self.policy
        first = parse_image_address(url, policy.hosts)
        if not policy.fetch:
            advice = "send the image as a data: URL; the operator can allow it with `fetch = true` in [media]"
            raise refused(first.host, f"addresses of images are not fetched here: {advice}")  # 1
        rules = FetchRules(policy.hosts, policy.max_bytes, "image/*")
        try:
            async with asyncio.timeout(policy.timeout):
                at, answer = await self._fetcher.get(url, rules)
                if answer.is_cut:
                    raise unavailable(at.host, f"it is larger than {policy.max_bytes} bytes")  # 2
                return await asyncio.to_thread(_image, at, answer)  # it may be large
        except FetchRefused as error:
            raise _refusal(error) from None
        except FetchFailed as error:
            raise unavailable(error.host, error.why) from None
        except TimeoutError:
            raise unavailable(first.host, f"it did not arrive within {policy.timeout:g} s") from None  # 2


def _image(at: PublicAddress, answer: ResponseReader) -> tuple[str, str]:
    if answer.status != 200:
        raise unavailable(at.host, f"it answered HTTP {answer.status}")
    data = base64.b64encode(answer.body).decode()
    kind = sniff(data)
    if kind is None or not kind.startswith("image/"):
        raise unavailable(at.host, "it is not a PNG, JPEG, GIF, WebP or BMP image")  # 3
    return kind, data

"""Single questions over HTTP, outside the path of requests.

client    one question to an engine: JSON out, a bounded answer back; or many over one connection
response  one HTTP/1.1 answer, read to its end or to a bound
tls_contexts  which certificates are trusted, read beside the loop, and again when they change

Requests themselves go through `request.relay.pool`, which keeps connections and streams. Downloads of weights and the
CLI block in threads, on the standard library's `http.client`: `fleet.weights.http_connection`, `cli.console.control`.
httpx would replace none of them well. Its import takes four times the CPU time of `http.client`, for each command that
asks the running Stoker, and 8 MB in the process that serves; it brings five packages and a list of certificates of its
own. It cannot connect to an address that was checked before (`request.relay.public_fetcher`), and another thread cannot
end its blocked download.
"""

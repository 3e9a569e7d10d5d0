"""Calls the serve, and passes its reply to the client.

pool            kept connections to serves; HTTP/1.1 over httptools, one callback per read
reply           the client's side: held until it is meaningful, then committed; errors before and after that point
relay           joins the two: passes bytes on, reads usage, handles pauses, stalls, pings and cancellation
tunnel          a WebSocket session: bytes pass both ways, unread
headers         which headers are passed on, in both directions
faults          which error a serve's failure becomes for the client
tokens          asks a serve to count tokens
image_fetcher   fetches images by URL, under the operator's rules
public_fetcher  gets what a public address holds, and reaches no other

Nothing here awaits per event: the read callback of the serve's socket writes to the client's.
"""

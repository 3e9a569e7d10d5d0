"""The upstream call, and what the client gets of it.

pool      kept connections to serves; HTTP/1.1 over httptools, one callback per read
reply     the client's side: held until it is meaningful, then committed; errors on either side of that line
relay     joins the two: bytes through, usage read beside them, pauses, stalls, pings, cancel
outcome   how that ended: what a request waits for
headers   which headers go on, both ways
tokens    asks a serve to count tokens
pictures  fetches images by their address, by the operator's rules: site (where it lies), download (what comes)

Nothing here awaits per event: the read callback of the serve's socket writes to the client's.
"""

"""Bytes in.

connection  one client's connection: parsing, whose turn it is, how long it is kept; uvicorn hosts it
wire        one request on it: what it says, and the line on which its reply is written straight to the socket
turn        runs a request's coroutine in the callbacks that bring what it waits for
routes      what a method and a path mean (a table; percent-decoded once)
door        who may come in: Host and Origin, keys, scopes, limits per key
body        the request's body, bounded before it is read
"""

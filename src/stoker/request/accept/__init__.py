"""Bytes in.

wire     the line to one client: a thin subclass of uvicorn's protocol, so that relay can write straight to the socket
routes   what a method and a path mean (a table; percent-decoded once)
door     who may come in: Host and Origin, keys, scopes, limits per key
body     the request's body, bounded before it is read
"""

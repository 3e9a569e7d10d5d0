"""Keeps what the last requests and answers said, in memory only, for administrators: [capture].

store       what is kept, within a bound; the oldest goes first
recorder    sees a request: what came, what serves got and answered, what the client got
redaction   hides secrets of what is kept
shown       what is kept, as the documents of /admin/captures
server      the part of the server
"""

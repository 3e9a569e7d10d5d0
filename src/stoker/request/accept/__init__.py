"""Reads what clients send.

connection      one client connection: parsing, the order of its requests, how long it is kept
server_state    what all connections share
idle_connections  what happens to a connection between two requests
read_turns      how much of all uploads one turn of the event loop reads
tls             the certificate of the front door, and the watch over its files
wire            one request on a connection, and writing its reply straight to the socket
inline_task     runs a request's coroutine inside the callbacks that it waits for
routes          what a method and a path mean (a table; percent-decoded once)
cors            which web pages may use the API, and the headers for their browsers
body, budget    the body of one request, and of all requests together, bounded before it is read
body_worker     a thread for large bodies
upload, spool   a form with files, kept on disk if it is large
forwarded       the client's address and scheme, as a trusted proxy reports them
not_offered     paths of the OpenAI, Anthropic and Ollama APIs that Stoker does not have
"""

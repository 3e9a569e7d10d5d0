"""Reads what clients send.

connection    one client connection, from its first byte to its close; its requests, and their replies
bodies        the bodies of all requests together, bounded before they are read; a thread for large ones
upload        a form with files, kept on disk if it is large
message_wire  a request that came as a message of a WebSocket
routes        what a method and a path mean (a table; percent-decoded once)
cors          which web pages may use the API, and the headers for their browsers
forwarded     the client's address and scheme, as a trusted proxy reports them
tls           the certificate of the front door, and the watch over its files
"""

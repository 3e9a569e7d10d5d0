"""Tools that Stoker runs for local models: web search and web pages, in every client's own form.

A local model knows only functions. What a client leaves to the server is offered to it as one; Stoker runs the call by
what `[tools.NAME]` says, and the model goes on with the result. The tools of MCP servers are run in the same way.

extension    what this package adds to Stoker
tables       `[tools.NAME]` and `[tool_loop]`
declared     which such tools a request has, in each dialect; the same request with functions in their place
mcp_declared what it says of MCP servers: tools, approval, history. Pure
loop         which calls run, what follows a round, when it ends. Pure: events in, commands out
reading      tells a model's calls of these functions from the rest of its answer. Pure
result_text  what the model gets to read of a result, marked as content of others. Pure
page_text    a web page as text. Pure
search       asks search services
fetch        fetches pages
command      runs a program that searches or fetches
mcp_servers  the MCP servers of the configuration: sessions, lists, what was first seen
mcp_session  one session with one of them, by the official SDK. Imported with the first
paying       pays for calls out of the limits of a key
running      one call of one tool, with its limits
planner      which requests concern it; what is done around each attempt of one
server       the part of the server
commands     `stoker tools`
doctor       the findings of `stoker doctor`
"""

"""`python -m bench.conformance.mcp_server`: what stands for the MCP server that responses.js asks on the internet.

Of the official SDK, over stdio, with tools of the names and arguments that the suite looks for.
"""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("gitmcp")


@server.tool()
def fetch_tiktoken_documentation(root: str = "/") -> str:
    """Fetch the documentation of a repository. Always call this tool first."""
    return f"tiktoken is a tokeniser; this is its documentation below {root}."


@server.tool()
def search_tiktoken_documentation(query: str) -> str:
    """Search the documentation that was fetched."""
    return f"nothing about {query}"


if __name__ == "__main__":
    server.run()

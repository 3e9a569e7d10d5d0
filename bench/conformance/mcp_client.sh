#!/bin/sh
# An MCP client made of Stoker's own commands, for the conformance suite of MCP. The last argument is the server.
for server; do :; done
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
cat >"$folder/stoker.toml" <<END
[paths]
state = "$folder"
[tools.suite]
kind = "mcp"
url = "$server"
allow = ["*"]
timeout = "10s"
END
stoker tools list suite --config "$folder/stoker.toml"
case "${MCP_CONFORMANCE_SCENARIO:-}" in
  tools_call) stoker tools try suite add_numbers '{"a": 5, "b": 3}' --config "$folder/stoker.toml" ;;
  sse-retry) stoker tools try suite test_reconnection '{}' --config "$folder/stoker.toml" ;;
  elicitation*) stoker tools try suite test_client_elicitation_defaults '{}' --config "$folder/stoker.toml" ;;
esac

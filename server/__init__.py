"""The MCP server, the command line and the console: what agents and people touch."""

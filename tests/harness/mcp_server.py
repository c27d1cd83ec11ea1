"""A small MCP server over stdio with two tools: one repeats what it is told, one fails."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": name, "description": name, "inputSchema": SCHEMA} for name in ("echo", "fail")]

for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if "id" not in message:
        continue
    method, params = message.get("method"), message.get("params") or {}
    result: dict[str, object] = {}
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "spy", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        text = json.dumps(params.get("arguments"))
        result = {"isError": params["name"] == "fail", "content": [{"type": "text", "text": text}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
    sys.stdout.flush()

"""Stands for an MCP server that starts in no time: hands its streams to a child of `mcp_server.py`, and waits for it.

python mcp_door.py SOCKET JOURNAL [--lying]
"""

import json
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(sys.argv[1])
        asked = {"journal": sys.argv[2], "lying": "--lying" in sys.argv}
        socket.send_fds(server, [json.dumps(asked).encode()], [0, 1, 2])
        server.recv(1)

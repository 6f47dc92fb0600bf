"""A stand-in for Jupyter's server: HTTP and WebSocket on the Unix socket in NB_SOCKET, with the standard library alone.

It answers below NB_PREFIX: `api/kernels` and `api/terminals` from the files of that name in its folder (so that a test
says what is busy), `echo` with the headers and body it was sent, `cookie` with cookies it tries to set, and any WebSocket
with what was sent to it. `kernel` counts its requests, to show that the same process goes on.
"""

import asyncio
import base64
import hashlib
import json
import os
from pathlib import Path

PREFIX = os.environ["NB_PREFIX"]
SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PAGE = """<!doctype html><title>cell</title><h1 id=ready>A notebook</h1><pre id=result></pre><script>
// What a cell's output may be: it tries what the person who opened the notebook could do.
const asked = new URLSearchParams(location.search);
async function attempt(url, options) {
  try {
    const answer = await fetch(url, {credentials: "include", ...options});
    return answer.type + " " + answer.status + " " + (await answer.text()).slice(0, 200);
  } catch (error) { return "failed"; }
}
(async () => {
  const said = {
    api: await attempt(asked.get("api") + "/api/v1/pods"),
    write: await attempt(asked.get("api") + "/api/v1/namespaces", {method: "POST", body: "{}"}),
    ui: await attempt(asked.get("ui") + "/ui/jobs"),
    blind: await attempt(asked.get("ui") + "/ui/jobs", {mode: "no-cors"}),
    post: await attempt(asked.get("ui") + "/ui/theme", {method: "POST", mode: "no-cors", body: "theme=dark"}),
    own: await attempt("echo", {method: "POST", body: "x"}),
    cookies: document.cookie,
  };
  document.getElementById("result").textContent = JSON.stringify(said);
})();
</script>"""
seen = {"requests": 0, "pid": os.getpid()}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        if headers.get("upgrade") == "websocket":
            await echo_frames(target.endswith("/deaf"), headers, reader, writer)
            return
        if target.endswith("/hang"):
            await asyncio.sleep(3600)
        if target.endswith("/endless"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        status, fields, answer = respond(method, target, headers, body)
        lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(answer)}", "Connection: close", "", ""]
        writer.write("\r\n".join(lines).encode() + answer)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def respond(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[str, list[str], bytes]:
    path, _, query = target.partition("?")
    if not path.startswith(PREFIX + "/"):
        return "404 Not Found", [], b"not below " + PREFIX.encode()
    rest = path.removeprefix(PREFIX + "/")
    if rest in ("api/kernels", "api/terminals"):
        file = Path(rest.replace("/", "-"))
        return "200 OK", ["Content-Type: application/json"], file.read_bytes() if file.exists() else b"[]"
    if rest == "kernel":
        seen["requests"] += 1
        return "200 OK", ["Content-Type: application/json"], json.dumps(seen).encode()
    if rest == "cookie":
        tries = ("own=1; Path=/", "wide=1; Domain=localhost", "__Host-gpuaas-notebook=x; Path=/; Secure")
        return "200 OK", [f"Set-Cookie: {each}" for each in tries], b"set"
    if rest == "large":
        return "200 OK", ["Content-Type: text/plain"], b"x" * 5_000_000
    if rest == "env":
        found = {name: text for name, text in os.environ.items() if name.startswith(("NVIDIA_", "CUDA_", "NB_"))}
        return "200 OK", ["Content-Type: application/json"], json.dumps(found).encode()
    if rest == "page":
        return "200 OK", ["Content-Type: text/html"], PAGE.encode()
    said = {"method": method, "path": path, "query": query, "headers": headers, "body": len(body)}
    return "200 OK", ["Content-Type: application/json"], json.dumps(said).encode()


async def echo_frames(
    deaf: bool, headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    key = headers["sec-websocket-key"] + SALT
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    head = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    writer.write("\r\n".join([*head, f"Sec-WebSocket-Accept: {accept}", "", ""]).encode())
    if deaf:
        await asyncio.sleep(3600)
    while True:
        first, size = await reader.readexactly(2)
        mask = await reader.readexactly(4)
        payload = bytes(b ^ mask[i % 4] for i, b in enumerate(await reader.readexactly(size & 0x7F)))
        writer.write(bytes((first, len(payload))) + payload)
        if first & 0xF == 8:
            return


async def main() -> None:
    server = await asyncio.start_unix_server(serve, os.environ["NB_SOCKET"])
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

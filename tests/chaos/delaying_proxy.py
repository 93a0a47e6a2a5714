"""`python -m tests.chaos.delaying_proxy MS`: passes on what it reads after a delay, to where the packet filter took it.

nftables leads connections here; their former destination is known to the kernel. The node listens at the same port of
127.0.0.1. Prints its port, and ends when its input does.
"""

import asyncio
import socket
import struct
import sys

_ORIGINAL_DESTINATION = 80
"""SO_ORIGINAL_DST."""
_ADDRESS = struct.Struct("!HH12x")
"""Family, port and address: sockaddr_in."""


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Chunks may follow each other within the delay, as on a long line."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            at, chunk = await chunks.get()
            await asyncio.sleep(at - loop.time())
            if not chunk:
                return
            writer.write(chunk)
            await writer.drain()

    writing = asyncio.create_task(write())
    try:
        while True:
            chunk = await reader.read(65_536)
            chunks.put_nowait((loop.time() + delay_s, chunk))
            if not chunk:
                break
        await writing
    except OSError:
        writing.cancel()
    finally:
        writer.close()


async def _serve(delay_s: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client: socket.socket = writer.get_extra_info("socket")
        _, port = _ADDRESS.unpack(client.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, _ADDRESS.size))
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, far_writer, delay_s), _pass_on(far_reader, writer, delay_s))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]) / 1000))

"""A server on loopback that counts connections and answers with exactly the bytes that a test gives it."""

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Behaviour = Callable[["RawServer", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reply(status: int = 200, body: bytes = b"{}", *headers: str) -> bytes:
    """A complete answer."""
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class RawServer:
    """`connects` counts accepted connections, `requests` holds what complete requests looked like."""

    def __init__(self, behaviour: Behaviour, tls: ssl.SSLContext | None) -> None:
        self.connects = 0
        self.requests: list[bytes] = []
        self.ended: list[str] = []
        self.port = 0
        self.url = ""
        self.accepted = asyncio.Event()
        self.requested = asyncio.Event()
        self.hung_up = asyncio.Event()
        self._behaviour, self._tls = behaviour, tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        """Read one complete request."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        whole = head + await reader.readexactly(length)
        self.requests.append(whole)
        self.requested.set()
        return whole

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connects += 1
        self.accepted.set()
        self._writers.append(writer)
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._behaviour(self, reader, writer)
        except asyncio.IncompleteReadError:
            self.ended.append("closed")
        except OSError:
            self.ended.append("reset")
        finally:
            self.hung_up.set()
            with contextlib.suppress(OSError):
                writer.close()

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A running server."""
    server = RawServer(behaviour, tls)
    listener = await asyncio.start_server(server.accept, "127.0.0.1", 0, ssl=tls, limit=2**20)
    server.port = listener.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.port}"
    try:
        yield server
    finally:
        listener.close()
        await server.stop()


def answering(*answers: bytes) -> Behaviour:
    """Each request on a connection gets the next of these; then the connection ends."""

    async def behave(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await server.request(reader)
            writer.write(answer)
            await writer.drain()

    return behave


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def self_signed(folder: Path) -> tuple[ssl.SSLContext, str]:
    """A server's TLS context for localhost, and the file that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    pem.write_bytes(private + public)
    trusted = folder / "trusted.pem"
    trusted.write_bytes(public)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context, str(trusted)

"""The socket and the memory files that connect a program with its worker."""

from __future__ import annotations

import mmap
import os
import select
import socket
from typing import Optional

from shoal import _protocol
from shoal.errors import ProgramError

SOCKET = "SHOAL_PROGRAM_SOCKET"
PARAMETERS = "SHOAL_PROGRAM_PARAMETERS"
CONTRIBUTIONS = "SHOAL_PROGRAM_CONTRIBUTIONS"

_GUARD = 1 << 20  # Bytes of addresses, not of memory.
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000  # Of Linux on x86-64; older versions of Python do not name them.


def _closed(error: OSError) -> ProgramError:
    return ProgramError(
        f"the connection with the worker is closed ({error.strerror}): has the program closed all files?"
    )


def _map_between_guards(file: int, size: int) -> memoryview:
    """Maps a file for reading and writing, with memory before and behind it that nobody may touch.

    A write past its end is then a crash at that line. Without them, Python's own memory may lie behind it: such a write
    changed it first, and the handler that prints the line of the crash did not work any more.
    """
    import ctypes  # It takes some milliseconds, and few processes come here.

    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    behind = _GUARD + -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    region = mmap.mmap(-1, behind + _GUARD, flags)  # It ends with the last view of it.
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    both = mmap.PROT_READ | mmap.PROT_WRITE
    if libc.mmap(start + _GUARD, size, both, mmap.MAP_SHARED | _MAP_FIXED, file, 0) != start + _GUARD:
        raise OSError(ctypes.get_errno(), f"the memory of the gradients ({size} bytes) cannot be mapped")
    for guard in (start, start + behind):
        libc.mprotect(guard, _GUARD, 0)
    return memoryview(region)[_GUARD : _GUARD + size]


class Link:
    """One connected socket and two memory files. Not thread-safe."""

    def __init__(self, sock: socket.socket, parameters: int, contributions: int) -> None:
        self._socket = sock
        self._files = (parameters, contributions)
        for descriptor in (sock.fileno(), *self._files):
            os.set_inheritable(descriptor, False)

    @staticmethod
    def from_environment() -> Optional[Link]:
        """Returns the link that the worker has opened, or None if the program was started by hand.

        The variables are removed, so that processes that the program starts do not take them for theirs.
        """
        values = [os.environ.pop(name, None) for name in (SOCKET, PARAMETERS, CONTRIBUTIONS)]
        if values[0] is None:
            return None
        descriptors = [int(value or -1) for value in values]
        return Link(socket.socket(fileno=descriptors[0]), descriptors[1], descriptors[2])

    def send(self, data: bytes) -> bool:
        """Sends all of it; returns False if the worker is gone."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        except OSError as error:
            raise _closed(error) from None
        return True

    def receive(self) -> bytes:
        """Waits for bytes; returns b"" when the worker is gone."""
        try:
            return self._socket.recv(1 << 16)
        except ConnectionResetError:
            return b""
        except OSError as error:
            raise _closed(error) from None

    def has_input(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def map(self, layout: _protocol.Layout) -> tuple[mmap.mmap, memoryview]:
        """Maps the parameters for reading and the contributions for reading and writing."""
        parameters = mmap.mmap(self._files[0], layout.parameters_size, mmap.MAP_SHARED, mmap.PROT_READ)
        return parameters, _map_between_guards(self._files[1], layout.contributions_size)

    def map_copy(self, begin: int, end: int) -> mmap.mmap:
        """Returns these bytes of the parameters. The program's writes there stay in this process.

        They are valid while the program has the parameter set: pages that it has not written show what the worker
        writes later.
        """
        flags, both = mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
        return mmap.mmap(self._files[0], end - begin, flags, both, offset=begin)

    def close(self) -> None:
        self._socket.close()
        for descriptor in self._files:
            os.close(descriptor)
        self._files = ()  # type: ignore[assignment]

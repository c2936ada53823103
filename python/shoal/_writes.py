"""Writes to the parameters, which are mapped for reading only: an error at the line that wrote, in place of a crash."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Optional

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ADDRESS = 16  # The offset of si_addr in siginfo_t, and 4 is the value of SA_SIGINFO, of Linux with 64 bits.
_SA_SIGINFO = 4


class _Action(ctypes.Structure):
    """struct sigaction of the C library (sigaction(2)) on Linux with 64 bits."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def report_writes(begin: int, size: int, report: Callable[[int, Optional[FrameType]], None]) -> Any:
    """Calls report(address, frame) at a write to memory between begin and begin + size, then ends the process.

    It is the handler of SIGSEGV that stands before the one that is there now (faulthandler), which gets all other
    crashes. `frame` is the Python code that writes, which waits for the native code that the signal has interrupted.
    Keep the result as long as the memory is mapped.
    """
    libc = ctypes.CDLL(None)
    libc.sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    previous = _Action()
    process = os.getpid()
    has_reported = threading.Lock()

    def on_signal(number: int, info: int, _context: int) -> None:
        address = ctypes.c_void_p.from_address(info + _ADDRESS).value or 0
        if not begin <= address < begin + size or os.getpid() != process:
            libc.sigaction(number, ctypes.byref(previous), None)  # The same instruction crashes again.
            return
        if not has_reported.acquire(blocking=False):  # Another thread of the same operation reports.
            time.sleep(60)
        try:
            here = sys._getframe()
            report(address, here.f_back or sys._current_frames().get(threading.main_thread().ident or 0))
        finally:
            os._exit(1)

    handler = _HANDLER(on_signal)
    action = _Action(handler=ctypes.cast(handler, ctypes.c_void_p), flags=_SA_SIGINFO)
    libc.sigaction(signal.SIGSEGV, ctypes.byref(action), ctypes.byref(previous))
    return handler

"""A DNS server for a test's network, which knows only the names that it is given.

    with NameServer("10.89.0.1", lambda name: address or None):
"""
import socket
import struct
import threading

ADDRESS, INTERNET = 1, 1
NO_SUCH_NAME = 3
LIFETIME_SECONDS = 5
IP_FREEBIND = 15  # serves at an address that comes later


class NameServer:
    """Answers on a thread of its own, one question after the other."""

    def __init__(self, address, look_up):
        """`look_up` is called on that thread."""
        self.look_up = look_up
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        self.socket.bind((address, 53))
        self.socket.settimeout(0.2)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.ending.set()
        self.thread.join()
        self.socket.close()

    def serve(self):
        while not self.ending.is_set():
            try:
                question, whom = self.socket.recvfrom(4096)
                self.socket.sendto(self.answer(question), whom)
            except (TimeoutError, OSError, ValueError, struct.error):
                pass  # who asked is gone, or asked nonsense

    def answer(self, question):
        """RFC 1035, 4: one question, at most one address."""
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        kind, _ = struct.unpack_from("!HH", question, at + 1)
        address = self.look_up(".".join(labels).lower())
        has_answer = address is not None and kind == ADDRESS
        # The bits of an answer, with recursion offered since resolvers ask for it.
        head = question[:2] + struct.pack("!HHHHH", 0x8180 | (0 if address else NO_SUCH_NAME), 1, has_answer, 0, 0)
        body = head + question[12:at + 5]
        if has_answer:
            body += struct.pack("!HHHIH4s", 0xC00C, ADDRESS, INTERNET, LIFETIME_SECONDS, 4, socket.inet_aton(address))
        return body

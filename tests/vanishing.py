"""A server that goes again and again, whatever connections to it are being made."""

import socket
import threading
from contextlib import contextmanager


@contextmanager
def vanishing():
    """URL of the server."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        address = first.getsockname()
    ended = threading.Event()

    def vanish():
        while not ended.is_set():
            with socket.create_server(address):
                ended.wait(0.001)

    thread = threading.Thread(target=vanish)
    thread.start()
    try:
        yield f"http://127.0.0.1:{address[1]}"
    finally:
        ended.set()
        thread.join()

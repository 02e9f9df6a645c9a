"""Runs one program in plain CPython, without any protection, with every canary within its reach.

Answers to: the suite, which must see each of these programs escape. Reads one JSON object from standard input,
`{"code", "folder", "tools", "fixtures"}`, and writes one, `{"stdout", "stderr", "exit"}`.
Must not: be started outside a network namespace of its own, or be shipped.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading

PORT = 48123
SECONDS = 12


def up(name: bytes = b"lo") -> None:
    """Brings the loopback interface of the new namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        flags = struct.unpack("16sH14x", fcntl.ioctl(s, 0x8913, struct.pack("16sH14x", name, 0)))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", name, flags | 1))


def serve(family: int, address: object) -> None:
    listener = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(64)

    def accept() -> None:
        while True:
            peer, _ = listener.accept()
            try:
                peer.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
            except OSError:
                pass
            peer.close()

    threading.Thread(target=accept, daemon=True).start()


def answer_names() -> None:
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.53", 53))

    def answer() -> None:
        while True:
            packet, peer = sink.recvfrom(512)
            sink.sendto(packet, peer)

    threading.Thread(target=answer, daemon=True).start()


def host(job: dict) -> None:
    up()
    serve(socket.AF_INET, ("127.0.0.1", PORT))
    serve(socket.AF_INET6, ("::1", PORT))
    serve(socket.AF_UNIX, "\0bank-canary")
    serve(socket.AF_UNIX, job["folder"] + "/host-canary/host.sock")
    answer_names()
    root = os.open("/", os.O_RDONLY)
    work = job["folder"] + "/workspace"
    environment = dict(os.environ, CANARY_TOKEN="CANARY-ENV-a81c77", BANK_WORK=work)
    guest = subprocess.Popen(
        [sys.executable, __file__, "guest"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=work,
        env=environment,
        pass_fds=(root,),
    )
    try:
        out, err = guest.communicate(json.dumps(job).encode(), timeout=SECONDS)
    except subprocess.TimeoutExpired:
        guest.kill()
        out, err = guest.communicate()
    answer = {"stdout": out.decode(errors="replace"), "stderr": err.decode(errors="replace"), "exit": guest.returncode}
    json.dump(answer, sys.stdout)


def guest() -> None:
    job = json.load(sys.stdin)
    sys.path.insert(0, job["fixtures"])
    import tools

    names = {"__name__": "__main__", "__file__": "main.py"}
    names.update({name: tools.TOOLS[name] for name in job["tools"]})
    globals()["API_KEY"] = tools.API_KEY
    exec(compile(job["code"], "main.py", "exec"), names)


if __name__ == "__main__":
    if sys.argv[1:] == ["guest"]:
        guest()
    else:
        host(json.load(sys.stdin))

"""A fake engine: speaks the frames of `ringfence stdio`, runs snippets with `exec`, isolates nothing.

Snippets may use: the host functions; `together((name, args), ...)`, which makes several calls
at once; `wait_for_cancel()`; `emit(stream, text)`; `show(bundle)`; `approve(name, arguments)`;
`params()`, what the session was opened with; and `misbehave(how)`.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import sys
import threading
from pathlib import Path
from queue import Queue
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ringfence.values import decode, encode

HELLO: dict[str, Any] = json.loads(os.environ.get("FAKE_HELLO", '{"version": 1, "ringfence": "0.0.0-fake"}'))


class Refused(Exception):
    """An error answer: code, message, hint."""


class Cancelled(BaseException):
    pass


class Session:
    def __init__(self, name: str, params: dict[str, Any]) -> None:
        self.name = name
        self.params = params
        self.names: dict[str, Any] = {}
        self.files: dict[str, str] = {}
        self.cancelled = threading.Event()


class Engine:
    def __init__(self, source: int, output: int) -> None:
        self.source, self.output = source, output
        self.writing = threading.Lock()
        self.numbers = itertools.count(1)
        self.sessions: dict[str, Session] = {}
        self.answers: dict[int, Queue[dict[str, Any]]] = {}
        self.closed: list[str] = []

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        self.send_raw(len(body).to_bytes(4, "big") + body)

    def send_raw(self, data: bytes) -> None:
        with self.writing:
            while data:
                data = data[os.write(self.output, data) :]

    def exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            chunk = os.read(self.source, size - len(data))
            if not chunk:
                return None
            data += chunk
        return data

    def serve(self) -> None:
        while (head := self.exactly(4)) is not None:
            body = self.exactly(int.from_bytes(head, "big"))
            if body is None:
                return
            frame = json.loads(body)
            if "answer" in frame:
                self.answers.pop(frame["answer"]).put(frame)
            elif frame["method"] in ("run", "slow"):
                threading.Thread(target=self.respond, args=(frame,), daemon=True).start()
            else:
                self.respond(frame)

    def respond(self, frame: dict[str, Any]) -> None:
        try:
            result = getattr(self, "do_" + frame["method"])(**frame["params"])
            self.send({"id": frame["id"], "result": result})
        except Refused as refused:
            code, message, hint = refused.args
            self.send({"id": frame["id"], "error": {"code": code, "message": message, "hint": hint}})

    def session(self, name: str) -> Session:
        if name not in self.sessions:
            raise Refused("no_session", f"there is no session `{name}`", None)
        return self.sessions[name]

    def do_hello(self, version: int) -> dict[str, Any]:
        return HELLO

    def do_open(self, **params: Any) -> dict[str, Any]:
        text = (params["policy"] or {}).get("text", "")
        if text.startswith("refuse "):
            raise Refused(text.split()[1], "refused as asked", "do not ask")
        name = f"ses_{next(self.numbers)}"
        self.sessions[name] = Session(name, params)
        return {"session": name}

    def do_run(
        self, session: str, code: str, file: str, inputs: dict[str, Any], stdin: str
    ) -> dict[str, Any]:
        place = self.session(session)
        guest = Guest(self, place, stdin)
        place.names.update({name: decode(value) for name, value in inputs.items()})
        return guest.run(code, file)

    def do_snapshot(self, session: str) -> dict[str, Any]:
        plain = {
            name: encode(value) for name, value in self.session(session).names.items() if _is_plain(value)
        }
        return {"snapshot": base64.b64encode(json.dumps(plain).encode()).decode()}

    def do_restore(self, snapshot: str, **params: Any) -> dict[str, Any]:
        try:
            names = json.loads(base64.b64decode(snapshot))
        except ValueError:
            raise Refused("snapshot_refused", "the snapshot was changed", None) from None
        opened = self.do_open(**params)
        self.sessions[opened["session"]].names = {name: decode(value) for name, value in names.items()}
        return opened

    def do_fork(self, session: str, count: int) -> dict[str, Any]:
        snapshot = self.do_snapshot(session)["snapshot"]
        params = self.session(session).params
        return {"sessions": [self.do_restore(snapshot, **params)["session"] for _ in range(count)]}

    def do_put(self, session: str, path: str, content: str) -> dict[str, Any]:
        self.session(session).files[path] = content
        return {}

    def do_get(self, session: str, path: str) -> dict[str, Any]:
        files = self.session(session).files
        if path not in files:
            raise Refused("bad_request", f"no such file: `{path}`", None)
        return {"content": files[path]}

    def do_list(self, session: str, path: str) -> dict[str, Any]:
        files = self.session(session).files
        rows = [(name, len(base64.b64decode(content))) for name, content in sorted(files.items())]
        return {"entries": [{"path": name, "size": size, "folder": False} for name, size in rows]}

    def do_remove(self, session: str, path: str) -> dict[str, Any]:
        self.do_get(session, path)
        del self.session(session).files[path]
        return {}

    def do_cancel(self, session: str) -> dict[str, Any]:
        self.session(session).cancelled.set()
        return {}

    def do_close(self, session: str) -> dict[str, Any]:
        self.session(session)
        del self.sessions[session]
        self.closed.append(session)
        return {}

    def call(self, message: dict[str, Any], kind: str = "call") -> Queue[dict[str, Any]]:
        number = next(self.numbers)
        queue = self.answers[number] = Queue()
        self.send({kind: number, **message})
        return queue


class Guest:
    """One run."""

    def __init__(self, engine: Engine, session: Session, stdin: str) -> None:
        self.engine, self.session = engine, session
        self.stdout = ""
        self.calls = 0
        helpers = [
            self.together,
            self.wait_for_cancel,
            self.emit,
            self.show,
            self.approve,
            self.params,
            self.misbehave,
            self.closed,
        ]
        self.names: dict[str, Any] = {helper.__name__: helper for helper in helpers}
        self.names["print"] = lambda *values: self.emit("stdout", " ".join(map(str, values)) + "\n")
        self.names["stdin"] = stdin
        for spec in session.params["functions"]:
            self.names[spec["name"]] = self.stub(spec["name"])

    def stub(self, name: str) -> Any:
        return lambda *args, **kwargs: self.finish(self.start(name, args, kwargs))

    def start(self, name: str, args: Any, kwargs: dict[str, Any]) -> Queue[dict[str, Any]]:
        self.calls += 1
        named = {key: encode(value) for key, value in kwargs.items()}
        message = {"function": name, "args": [encode(value) for value in args], "kwargs": named}
        return self.engine.call({"session": self.session.name, **message})

    def finish(self, queue: Queue[dict[str, Any]]) -> Any:
        answer = queue.get()
        if "error" in answer:
            kind = getattr(__builtins__, answer["error"]["type"], None) or type(
                answer["error"]["type"], (RuntimeError,), {}
            )
            raise kind(answer["error"]["message"])
        return decode(answer["value"])

    def together(self, *calls: tuple[str, tuple[Any, ...]]) -> list[Any]:
        queues = [self.start(name, args, {}) for name, args in calls]
        return [self.finish(queue) for queue in queues]

    def wait_for_cancel(self) -> None:
        self.emit("stdout", "waiting\n")
        self.session.cancelled.wait()
        raise Cancelled

    def emit(self, stream: str, text: str) -> None:
        self.stdout += text if stream == "stdout" else ""
        self.engine.send({"event": "output", "session": self.session.name, "stream": stream, "text": text})

    def show(self, bundle: dict[str, bytes]) -> None:
        written = {mime: base64.b64encode(content).decode() for mime, content in bundle.items()}
        self.engine.send({"event": "shown", "session": self.session.name, "bundle": written})

    def approve(self, name: str, arguments: dict[str, Any]) -> bool:
        written = {key: encode(value) for key, value in arguments.items()}
        message = {"session": self.session.name, "function": name, "arguments": written}
        return bool(self.engine.call(message, "approve").get()["value"])

    def params(self) -> Any:
        return self.session.params

    def closed(self) -> list[str]:
        return self.engine.closed

    def misbehave(self, how: str) -> None:
        raw = {
            "too long": (1 << 31).to_bytes(4, "big"),
            "not JSON": b"\0\0\0\3{a}",
            "not UTF-8": b'\0\0\0\4"\xff\xfe"',
            "not an object": b"\0\0\0\2[]",
            "nan": b'\0\0\0\x08{"a":NaN}'[:13],
            "nested": (20_000).to_bytes(4, "big") + b"[" * 20_000,
            "neither": b'\0\0\0\x07{"a":1}',
            "refusal": b'\0\0\0\x2a{"id":null,"error":{"message":"as asked"}}',
            "cut": b"\0\0\1\0{",
            "silence": b"",
        }[how]
        self.engine.send_raw(raw)
        if how in ("cut", "silence"):
            os._exit(7)

    def run(self, code: str, file: str) -> dict[str, Any]:
        outcome: dict[str, Any] = {
            "run_id": "run_1",
            "session": self.session.name,
            "tier": "embedded",
            "strength": "process",
            "engine": "fake",
            "status": "completed",
            "value": None,
            "shown": [],
            "stderr": "",
            "dropped": {"stdout": 0, "stderr": 0},
            "exception": None,
            "limit": None,
            "reason": None,
            "chosen": [{"tier": "embedded", "fit": True, "why": "cheapest"}],
            "audit": {"first": 1, "last": 3},
        }
        try:
            outcome["value"] = encode(self.evaluate(code, file))
        except Cancelled:
            outcome["status"], outcome["reason"] = "cancelled", "the caller gave it up"
        except Exception as error:
            outcome["status"] = "raised"
            frame = {"file": file, "line": 1, "function": "<module>", "source": code.split("\n")[0]}
            outcome["exception"] = {"type": type(error).__name__, "message": str(error), "frames": [frame]}
        outcome.update(self.session.names.pop("outcome", {}))
        outcome["stdout"] = self.stdout
        usage = {"wall_ms": 0.5, "cpu_ms": 0.25, "peak_memory": 1024, "output_bytes": len(self.stdout)}
        outcome["usage"] = {**usage, "host_calls": self.calls}
        return outcome

    def evaluate(self, code: str, file: str) -> Any:
        import ast

        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        names = self.session.names
        names.update(self.names)
        exec(compile(tree, file, "exec"), names)
        return eval(compile(ast.Expression(last.value), file, "eval"), names) if last else None  # type: ignore[attr-defined]


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float, str, list, bytes, tuple)) or value is None


def main() -> None:
    if "FAKE_PID_FILE" in os.environ:
        with open(os.environ["FAKE_PID_FILE"], "a") as file:
            file.write(f"{os.getpid()}\n")
    if "FAKE_SOCKET" in os.environ:
        import socket

        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.environ["FAKE_SOCKET"])
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            engine = Engine(connection.fileno(), connection.fileno())
            threading.Thread(target=engine.serve, daemon=True).start()
            engine.keep = connection  # type: ignore[attr-defined]
    assert sys.argv[1:] == ["stdio"], sys.argv
    Engine(0, 1).serve()
    os._exit(0)


if __name__ == "__main__":
    main()

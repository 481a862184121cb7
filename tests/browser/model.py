"""A model that a browser test tells what to say, and when: an endpoint as OpenAI's, in a thread of the test."""

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS = 60  # more than anything here may ever take


class Gate(threading.Event):
    """A place in an answer where the model waits: `reached` tells the test, `set` lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()


class Call:
    def __init__(self, name: str, **arguments: Any) -> None:
        self.name, self.arguments = name, arguments


class Refusal:
    def __init__(self, status: int) -> None:
        self.status = status


Item = str | Gate | Call | Refusal


class Model:
    """Gives one answer after the other; then says "done"."""

    def __init__(self) -> None:
        self.answers: list[Sequence[Item]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                model.answer(self, model.answers.pop(0) if model.answers else ["done"])

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def script(self, *answers: Sequence[Item]) -> None:
        self.answers = list(answers)

    def answer(self, handler: BaseHTTPRequestHandler, items: Sequence[Item]) -> None:
        try:
            if isinstance(items[0], Refusal):
                handler.send_response(items[0].status)
                handler.send_header("Content-Length", "2")
                handler.end_headers()
                handler.wfile.write(b"{}")
                return
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.end_headers()
            calls = 0
            for item in items:
                if isinstance(item, Gate):
                    item.reached.set()
                    item.wait(SECONDS)
                elif isinstance(item, Call):
                    function = {"name": item.name, "arguments": json.dumps(item.arguments)}
                    self._send(handler, {"tool_calls": [{"index": calls, "id": f"call_{calls}", "function": function}]})
                    calls += 1
                elif isinstance(item, str):
                    self._send(handler, {"content": item})
            self._send(handler, {}, "tool_calls" if calls else "stop")
            handler.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # whoever asked has left: a stop, or a killed server

    def _send(self, handler: BaseHTTPRequestHandler, delta: dict[str, Any], reason: str | None = None) -> None:
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        handler.wfile.flush()

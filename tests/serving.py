"""The real server in a process of its own, for tests: `manage.py serve` on a free port with data of its own, and
`manage.py worker`."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
START_SECONDS = 30
END_SECONDS = 20
TROUBLE = re.compile(r"Traceback|Warning:| (WARNING|ERROR|CRITICAL) |Exception ignored|Fatal Python error")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Served:
    """A site. `password` and `key` are what the first start printed."""

    data: Path
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    program: tuple[str, ...] = ("manage.py",)
    port: int = field(default_factory=free_port)
    password: str = ""
    key: str = ""
    process: "subprocess.Popen[bytes]" = field(init=False)
    is_up: bool = False
    """Started, and not yet told to end: a process that is gone meanwhile has crashed."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log_path(self) -> Path:
        return self.data.with_name(f"{self.data.name}.log")

    @property
    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    @property
    def command(self) -> tuple[str, ...]:
        return "serve", "--port", str(self.port)

    @property
    def full_environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTSITE_", "OTEL_"))}
        for name in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "HOST", "PORT", "REDIS_URL"):
            clean.pop(name, None)
        # Unbuffered, so that the log is complete at any moment; warnings on, so that the log shows them.
        settled = {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "default", "PYTHONPATH": str(PROJECT)}
        return {**clean, **settled, "AGENTSITE_DATA": str(self.data), **self.environment}

    @property
    def has_crashed(self) -> bool:
        return self.is_up and self.process.poll() is not None

    def launch(self) -> "subprocess.Popen[bytes]":
        """Start the process and do not wait for anything."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, *self.command, *self.arguments],
                cwd=PROJECT,
                env=self.full_environment,
                stdout=log,
                stderr=log,
            )
        return self.process

    def start(self) -> None:
        self.launch()
        until = time.monotonic() + START_SECONDS
        while not self.answers():
            assert self.process.poll() is None, f"the server ended by itself:\n{self.log}"
            assert time.monotonic() < until, f"the server does not answer:\n{self.log}"
            time.sleep(0.02)
        self.is_up = True
        if not self.key:
            self.password = self._printed(r"Password +(\S+)")
            self.key = self._printed(r"API key +(ask_\S+)")

    def answers(self, path: str = "/healthz") -> bool:
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    def _printed(self, pattern: str) -> str:
        found = re.search(pattern, self.log)
        return found[1] if found else ""

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """End it as a person or an init system does; the exit code."""
        self.is_up = False
        self.process.send_signal(with_signal)
        return self.process.wait(END_SECONDS)

    def kill(self) -> None:
        """As a crash would."""
        self.is_up = False
        self.process.kill()
        self.process.wait(END_SECONDS)

    def restart(self) -> None:
        if self.process.poll() is None:
            assert self.stop() == 0
        self.start()

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Another command of manage.py on the same data."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT,
            env=self.full_environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def troubles(self, expected: tuple[str, ...] = ()) -> list[str]:
        """Lines of the log that should not be there."""
        return [
            line
            for line in self.log.splitlines()
            if TROUBLE.search(line) and not any(re.search(pattern, line) for pattern in expected)
        ]


@dataclass
class Working(Served):
    """`manage.py worker`: it is up when it says so."""

    read: int = 0

    @property
    def command(self) -> tuple[str, ...]:
        return ("worker",)

    def answers(self, path: str = "") -> bool:
        return " takes runs" in self.log[self.read :]

    def start(self) -> None:
        self.read = len(self.log)
        super().start()

    @property
    def name(self) -> str:
        return re.findall(r"Worker (\S+) takes runs", self.log)[-1]

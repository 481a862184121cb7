"""What the demo model understands of files and background processes."""

import re

Call = tuple[str, dict[str, object]]

WRITE = re.compile(
    r"\bwrite\b.{0,20}?\bfile\b(?: called| named)?\s*([\w./-]*\w)?"
    r"(?:\s*,?\s*(?:with|saying|that says|containing)\b(?: the text)?[\s:,]+(.+))?",
    re.IGNORECASE | re.DOTALL,
)
READ = re.compile(r"\b(?:read|open|show me)\b(?: the| my)? file\s+([\w./-]*\w)", re.IGNORECASE)
LIST = re.compile(r"\b(?:list|show)\b.{0,15}?\bfiles\b|\b(?:what|which) files\b", re.IGNORECASE)
START = re.compile(r"\bstart\b.{0,30}?\b(countdown|heartbeat)\b", re.IGNORECASE)
CHECK = re.compile(r"\b(?:how is|check|look at)\b.{0,30}?\b(?:countdown|heartbeat|process(?:es)?)\b", re.IGNORECASE)
END = re.compile(r"\b(?:end|stop|kill)\b.{0,15}?\b(?:countdown|heartbeat|process)\b", re.IGNORECASE)
NUMBER = re.compile(r"\b(\d{1,5})\b")
PROCESS = re.compile(r"\bp\d{1,4}\b")


def find_task_call(text: str) -> Call | None:
    """The one thing that the words ask for, if any."""
    if start := START.search(text):
        number = NUMBER.search(text)
        return "start_process", {"command": start[1].lower(), "arguments": [number[1]] if number else []}
    process = PROCESS.search(text)
    if END.search(text):
        return "end_process", {"id": process[0] if process else "p1"}
    if CHECK.search(text):
        return "check_process", {"id": process[0]} if process else {}
    if read := READ.search(text):
        return "read_file", {"path": read[1]}
    if LIST.search(text):
        return "list_files", {}
    if written := WRITE.search(text):
        content = (written[2] or "Hello from the demo.").strip().strip("\"'")
        return "write_file", {"path": written[1] or "hello.txt", "content": f"{content}\n"}
    return None

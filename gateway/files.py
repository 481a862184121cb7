"""The working files of one conversation: a directory that nothing leads out of.

A path comes from a model, and processes of the same conversation may put symbolic links into the directory at any
moment. So no path is ever checked first and opened afterwards: it is walked from the directory's own descriptor, name
by name, and no name that is a link is followed. A file appears whole or not at all: it is written under another name
beside its place and then renamed.

Synchronous, to be called from a thread. Every refusal is a `FileProblem` in words for the model.
"""

import os
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MAX_PATH_BYTES = 1000
MAX_NAME_BYTES = 200  # of the 255 that most file systems take; the name while writing is longer
MAX_DEPTH = 16
MAX_WALKED_DEPTH = 4 * MAX_DEPTH  # a command may have made deeper ones
WRITING = ".writing-"
LEFT_OVER_SECONDS = 60.0
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileProblem(Exception):
    """A file cannot be read or written as asked; the message says why."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    file_bytes: int = 2**20
    total_bytes: int = 64 * 2**20
    count: int = 1000
    """Files and folders together."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    path: str
    size: int
    is_directory: bool


class Files:
    def __init__(self, directory: Path, limits: FileLimits) -> None:
        self.directory = directory
        self.limits = limits
        # Two writes at once could each fit alone and together be too much.
        self._writing = threading.Lock()

    def write(self, path: str, text: str) -> None:
        names = _read_path(path)
        content = _encode(text)
        if len(content) > self.limits.file_bytes:
            raise FileProblem(
                f"The text is {len(content):,} bytes long; a file may have {self.limits.file_bytes:,} at most."
            )
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._writing, self._opened_root() as root:
                self._check_room(root, names, len(content))
                with _opened_parent(root, names, makes=True) as parent:
                    _replace(parent, names[-1], content)
        except OSError as error:
            raise _explain(error, path) from None

    def read(self, path: str) -> str:
        names = _read_path(path)
        with self._opened_root() as root, _opened_parent(root, names) as parent:
            try:
                # Without O_NONBLOCK a named pipe would be waited for.
                descriptor = os.open(
                    names[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent
                )
            except OSError as error:
                raise _explain(error, path) from None
        try:
            kind = os.fstat(descriptor)
            if stat.S_ISDIR(kind.st_mode):
                raise FileProblem(f"{path!r} is a folder.")
            if not stat.S_ISREG(kind.st_mode):
                raise FileProblem(f"{path!r} is no ordinary file.")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(self.limits.file_bytes + 1)
        finally:
            os.close(descriptor)
        if len(content) > self.limits.file_bytes:
            raise FileProblem(f"{path!r} has {kind.st_size:,} bytes, more than the {self.limits.file_bytes:,} allowed.")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise FileProblem(
                f"{path!r} is no text in UTF-8 but binary ({len(content):,} bytes); only text can be read."
            )
        return text

    def entries(self, path: str = "") -> list[FileEntry]:
        """What is in a folder and below it, in the order of the paths."""
        names = [] if path in ("", ".", "./") else _read_path(path)
        if not self.directory.exists() and not names:
            return []
        with self._opened_root() as root, _opened_directory(root, names, path) as folder:
            prefix = "".join(f"{name}/" for name in names)
            return sorted(_walk(folder, prefix), key=lambda entry: entry.path)

    def remove(self) -> None:
        """All of it. Nothing to remove is fine."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.directory)

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.directory, OPEN_DIRECTORY)
        except FileNotFoundError:
            raise FileProblem("There are no files yet.") from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _check_room(self, root: int, names: list[str], size: int) -> None:
        """Whether one more file of this size fits, in the place of the one that may be there. Sweeps up what a crash
        left half written."""
        path = "/".join(names)
        parents = {"/".join(names[:depth]) for depth in range(1, len(names))}
        count, total = 0, size
        is_new = True
        for entry in _walk(root, "", sweeps=True):
            count += 1
            parents.discard(entry.path)
            if entry.path == path:
                is_new = False
            else:
                total += entry.size
        if is_new and count + 1 + len(parents) > self.limits.count:
            raise FileProblem(f"There are {count:,} files and folders already; {self.limits.count:,} are allowed.")
        if total > self.limits.total_bytes:
            raise FileProblem(
                f"All files together would have {total:,} bytes; {self.limits.total_bytes:,} are allowed."
            )


def _read_path(path: str) -> list[str]:
    """The names of a relative path that stays inside, or a refusal that says what is wrong with it."""
    if "\0" in path or any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise FileProblem("A path must not hold control characters.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise FileProblem("A path must be text in UTF-8.") from None
    if size > MAX_PATH_BYTES:
        raise FileProblem(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    if path.startswith(("/", "~")):
        raise FileProblem(f"{path!r} is not inside this conversation's folder: give a relative path, like notes/a.txt.")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise FileProblem(f"{path!r} is not inside this conversation's folder: '..' is not allowed.")
    if not names:
        raise FileProblem("The path is empty: name a file, like notes/a.txt.")
    if len(names) > MAX_DEPTH:
        raise FileProblem(f"The path is deeper than {MAX_DEPTH} folders.")
    for name in names:
        if len(name.encode()) > MAX_NAME_BYTES:
            raise FileProblem(f"{name[:40]!r}… is longer than {MAX_NAME_BYTES} bytes.")
        if name.startswith(WRITING):
            raise FileProblem(f"A name must not begin with {WRITING!r}.")
    return names


def _encode(text: str) -> bytes:
    if "\0" in text:
        raise FileProblem("The text holds a NUL character: only text can be written, no binary.")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise FileProblem("The text cannot be written in UTF-8.") from None


@contextmanager
def _opened_parent(root: int, names: list[str], *, makes: bool = False) -> Iterator[int]:
    with _opened_directory(root, names[:-1], "/".join(names), makes=makes) as parent:
        yield parent


@contextmanager
def _opened_directory(root: int, names: list[str], path: str, *, makes: bool = False) -> Iterator[int]:
    """The folder with these names, from the root on, through no link."""
    current = os.dup(root)
    try:
        for name in names:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=current)
            try:
                inner = os.open(name, OPEN_DIRECTORY, dir_fd=current)
            except OSError as error:
                raise _explain(error, path) from None
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _replace(parent: int, name: str, content: bytes) -> None:
    written = f"{WRITING}{secrets.token_hex(8)}"
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        # Replaces a link, and not what it leads to.
        os.rename(written, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        with suppress(OSError):
            os.unlink(written, dir_fd=parent)
        raise


def _walk(folder: int, prefix: str, *, sweeps: bool = False) -> Iterator[FileEntry]:
    """Everything below a folder; links are entries, and are not followed. What a write left behind when it was killed
    is no entry, and is removed where `sweeps` says so."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        try:
            details = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # gone meanwhile
        if entry.name.startswith(WRITING):
            if sweeps and time.time() - details.st_mtime > LEFT_OVER_SECONDS:
                with suppress(OSError):
                    os.unlink(entry.name, dir_fd=folder)
            continue
        path = prefix + entry.name
        is_directory = stat.S_ISDIR(details.st_mode)
        yield FileEntry(path, 0 if is_directory else details.st_size, is_directory)
        if is_directory and path.count("/") < MAX_WALKED_DEPTH:
            try:
                inner = os.open(entry.name, OPEN_DIRECTORY, dir_fd=folder)
            except OSError:
                continue
            try:
                yield from _walk(inner, f"{path}/", sweeps=sweeps)
            finally:
                os.close(inner)


def _explain(error: OSError, path: str) -> FileProblem:
    match error:
        case FileNotFoundError():
            return FileProblem(f"There is no file {path!r}.")
        case IsADirectoryError() | FileExistsError():
            return FileProblem(f"{path!r} is a folder.")
        case NotADirectoryError():
            return FileProblem(f"A part of {path!r} is no folder.")
    # ELOOP is what a link is answered with.
    return FileProblem(f"{path!r} cannot be opened: {os.strerror(error.errno or 0)}.")

"""WhiteNoise for an asynchronous server.

WhiteNoise's own middleware is synchronous: Django would move every request, also those for pages and the API, to a
thread and back around it, and warn about each file that it streams. Here only the look-up is on the way of a request.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile
from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStorage(CompressedManifestStaticFilesStorage):
    """Names with hashes also for what a module imports, so that an update never mixes old modules with new ones."""

    support_js_module_import_aggregation = True


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        file = self.files.get(request.path_info)
        if not iscoroutinefunction(self):
            return self.get_response(request) if file is None else read_file(file, request)
        return self.get_response(request) if file is None else sync_to_async(read_file)(file, request)


def read_file(file: StaticFile, request: HttpRequest) -> HttpResponse:
    """The whole answer at once: these files are small, and an open file cannot be streamed without a thread."""
    found = file.get_response(request.method, request.META)
    content = b""
    if found.file is not None:
        with found.file:
            content = found.file.read()
    response = HttpResponse(content, status=int(found.status))
    del response.headers["Content-Type"]
    for name, value in found.headers:
        response.headers[name] = value
    return response

"""The built-in model: needs no key and no network."""

from gateway.providers.demo.transport import DemoTransport, demo_transport

__all__ = ["DemoTransport", "demo_transport"]

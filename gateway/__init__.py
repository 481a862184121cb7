"""The agent backend: asyncio, no Django, no database."""

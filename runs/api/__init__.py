"""The HTTP API under `/v1`, one noun a file: views read what was sent and ask `runs.actions`."""

"""The site's own settings for the tests: data in a temporary folder, nothing from the environment but the database, and
passwords that cost no time."""

import atexit
import os
import shutil
import tempfile

for name in [name for name in os.environ if name.startswith(("AGENTSITE_", "OTEL_")) or name == "REDIS_URL"]:
    del os.environ[name]
os.environ["AGENTSITE_DATA"] = tempfile.mkdtemp(prefix="agentsite-tests-")
atexit.register(shutil.rmtree, os.environ["AGENTSITE_DATA"], ignore_errors=True)

from agentsite.settings import *  # noqa: E402, F403
from agentsite.settings import DATA_DIR, DATABASES  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, as in life: Django's in-memory test database knows neither WAL nor real threads.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}

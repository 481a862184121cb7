"""Settings, all by environment. Nothing set: one process, SQLite, everything under `var/`, for one machine.

`AGENTSITE_ENV=production` switches the safe-guards of a public site on and insists on what only its owner can know.
`docs/configuration.md` lists every variable.
"""

import hashlib
import logging
import os
import re
import secrets
import socket
import tomllib
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dj_database_url
from csp.constants import NONE, SELF
from dj_database_url import UnknownSchemeError
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION: str = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]["version"]
# Characters of a secret that somebody sets; one that is made here has 86.
LEAST_SECRET = 32
DATA_DIR = Path(os.environ.get("AGENTSITE_DATA", BASE_DIR / "var")).resolve()


def env_list(name: str) -> list[str]:
    return [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()]


def env_lines(name: str) -> list[str]:
    """One entry a line, or separated by semicolons: for entries that hold commas."""
    return [part.strip() for part in os.environ.get(name, "").replace(";", "\n").splitlines() if part.strip()]


def env_number(name: str, default: float, least: float = 0) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {text!r}.") from None
    if not 0 < number < float("inf"):
        raise ImproperlyConfigured(f"{name} must be a number above 0, not {text!r}.")
    if number < least:
        raise ImproperlyConfigured(f"{name} must be at least {least:g}, not {text!r}.")
    return number


def env_int(name: str, default: int) -> int:
    return int(env_number(name, default))


def env_flag(name: str, default: bool) -> bool:
    text = os.environ.get(name, "").lower()
    if text not in ("", "0", "1", "no", "yes", "false", "true", "off", "on"):
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {text!r}.")
    return text in ("1", "yes", "true", "on") if text else default


def env_choice(name: str, default: str, choices: list[str]) -> str:
    text = os.environ.get(name, "") or default
    if text not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {text!r}.")
    return text


def env_hosts() -> list[str]:
    hosts = env_list("AGENTSITE_HOSTS")
    if wrong := [host for host in hosts if not re.fullmatch(r"\*|\.?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]", host)]:
        raise ImproperlyConfigured(
            f"AGENTSITE_HOSTS: {wrong[0]!r} is no host name. Give names like agents.example.org, without https://, "
            "port or path, separated by commas."
        )
    return hosts


def env_time_zone() -> str:
    name = os.environ.get("AGENTSITE_TIME_ZONE") or "UTC"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(f"AGENTSITE_TIME_ZONE must be like Europe/Berlin, not {name!r}.") from None
    return name


def make_data_directory() -> None:
    try:
        DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ImproperlyConfigured(f"AGENTSITE_DATA: the directory {DATA_DIR} cannot be made: {error}.") from None


def keep_secret_key() -> str:
    """The embedded deployment makes its own key once and keeps it where its database is."""
    path = DATA_DIR / "secret_key"
    make_data_directory()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        key = secrets.token_urlsafe(64)
        file.write(key)
    return key


def redis_host(url: str) -> dict[str, Any]:
    """What the channel layer is told. redis-py's own defaults would end a quiet websocket after five seconds, refuse
    the hundred-and-first connection, and hold everybody up for seconds while a server is away."""
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    host: dict[str, Any] = {
        "address": url,
        "max_connections": 5000,
        "socket_timeout": 30,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),  # the layer tries again itself
    }
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: a server that vanished without a word is noticed within seconds
        host["socket_keepalive_options"] = {
            socket.TCP_KEEPIDLE: 5,
            socket.TCP_KEEPINTVL: 2,
            socket.TCP_KEEPCNT: 3,
            socket.TCP_USER_TIMEOUT: 10_000,
        }
    return host


IS_PRODUCTION = env_choice("AGENTSITE_ENV", "development", ["development", "production"]) == "production"
DEBUG = False

if IS_PRODUCTION:
    missing = [name for name in ("AGENTSITE_SECRET_KEY", "AGENTSITE_HOSTS") if not os.environ.get(name)]
    if missing:
        raise ImproperlyConfigured(
            f"AGENTSITE_ENV=production needs {' and '.join(missing)}: a long random secret "
            "(python -c 'import secrets; print(secrets.token_urlsafe(64))') and the host names the site answers to, "
            "separated by commas."
        )
    SECRET_KEY = os.environ["AGENTSITE_SECRET_KEY"]
    if len(SECRET_KEY) < LEAST_SECRET:
        raise ImproperlyConfigured(
            f"AGENTSITE_SECRET_KEY is too short to be a secret: give at least {LEAST_SECRET} random characters "
            "(python -c 'import secrets; print(secrets.token_urlsafe(64))')."
        )
    ALLOWED_HOSTS = env_hosts()
    CSRF_TRUSTED_ORIGINS = [
        f"https://{'*' if host.startswith('.') else ''}{host}" for host in ALLOWED_HOSTS if host != "*"
    ]
    SECURE_SSL_REDIRECT = env_flag("AGENTSITE_SSL_REDIRECT", True)
    SECURE_HSTS_SECONDS = env_int("AGENTSITE_HSTS_SECONDS", 31_536_000)
    # What else is served below the same name is its owner's to decide on, so Django's two reminders are of no use.
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = env_flag("AGENTSITE_HSTS_SUBDOMAINS", False)
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
else:
    SECRET_KEY = os.environ.get("AGENTSITE_SECRET_KEY") or keep_secret_key()
    ALLOWED_HOSTS = env_hosts() or ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "daphne",
    "whitenoise.runserver_nostatic",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "runs",
]

MIDDLEWARE = [
    "runs.probes.answer_probes",
    "django.middleware.security.SecurityMiddleware",
    "runs.static_files.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "agentsite.urls"
ASGI_APPLICATION = "agentsite.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "runs.views.preferences.add_preferences",
            ],
        },
    },
]

# A worker that has not renewed its lease for this long counts as gone. It looks once a second whether to renew, so a
# lease much shorter than two would now and then run out under a worker that is alive.
LEASE_SECONDS = env_number("AGENTSITE_LEASE_SECONDS", 15, least=2)

DATABASE_URL = os.environ.get("DATABASE_URL", "")
if DATABASE_URL:
    try:
        DATABASES: dict[str, Any] = {"default": dj_database_url.parse(DATABASE_URL)}
    except UnknownSchemeError:
        DATABASES = {"default": {}}
    except ValueError:
        raise ImproperlyConfigured(
            "DATABASE_URL cannot be read. Special characters in a password must be percent-encoded, like / as %2F."
        ) from None
else:
    make_data_directory()
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA_DIR / "agentsite.sqlite3"}}

if DATABASES["default"].get("ENGINE") not in ("django.db.backends.sqlite3", "django.db.backends.postgresql"):
    raise ImproperlyConfigured("DATABASE_URL must begin with postgresql:// or sqlite://; nothing else is supported.")
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Tests use a file as well: an in-memory database is one for each thread, or locks its tables for the others.
    DATABASES["default"]["TEST"] = {"NAME": DATA_DIR / "test.sqlite3"}
    # Immediate transactions take the write lock at once instead of failing half-way through with "database is locked".
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000;",
    }
else:
    OPTIONS: dict[str, Any] = DATABASES["default"].setdefault("OPTIONS", {})
    # Each request runs in a thread of its own: without a pool each would open a connection of its own too.
    # It gives up soon and begins anew when asked again: left to itself it would wait longer after each failure, and
    # find out half a minute late that a server is back.
    OPTIONS["pool"] = {"min_size": 2, "max_size": 20, "timeout": 5, "reconnect_timeout": 3}
    # What the pool holds may be broken: the server was restarted meanwhile.
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    # A process that is frozen in the middle of a transaction keeps its locks, and whoever would take its runs up again
    # passes over what is locked. The server ends such a transaction well before the lease has run out.
    OPTIONS["options"] = " ".join(
        [OPTIONS.get("options", ""), f"-c idle_in_transaction_session_timeout={int(LEASE_SECONDS * 500)}"]
    ).strip()
    # A server that vanished without a word is noticed within seconds, not hours.
    for option, value in {
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }.items():
        OPTIONS.setdefault(option, value)

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Both together make a deployment of many processes: web servers and workers, which hear of each other over Redis and
# get their work from procrastinate's jobs. Without Redis there is one process, whatever the database.
REDIS_URL = os.environ.get("REDIS_URL", "")
IS_SCALE_OUT = bool(REDIS_URL)
if IS_SCALE_OUT:
    if DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql":
        raise ImproperlyConfigured(
            "REDIS_URL is for several processes on one PostgreSQL: set DATABASE_URL=postgresql://… as well, or leave "
            "REDIS_URL out."
        )
    if not os.environ.get("AGENTSITE_SECRET_KEY"):
        raise ImproperlyConfigured(
            "REDIS_URL is for several processes, which must share a secret: set AGENTSITE_SECRET_KEY, the same for all "
            "of them (python -c 'import secrets; print(secrets.token_urlsafe(64))')."
        )
    # Redis tells everybody who listens, whatever its database number. Another site there must not hear this one.
    SITE = hashlib.sha256(f"{SECRET_KEY} {DATABASES['default']['NAME']}".encode()).hexdigest()[:16]
    CHANNEL_LAYERS: dict[str, Any] = {
        "default": {
            "BACKEND": "runs.shared_layer.SharedLayer",
            "CONFIG": {"hosts": [redis_host(REDIS_URL)], "prefix": f"agentsite.{SITE}."},
        }
    }
    INSTALLED_APPS.append("procrastinate.contrib.django")
    PROCRASTINATE_AUTODISCOVER_MODULE_NAME = "jobs"
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "runs.layers.EmbeddedLayer", "CONFIG": {"capacity": 500}}}

# For the counters of calls and of wrong passwords. Django's own 300 would be forgotten under a busy site.
CACHES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 50_000}}
}

AUTHENTICATION_BACKENDS = ["runs.sign_in.PatientBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

# Nothing that a model or a tool says can run in a page or load from elsewhere: scripts and styles are files of this
# site, none are inline, and a picture is a file of this site or stands in the page itself.
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

LANGUAGE_CODE = "en"
# Each in its own words: whoever looks for their language need not know another.
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = env_time_zone()
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Without collectstatic (the embedded default) WhiteNoise serves straight from the sources.
STATIC_ROOT = Path(os.environ.get("AGENTSITE_STATIC") or DATA_DIR / "static") if IS_PRODUCTION else None
WHITENOISE_USE_FINDERS = not IS_PRODUCTION
WHITENOISE_AUTOREFRESH = False
if IS_PRODUCTION:
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "runs.static_files.HashedStorage"},
    }

DATA_UPLOAD_MAX_MEMORY_SIZE = env_int("AGENTSITE_MAX_BODY_BYTES", 2 * 2**20)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "runs.api.authentication.KeyAuthentication",
        "runs.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["runs.api.throttles.CallerThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["runs.api.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "runs.api.errors.handle_exception",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Agentsite API",
    "DESCRIPTION": "Start agent runs, follow them live, stop them.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    # Choices stay where they are used. The default hook makes components of them, whose names it has to guess.
    "POSTPROCESSING_HOOKS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# The worker. Times in seconds.
AGENTSITE: dict[str, Any] = {
    # Python modules with tools of your own, imported by the worker.
    "TOOL_MODULES": env_list("AGENTSITE_TOOL_MODULES"),
    # How many runs one worker executes at once; more of them wait in the queue.
    "MAX_CONCURRENT_RUNS": env_int("AGENTSITE_MAX_CONCURRENT_RUNS", 500),
    "POOL_CAPACITY": env_int("AGENTSITE_POOL_CAPACITY", 128),
    "POOL_IDLE_SECONDS": env_number("AGENTSITE_POOL_IDLE_SECONDS", 3600),
    "LEASE_SECONDS": LEASE_SECONDS,
    # How long `manage.py worker` goes on with its runs after SIGTERM before it hands them to others.
    "DRAIN_SECONDS": env_number("AGENTSITE_DRAIN_SECONDS", 20),
    # How often a run may be taken up again after its worker was lost before it fails as `worker_lost`.
    "MAX_ATTEMPTS": env_int("AGENTSITE_MAX_ATTEMPTS", 3),
    # How long a tool that ignores its cancellation is waited for.
    "TOOL_GRACE_SECONDS": env_number("AGENTSITE_TOOL_GRACE_SECONDS", 0.05),
    # The conversation's own files: bytes of one, of all together, and how many.
    "FILE_BYTES": env_int("AGENTSITE_FILE_BYTES", 2**20),
    "FILES_BYTES": env_int("AGENTSITE_FILES_BYTES", 64 * 2**20),
    "FILES_COUNT": env_int("AGENTSITE_FILES_COUNT", 1000),
    # What agents may start in the background, besides the built-in functions: `name=command line`, one a line.
    "BACKGROUND_COMMANDS": env_lines("AGENTSITE_BACKGROUND_COMMANDS"),
    "BACKGROUND_PROCESSES": env_int("AGENTSITE_BACKGROUND_PROCESSES", 4),
    "BACKGROUND_SECONDS": env_number("AGENTSITE_BACKGROUND_SECONDS", 3600),
    "BACKGROUND_OUTPUT_BYTES": env_int("AGENTSITE_BACKGROUND_OUTPUT_BYTES", 256 * 1024),
    "BACKGROUND_GRACE_SECONDS": env_number("AGENTSITE_BACKGROUND_GRACE_SECONDS", 3),
    # A deleted conversation can be restored for so long; then its files and processes go, and later its rows.
    "UNDO_SECONDS": env_number("AGENTSITE_UNDO_SECONDS", 300),
    "TRASH_DAYS": env_number("AGENTSITE_TRASH_DAYS", 30),
    # Whoever sends it as a bearer token may read /metrics; without one there are no metrics.
    "METRICS_TOKEN": os.environ.get("AGENTSITE_METRICS_TOKEN", ""),
    # Where `manage.py worker` answers /healthz, /readyz and /metrics; nowhere if there is no port.
    "WORKER_HOST": os.environ.get("AGENTSITE_WORKER_HOST", "127.0.0.1"),
    "WORKER_PORT": env_int("AGENTSITE_WORKER_PORT", 0) if os.environ.get("AGENTSITE_WORKER_PORT") else None,
    "CALLS_PER_MINUTE": env_int("AGENTSITE_CALLS_PER_MINUTE", 6000),
}

LOG_LEVEL = os.environ.get("AGENTSITE_LOG_LEVEL", "").upper() or "WARNING"
if LOG_LEVEL not in logging.getLevelNamesMapping():
    raise ImproperlyConfigured(f"AGENTSITE_LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, not {LOG_LEVEL!r}.")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "filters": {"foreign_host": {"()": "runs.foreign_hosts.OneLine"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "django.security.DisallowedHost": {"filters": ["foreign_host"]},
    },
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    LOGGING["filters"]["one_line"] = {"()": "runs.outages.OneLine"}
    LOGGING["handlers"]["console"]["filters"] = ["one_line"]

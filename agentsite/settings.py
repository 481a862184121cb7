"""Settings, all by environment. Nothing set: one process, SQLite, everything under `var/`, for one machine.

`AGENTSITE_ENV=production` switches the safe-guards of a public site on and insists on what only its owner can know.
`docs/configuration.md` lists every variable.
"""

import os
import secrets
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("AGENTSITE_DATA", BASE_DIR / "var")).resolve()


def env_list(name: str) -> list[str]:
    return [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()]


def env_number(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {text!r}.") from None
    if not 0 < number < float("inf"):
        raise ImproperlyConfigured(f"{name} must be a number above 0, not {text!r}.")
    return number


def env_int(name: str, default: int) -> int:
    return int(env_number(name, default))


def keep_secret_key() -> str:
    """The embedded deployment makes its own key once and keeps it where its database is."""
    path = DATA_DIR / "secret_key"
    DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        key = secrets.token_urlsafe(64)
        file.write(key)
    return key


IS_PRODUCTION = os.environ.get("AGENTSITE_ENV", "") == "production"
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
    ALLOWED_HOSTS = env_list("AGENTSITE_HOSTS")
    CSRF_TRUSTED_ORIGINS = [f"https://{host.lstrip('*')}" for host in ALLOWED_HOSTS if host != "*"]
    SECURE_SSL_REDIRECT = os.environ.get("AGENTSITE_SSL_REDIRECT", "1") == "1"
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
    SECURE_HSTS_SECONDS = env_int("AGENTSITE_HSTS_SECONDS", 31_536_000)
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
else:
    SECRET_KEY = os.environ.get("AGENTSITE_SECRET_KEY") or keep_secret_key()
    ALLOWED_HOSTS = env_list("AGENTSITE_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]

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
    "django.middleware.security.SecurityMiddleware",
    "runs.static_files.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
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
            ],
        },
    },
]

DATABASE_URL = os.environ.get("DATABASE_URL", "")
if DATABASE_URL:
    DATABASES: dict[str, Any] = {"default": dj_database_url.parse(DATABASE_URL)}
else:
    DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA_DIR / "agentsite.sqlite3"}}

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
    # Each request runs in a thread of its own: without a pool each would open a connection of its own too.
    DATABASES["default"].setdefault("OPTIONS", {})["pool"] = {"min_size": 2, "max_size": 20, "timeout": 10}

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {"default": {"BACKEND": "runs.layers.EmbeddedLayer", "CONFIG": {"capacity": 500}}}

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

LANGUAGE_CODE = "en"
TIME_ZONE = os.environ.get("AGENTSITE_TIME_ZONE", "UTC")
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Without collectstatic (the embedded default) WhiteNoise serves straight from the sources.
STATIC_ROOT = DATA_DIR / "static" if IS_PRODUCTION else None
WHITENOISE_USE_FINDERS = not IS_PRODUCTION
WHITENOISE_AUTOREFRESH = False
if IS_PRODUCTION:
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
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
    # A worker that has not renewed its lease for this long counts as gone.
    "LEASE_SECONDS": env_number("AGENTSITE_LEASE_SECONDS", 15),
    # How often a run may be taken up again after its worker was lost before it fails as `worker_lost`.
    "MAX_ATTEMPTS": env_int("AGENTSITE_MAX_ATTEMPTS", 3),
    # How long a tool that ignores its cancellation is waited for.
    "TOOL_GRACE_SECONDS": env_number("AGENTSITE_TOOL_GRACE_SECONDS", 0.05),
    "CALLS_PER_MINUTE": env_int("AGENTSITE_CALLS_PER_MINUTE", 6000),
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": os.environ.get("AGENTSITE_LOG_LEVEL", "WARNING")},
    "loggers": {"django.request": {"level": "ERROR"}},
}

"""What `serve` prints for the person at the terminal."""

import os
import shlex

from django.conf import settings

from runs.setup import FirstAccount


def address_of(host: str, port: int) -> str:
    """Where people find the site: by its own name through the proxy, or where this process listens."""
    name = settings.ALLOWED_HOSTS[0]
    if settings.IS_PRODUCTION and not name.startswith(("*", ".")):
        return f"https://{name}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def describe_first_account(url: str, account: FirstAccount) -> str:
    """How to get in, and a run to paste: started, followed live, stopped."""
    return f"""\
An admin and an API key were made. They are shown this once:

  Sign in    {url}/accounts/login/
  User name  {account.user_name}
  Password   {account.password}
  API key    {account.api_key}

Try it in another terminal: start a run, follow its events, and stop it.

  KEY={account.api_key}
  RUN=$(curl -s {url}/v1/runs -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\
    -d '{{"input": "Wait 20 seconds"}}' | grep -o 'run_[0-9a-f]\\{{24\\}}')
  curl -sN {url}/v1/runs/$RUN/events -H "Authorization: Bearer $KEY" &
  sleep 3
  curl -s -X POST {url}/v1/runs/$RUN/stop -H "Authorization: Bearer $KEY"

"""


def describe_site(url: str, has_worker: bool) -> str:
    # A command that is pasted into another terminal has to find the same site.
    data = os.environ.get("AGENTSITE_DATA")
    python = ".venv/bin/python" if (settings.BASE_DIR / ".venv").exists() else "python"
    manage = f"{f'AGENTSITE_DATA={shlex.quote(data)} ' if data else ''}{python} manage.py"
    lines = [
        f"Agentsite is ready at {url}/ (Ctrl-C ends it)",
        f"  Sign in           {url}/accounts/login/",
        f"  API               {url}/v1/docs",
        f"  A new API key     {manage} create_api_key NAME --user admin",
        f"  A new password    {manage} changepassword admin",
    ]
    if settings.DATABASE_URL:
        lines.append("Both commands need the rest of this server's environment too, DATABASE_URL above all.")
    if not has_worker:
        lines.append(f"No worker runs in this process: runs wait until one takes them ({manage} worker).")
        if not settings.IS_SCALE_OUT:
            lines.append("Workers of their own need REDIS_URL, beside a DATABASE_URL of PostgreSQL.")
    return "\n".join(lines)

# One image for every role: `serve`, `serve --web-only`, `worker`. The command decides.
FROM python:3.13-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 AGENTSITE_ENV=production AGENTSITE_DATA=/data AGENTSITE_STATIC=/static \
    HOST=0.0.0.0 PORT=8000

WORKDIR /app
COPY requirements.txt .
RUN pip install --no-cache-dir --require-hashes -r requirements.txt

COPY . .
# The static files belong to the image; what is in /data belongs on a volume. A secret and a host are needed to read the
# settings, and are not kept.
RUN AGENTSITE_SECRET_KEY=only-for-this-step-and-nothing-else AGENTSITE_HOSTS=localhost python manage.py collectstatic --noinput \
    && useradd --system --no-create-home agentsite && mkdir -p /data && chown agentsite /data

USER agentsite
EXPOSE 8000
# Runs are handed over at the end of the grace period: leave the container at least that long to end.
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "manage.py"]
CMD ["serve", "--web-only"]

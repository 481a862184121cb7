from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Agentsite"

    def ready(self) -> None:
        from runs import checks  # noqa: F401

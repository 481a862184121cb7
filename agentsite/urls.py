"""Every address of the site."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path
from django.views.generic import RedirectView

from runs.views.health import show_health, show_readiness
from runs.views.home import show_home

urlpatterns = [
    path("", show_home, name="home"),
    path("healthz", show_health, name="healthz"),
    path("readyz", show_readiness, name="readyz"),
    path("accounts/login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("accounts/logout/", auth.LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("favicon.ico", RedirectView.as_view(url="/static/favicon.svg", permanent=True)),
    path("v1/", include("runs.api.urls")),
]

admin.site.site_title = "Agentsite"
admin.site.site_header = "Agentsite"
admin.site.index_title = "Administration"

handler400 = "runs.api.errors.bad_request"
handler500 = "runs.api.errors.server_error"

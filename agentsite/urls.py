"""Every address of the site, except for those in `runs.probes`."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path
from django.views.generic import RedirectView

from runs.sign_in import AdminSignInForm, SignInForm
from runs.views.conversation import show_conversation, show_run
from runs.views.history import show_history
from runs.views.home import show_home
from runs.views.inbox import show_inbox
from runs.views.preferences import show_preferences
from runs.views.search import show_search
from runs.views.sidebar import show_sidebar
from runs.views.start import start_conversation

urlpatterns = [
    path("", show_home, name="home"),
    path("start", start_conversation, name="start"),
    path("c/<str:conversation_id>", show_conversation, name="conversation"),
    path("c/", include("runs.views.transcript_urls")),
    path("runs/<str:run_id>", show_run, name="run"),
    path("inbox", show_inbox, name="inbox"),
    path("history", show_history, name="history"),
    path("search", show_search, name="search"),
    path("sidebar", show_sidebar, name="sidebar"),
    path("preferences", show_preferences, name="preferences"),
    path(
        "accounts/login/",
        auth.LoginView.as_view(redirect_authenticated_user=True, authentication_form=SignInForm),
        name="login",
    ),
    path("accounts/logout/", auth.LogoutView.as_view(), name="logout"),
    path(
        "accounts/password/", auth.PasswordChangeView.as_view(success_url="/preferences?saved"), name="password_change"
    ),
    path("admin/", admin.site.urls),
    path("favicon.ico", RedirectView.as_view(url="/static/favicon.svg", permanent=True)),
    path("v1/", include("runs.api.urls")),
]

admin.site.site_title = "Agentsite"
admin.site.site_header = "Agentsite"
admin.site.index_title = "Administration"
admin.site.login_form = AdminSignInForm

handler400 = "runs.api.errors.bad_request"
handler500 = "runs.api.errors.server_error"

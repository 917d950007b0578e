"""The root of the URLs; each part of the product brings its own."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("i18n/", include("django.conf.urls.i18n")),
    path("api/v1/", include("recovery.api.urls")),
    path("", include("recovery.console.urls")),
]

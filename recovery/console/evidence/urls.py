"""Evidence and dossiers, as part of the console's URLs."""

from django.urls import path

from recovery.console.evidence import dossier, views

urlpatterns = [
    path("evidence/", views.listed, name="evidence"),
    path("evidence/new/", views.attach, name="evidence-new"),
    path("evidence/<str:bundle_id>/", views.bundle, name="evidence-bundle"),
    path("evidence/<str:bundle_id>/withdraw/", views.withdraw, name="evidence-withdraw"),
    path("evidence/<str:bundle_id>/files/<int:position>/", views.file, name="evidence-file"),
    path("instances/<str:instance_id>/dossier", dossier.html, name="dossier"),
    path("instances/<str:instance_id>/dossier.zip", dossier.archive, name="dossier-archive"),
]

"""Pages of access administration; part of the console's URLs."""

from django.urls import path

from recovery.console.access.views import credentials, grants, holders, proof

urlpatterns = [
    path("access/", holders.namespaces, name="access"),
    path("access/<str:namespace>/", holders.people, name="access-matrix"),
    path("access/<str:namespace>/people/<path:name>/", holders.person, name="access-person"),
    path("access/<str:namespace>/groups/", holders.group_list, name="access-groups"),
    path("access/<str:namespace>/groups/<path:name>/", holders.group, name="access-group"),
    path("access/<str:namespace>/queues/", holders.queues, name="access-queues"),
    path("access/<str:namespace>/queues/<str:name>/", holders.queue, name="access-queue"),
    path("access/<str:namespace>/grant/", grants.grant, name="access-grant"),
    path("access/<str:namespace>/change/", grants.change, name="access-change"),
    path("access/<str:namespace>/why/", proof.why, name="access-why"),
    path("access/<str:namespace>/credentials/", credentials.listed, name="access-credentials"),
    path("access/<str:namespace>/credentials/new/", credentials.create, name="access-credential-new"),
    path("access/<str:namespace>/credentials/<str:credential_id>/", credentials.credential, name="access-credential"),
    path("access/<str:namespace>/log/", proof.entries, name="access-log"),
]

"""Every page of the console. Each has a URL of its own; filters are GET parameters.

Signing in comes first for all of them (`middleware.ErrorPages`), except where a view says otherwise.
"""

from django.urls import path, re_path
from django.views.generic import RedirectView

from recovery.console.access.urls import urlpatterns as access
from recovery.console.evidence.urls import urlpatterns as evidence
from recovery.console.views import (
    act,
    audit,
    definitions,
    document,
    handled,
    instance,
    queues,
    receipt,
    review,
    saved,
    search,
    session,
    step,
    system,
    task,
)

app_name = "console"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="console:review"), name="home"),
    path("sign-in/", session.SignIn.as_view(), name="sign-in"),
    path("sign-out/", session.SignOut.as_view(), name="sign-out"),
    path("preferences/", session.preferences, name="preferences"),
    path("review/", review.review, name="review"),
    path("review/newer/", review.newer, name="review-newer"),
    path("review/handled/", handled.listed, name="handled"),
    path("review/views/", saved.saved, name="saved-views"),
    path("definitions/", definitions.listed, name="definitions"),
    path("definitions/<str:name>/", definitions.definition, name="definition"),
    path("definitions/<str:name>/versions/<int:number>/", definitions.version, name="version"),
    path("queues/", queues.listed, name="queues"),
    path("queues/<str:name>/", queues.queue, name="queue"),
    path("system/", system.system, name="system"),
    path("audit/", audit.explorer, name="audit"),
    re_path(r"^audit/entries\.(?P<kind>csv|jsonl)$", audit.export, name="audit-export"),
    path("go", search.go, name="go"),
    path("instances/", search.instances, name="instances"),
    path("instances/<str:instance_id>/", instance.instance, name="instance"),
    path("instances/<str:instance_id>/newer/", instance.newer, name="instance-newer"),
    re_path(
        r"^instances/(?P<instance_id>[^/]+)/(?P<name>input|output)\.json$", document.instance_document, name="document"
    ),
    re_path(
        r"^instances/(?P<instance_id>[^/]+)/steps/(?P<name>input|output)\.json/(?P<step_key>.+)/$",
        document.step_document,
        name="step-document",
    ),
    path("instances/<str:instance_id>/steps/<path:step_key>/", step.step, name="step"),
    path("instances/<str:instance_id>/recovery/<slug:operation>/", act.act, name="act"),
    path("instances/<str:instance_id>/recovery/<slug:operation>/<path:target>/", act.act, name="act-on"),
    path("tasks/<str:task_id>/", task.task, name="task"),
    re_path(
        r"^tasks/(?P<task_id>[^/]+)/(?P<name>input|results)/(?P<revision>[0-9]{1,18})\.json$",
        document.task_document,
        name="task-document",
    ),
    path("operations/<path:operation_key>/", receipt.receipt, name="receipt"),
    *access,
    *evidence,
]

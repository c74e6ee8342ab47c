"""Django, whose requests wait for a task of Celery's. Settings come by environment."""

import os

import django
import requests
from celery import Celery
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path

BUS = f"redis://127.0.0.1:{os.environ['REDIS']}/0"
app = Celery("chores", broker=BUS, backend=BUS)
app.conf.broker_connection_retry_on_startup = True


@app.task
def chore(words):
    """What the worker does."""
    requests.get(f"http://127.0.0.1:{os.environ['DOWN']}/down?{words.strip()}", timeout=10)


def answer(request, path):
    rid = request.GET["rid"]
    chore.delay(f"rid={rid} ").get(timeout=20)
    status = {"miss": 404, "fail": 500}.get(path, 200)
    with open(os.environ["LOG"], "a", encoding="utf-8") as log:
        log.write(f"rid={rid} {status}\n")
    return HttpResponse(rid, status=status)


settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", MIDDLEWARE=[])
urlpatterns = [re_path("^(?P<path>.*)$", answer)]
django.setup()
application = get_wsgi_application()

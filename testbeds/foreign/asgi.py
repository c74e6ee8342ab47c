"""Django by ASGI: views of both kinds, so that half of each request's work is done by a thread. Settings come by environment."""

import os

import django
import psycopg2
import redis.asyncio
import requests
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import re_path

PLACE = f"host=127.0.0.1 port={os.environ['PG']} user=postgres dbname=postgres sslmode=disable gssencmode=disable"
CACHE = redis.asyncio.Redis(host="127.0.0.1", port=int(os.environ["REDIS"]))
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)


@sync_to_async(thread_sensitive=False)
def work(rid):
    """What a thread does: a transaction on a connection of its own, and a call."""
    db = psycopg2.connect(PLACE)
    with db, db.cursor() as cursor:
        cursor.execute(f"/* rid={rid} */ SELECT 1")
    db.close()
    requests.get(f"http://127.0.0.1:{os.environ['DOWN']}/down?rid={rid}", timeout=10)


async def answer(request, path):
    rid = request.GET["rid"]
    status = {"miss": 404, "fail": 500}.get(path, 200)
    await CACHE.incr(f"rid:{rid}")
    if status == 200:
        await work(rid)
    os.write(LOG, f"rid={rid} {status}\n".encode())
    return HttpResponse(rid, status=status)


settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", MIDDLEWARE=[])
urlpatterns = [re_path("^(?P<path>.*)$", answer)]
django.setup()
application = get_asgi_application()

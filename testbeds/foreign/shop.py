"""Django in one file; settings come by environment."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpResponse
from django.urls import path

# one write a line: threads and processes share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="of a test",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1",
        "PORT": os.environ["PG"], "CONN_MAX_AGE": None, "OPTIONS": {"sslmode": "disable", "gssencmode": "disable"},
    }},
)


def view(status, queries):
    def answer(request):
        rid = request.GET["rid"]
        with connection.cursor() as cursor:
            for _ in range(queries):
                cursor.execute(f"/* rid={rid} */ SELECT pg_sleep(0.001)")
        os.write(LOG, f"rid={rid} {status}\n".encode())
        return HttpResponse(f"{rid}\n", status=status)

    return answer


urlpatterns = [path("x", view(200, 3)), path("miss", view(404, 1)), path("fail", view(500, 1))]
application = get_wsgi_application()

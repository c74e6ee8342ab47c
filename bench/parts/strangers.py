"""More systems of other people's making, for `bench/foreign more`: frameworks that come with a queue, a pool or a loop of their own.

As in `foreign`, each is a function of a `Place` that starts servers in order and gives the port where requests go in.
"""

from .foreign import CODE, DATABASE
from .programs import free_port, server
from .tiers import find, put

GEMS = "/usr/share/rubygems-integration/all/specifications"


def beside(place, name, line, ready, **env):
    """Starts a program without a port, such as a worker of a queue, and waits until it says that it is ready."""
    said = place.at / f"{name}.log"
    words = place.stack.enter_context(open(said, "w", encoding="utf-8"))
    env = {**place.env, **{k: str(v) for k, v in env.items()}}
    line = ["/bin/sh", "-c", 'exec "$@" >&2', "sh", *line]
    place.stack.enter_context(server(line, env=env, stderr=words, cwd=place.at))
    place.wait_for(said, ready)


def rails(place):
    """Rails on Puma, five threads with a pool of connections, and Sidekiq, whose worker takes jobs from Redis."""
    port, env = free_port(), {**place.stores(), "LOG": place.log, "RAILS_ENV": "production", "RACK_ENV": "production"}
    app = CODE / "rails.ru"
    place.start("puma", [find("puma"), "-q", "-b", f"tcp://127.0.0.1:{port}", "-t", "5:5", app], port, **env)
    boot = put(place.at, "boot.rb", 'load "@app@"\n', app=app)
    beside(place, "sidekiq", [find("sidekiq"), "-r", boot, "-c", 3], "Booted Rails", **env)
    return port


MORE = {
    "rails": (["puma", "sidekiq", "redis-server", DATABASE, f"{GEMS}/rails-*"], rails),
}

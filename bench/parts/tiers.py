"""Real servers between a load generator and what they call: how each is configured and started.

Each tier is a function of a folder of its own and the port of what is called (`testbeds/demo/java/down.py`), which gives
the commands to start, in order: `(command, port that it answers on)`. The last one's port is the tier's.
"""

import glob
import os
import shutil
import subprocess
import textwrap

from .programs import free_port, run

ROOT_USER = os.geteuid() == 0


def find(name):
    """A program's path, also where only root looks; a pattern's first match."""
    if "/" in name:
        return next(iter(sorted(glob.glob(name))), None)
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def put(at, name, text, **fields):
    """Writes a file, with `@NAME@` replaced."""
    text = textwrap.dedent(text)
    for key, value in {"at": at, **fields}.items():
        text = text.replace(f"@{key}@", str(value))
    path = at / name
    path.write_text(text, encoding="utf-8")
    return path


def nginx_line(at, text, **fields):
    """nginx in one process, with this in its server."""
    for name in ("body", "proxy", "fastcgi", "uwsgi", "scgi"):
        (at / name).mkdir(exist_ok=True)
    conf = put(at, "nginx.conf", NGINX.replace("@SERVER@", textwrap.dedent(text)),
               user="user root root;" if ROOT_USER else "", **fields)
    return [find("nginx"), "-p", at, "-e", at / "log", "-c", conf]


NGINX = """
    daemon off; master_process off; worker_processes 1; @user@
    pid "@at@/pid"; error_log "@at@/log";
    events { worker_connections 1024; }
    http {
        access_log off; client_body_temp_path "@at@/body"; proxy_temp_path "@at@/proxy"; fastcgi_temp_path "@at@/fastcgi";
        uwsgi_temp_path "@at@/uwsgi"; scgi_temp_path "@at@/scgi"; keepalive_requests 1000000;
        @SERVER@
    }
    """
PROXY = """
    upstream down { server 127.0.0.1:@down@; keepalive 64; }
    server {
        listen 127.0.0.1:@port@; root "@at@/files";
        location /x { proxy_pass http://down; proxy_http_version 1.1; proxy_set_header Connection ""; }
    }
    """


def nginx(at, down):
    """HTTP to HTTP, connections kept."""
    port = free_port()
    yield nginx_line(at, PROXY, port=port, down=down), port


def php_fpm(at, down, listen):
    """PHP-FPM with a script that calls by PHP's own streams."""
    user = "user = nobody\n        group = nogroup" if ROOT_USER else ""
    conf = put(at, "fpm.conf", """
        [global]
        error_log = @at@/fpm.log
        daemonize = no
        [www]
        listen = @listen@
        listen.mode = 0666
        pm = static
        pm.max_children = 8
        clear_env = no
        @user@
        """, listen=listen, user=user)
    put(at, "x.php", """<?php
        echo file_get_contents("http://127.0.0.1:@down@/x?rid=" . $_GET["rid"]);
        """, down=down)
    return [find("/usr/sbin/php-fpm[0-9]*"), "-n", "-F", "-y", conf]


def nginx_fastcgi(at, down):
    """nginx by FastCGI to PHP-FPM: two tiers."""
    port, inner = free_port(), free_port()
    yield php_fpm(at, down, f"127.0.0.1:{inner}"), inner
    yield nginx_line(at, """
        upstream php { server 127.0.0.1:@inner@; keepalive 4; }
        server {
            listen 127.0.0.1:@port@;
            location /x {
                fastcgi_pass php; fastcgi_keep_conn on; fastcgi_param SCRIPT_FILENAME "@at@/x.php";
                fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string;
            }
        }
        """, port=port, inner=inner), port


def apache(at, down, mpm):
    """Apache as a proxy, processes or threads."""
    port = free_port()
    user = "LoadModule unixd_module @modules@/mod_unixd.so\nUser nobody\nGroup nogroup" if ROOT_USER else ""
    modules = "/usr/lib/apache2/modules"
    if not os.path.exists(f"{modules}/mod_unixd.so"):
        user = user.split("\n", 1)[-1]
    conf = put(at, "apache.conf", f"""
        ServerRoot @at@
        ServerName localhost
        Listen 127.0.0.1:@port@
        PidFile @at@/pid
        ErrorLog @at@/log
        DefaultRuntimeDir @at@
        Mutex posixsem
        LoadModule mpm_{mpm}_module @modules@/mod_mpm_{mpm}.so
        LoadModule authz_core_module @modules@/mod_authz_core.so
        LoadModule proxy_module @modules@/mod_proxy.so
        LoadModule proxy_http_module @modules@/mod_proxy_http.so
        @user@
        MaxKeepAliveRequests 0
        StartServers 4
        MaxRequestWorkers 64
        ProxyPass /x http://127.0.0.1:@down@/x
        """, port=port, down=down, user=textwrap.dedent(user).replace("@modules@", modules), modules=modules)
    yield [find("apache2"), "-DFOREGROUND", "-f", conf], port


def apache_prefork(at, down):
    """A process a connection."""
    return apache(at, down, "prefork")


def apache_event(at, down):
    """A listening thread that hands connections to workers."""
    return apache(at, down, "event")


def haproxy(at, down):
    """HTTP to HTTP."""
    port = free_port()
    conf = put(at, "ha.cfg", """
        defaults
          mode http
          timeout connect 5s
          timeout client 60s
          timeout server 60s
        frontend f
          bind 127.0.0.1:@port@
          default_backend b
        backend b
          server s 127.0.0.1:@down@
        """, port=port, down=down)
    yield [find("haproxy"), "-db", "-f", conf], port


def lighttpd(at, down):
    """HTTP to HTTP."""
    port = free_port()
    conf = put(at, "l.conf", """
        server.document-root = "@at@"
        server.bind = "127.0.0.1"
        server.port = @port@
        server.modules = ("mod_proxy")
        proxy.server = ("" => (("host" => "127.0.0.1", "port" => @down@)))
        """, port=port, down=down)
    yield [find("lighttpd"), "-D", "-f", conf], port


def node(at, down):
    """Node's http, connections kept."""
    port = free_port()
    app = put(at, "app.js", """
        const http = require('http'); const agent = new http.Agent({keepAlive: true});
        http.createServer((q, r) => http.get({host: '127.0.0.1', port: @down@, path: q.url, agent}, s => {
          let b = ''; s.on('data', d => b += d); s.on('end', () => { r.setHeader('Content-Length', b.length); r.end(b); });
        })).listen(@port@, '127.0.0.1');
        """, port=port, down=down)
    yield [find("node"), app], port


def uvicorn(at, down, loop):
    """An asyncio application that opens a connection for each call."""
    port = free_port()
    put(at, "app.py", r"""
        import asyncio
        async def ask(path):
            r, w = await asyncio.open_connection('127.0.0.1', @down@)
            w.write(b'GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' % path)
            got = await r.read(); w.close(); return got.split(b'\r\n\r\n', 1)[1]
        async def app(scope, receive, send):
            if scope['type'] != 'http': return
            body = await ask(scope['path'].encode() + b'?' + scope['query_string'])
            await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'%d' % len(body))]})
            await send({'type': 'http.response.body', 'body': body})
        """, down=down)
    yield [find("uvicorn"), "--loop", loop, "--app-dir", at, "--port", port, "--log-level", "error", "app:app"], port


def uvicorn_asyncio(at, down):
    """CPython's own event loop."""
    return uvicorn(at, down, "asyncio")


def uvicorn_uvloop(at, down):
    """libuv's."""
    return uvicorn(at, down, "uvloop")


def postgresql(at):
    """PostgreSQL in the folder; as its own user where we are root, since it refuses that one."""
    port, data = free_port(), at / "pg"
    data.mkdir(mode=0o700)
    prefix = []
    if ROOT_USER:
        shutil.chown(data, "postgres", "postgres")
        prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    programs = os.path.dirname(find("/usr/lib/postgresql/*/bin/initdb"))
    run([*prefix, f"{programs}/initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], 60,
        stderr=subprocess.DEVNULL, cwd=data)
    settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=100", "fsync=off"]
    line = [*prefix, f"{programs}/postgres", "-D", data, "-p", port]
    return [*line, *(word for s in settings for word in ("-c", s))], port


def gunicorn(at, flags, redis):
    """gunicorn before PostgreSQL, and Redis where asked for; a connection to each is kept by each thread."""
    database, database_port = postgresql(at)
    yield database, database_port
    redis_port, port = 0, free_port()
    if redis:
        redis_port = free_port()
        yield [find("redis-server"), "--port", redis_port, "--bind", "127.0.0.1", "--save", "", "--dir", at], redis_port
    put(at, "app.py", r"""
        import socket, threading
        import psycopg2
        own = threading.local()
        def connected():
            if not hasattr(own, 'cursor'):
                db = psycopg2.connect('host=127.0.0.1 port=@database@ user=postgres dbname=postgres sslmode=disable gssencmode=disable')
                db.autocommit = True
                own.cursor = db.cursor()
                own.redis = socket.create_connection(('127.0.0.1', @redis@)) if @redis@ else None
            return own
        def app(environ, start_response):
            rid = environ['QUERY_STRING'].split('rid=')[1]
            c = connected()
            c.cursor.execute('/* rid=%s */ select 1, pg_sleep(0.001)' % rid)
            c.cursor.fetchall()
            if c.redis:
                c.redis.sendall(b'*2\r\n$4\r\nINCR\r\n$%d\r\nrid:%s\r\n' % (4 + len(rid), rid.encode()))
                c.redis.recv(100)
            start_response('200 OK', [('Content-Length', '3')])
            return [b'ok\n']
        """, database=database_port, redis=redis_port)
    yield [find("gunicorn"), "-b", f"127.0.0.1:{port}", "--chdir", at, "--worker-tmp-dir", at, *flags, "app:app"], port


def gunicorn_sync(at, _down):
    """A process a request."""
    return gunicorn(at, ["-w", 8], False)


def gunicorn_gthread(at, _down):
    """Threads of two processes; Redis is called too."""
    return gunicorn(at, ["-w", 2, "-k", "gthread", "--threads", 8], True)


def tomcat(at, down):
    """Tomcat with a servlet that calls by HttpURLConnection."""
    home, port = "/usr/share/tomcat10", free_port()
    for name in ("conf", "logs", "temp", "webapps/ROOT/WEB-INF/classes", "work", "src"):
        (at / name).mkdir(parents=True)
    source = put(at, "src/X.java", """
        import jakarta.servlet.http.*;
        import java.io.*;
        import java.net.*;
        public class X extends HttpServlet {
            protected void doGet(HttpServletRequest q, HttpServletResponse r) throws IOException {
                URL url = new URL("http://127.0.0.1:@down@/x?" + q.getQueryString());
                try (InputStream in = url.openConnection().getInputStream()) {
                    byte[] body = in.readAllBytes();
                    r.setContentLength(body.length);
                    r.getOutputStream().write(body);
                }
            }
        }
        """, down=down)
    put(at, "conf/server.xml", """\
        <Server port="-1"><Service name="Catalina">
          <Connector port="@port@" address="127.0.0.1" maxThreads="64" maxKeepAliveRequests="-1"/>
          <Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps" autoDeploy="false"/></Engine>
        </Service></Server>
        """, port=port)
    put(at, "webapps/ROOT/WEB-INF/web.xml", """\
        <web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
          <servlet><servlet-name>x</servlet-name><servlet-class>X</servlet-class></servlet>
          <servlet-mapping><servlet-name>x</servlet-name><url-pattern>/x</url-pattern></servlet-mapping>
        </web-app>
        """)
    run([find("javac"), "-cp", f"{home}/lib/*", "-d", at / "webapps/ROOT/WEB-INF/classes", source], 60)
    classes = f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar"
    yield [find("java"), "-Xmx192m", f"-Dcatalina.base={at}", f"-Dcatalina.home={home}", f"-Djava.io.tmpdir={at}/temp",
           "-Dhttp.maxConnections=64", "-cp", classes, "org.apache.catalina.startup.Bootstrap", "start"], port


# A port that names are usually asked on, which is how their datagrams are known, and for which no rights are needed.
NAMES_PORT = 5353
NAMES_DOWN = "127.0.0.2"


def bind(at, down):
    """A resolver that forwards."""
    port = NAMES_PORT
    conf = put(at, "named.conf", """
        options {
            directory "@at@"; pid-file "@at@/pid"; session-keyfile "@at@/key"; recursion yes; forward only;
            listen-on port @port@ { 127.0.0.1; }; listen-on-v6 { none; }; forwarders { @address@ port @down@; };
            dnssec-validation no; empty-zones-enable no;
        };
        controls { };
        """, port=port, down=down, address=NAMES_DOWN)
    yield [find("named"), "-f", "-n", 1, "-c", conf], port


# What a tier is called, what it needs, how it is started, and how many messages are below each request.
TIERS = {
    "nginx": (["nginx"], nginx, 1),
    "nginx FastCGI to PHP-FPM": (["nginx", "/usr/sbin/php-fpm[0-9]*"], nginx_fastcgi, 2),
    "Apache prefork": (["apache2"], apache_prefork, 1),
    "Apache event": (["apache2"], apache_event, 1),
    "HAProxy": (["haproxy"], haproxy, 1),
    "lighttpd": (["lighttpd"], lighttpd, 1),
    "Node.js": (["node"], node, 1),
    "uvicorn asyncio": (["uvicorn"], uvicorn_asyncio, 1),
    "uvicorn uvloop": (["uvicorn", "/usr/lib/python3/dist-packages/uvloop"], uvicorn_uvloop, 1),
    "gunicorn sync to PostgreSQL": (["gunicorn", "/usr/lib/postgresql/*/bin/initdb"], gunicorn_sync, 1),
    "gunicorn gthread to PostgreSQL and Redis": (
        ["gunicorn", "/usr/lib/postgresql/*/bin/initdb", "redis-server"], gunicorn_gthread, 2
    ),
    "BIND": (["named"], bind, 1),
    "Tomcat": (["javac", "/usr/share/tomcat10/bin/bootstrap.jar"], tomcat, 1),
}


def missing(name):
    """What of a tier is not installed."""
    return [need for need in TIERS[name][0] if not find(need)]

# shellcheck shell=bash
# nginx on host b, port 8080, serving DIR/www by sendfile. For cases that source parts.sh.

start_nginx() {
    need nginx nginx-light
    mkdir -p "$DIR"/{www,nginx}
    chmod 0755 "$DIR" "$DIR/www"
    cat >"$DIR/nginx/nginx.conf" <<CONF
user root root;
daemon off;
worker_processes 1;
pid "$DIR/nginx/pid";
error_log "$DIR/nginx/log";
events { worker_connections 64; }
http {
    access_log "$DIR/nginx/access.log";
    sendfile on;
    client_body_temp_path "$DIR/nginx/body";
    proxy_temp_path "$DIR/nginx/proxy";
    fastcgi_temp_path "$DIR/nginx/fastcgi";
    uwsgi_temp_path "$DIR/nginx/uwsgi";
    scgi_temp_path "$DIR/nginx/scgi";
    server { listen $B:8080; root "$DIR/www"; }
}
CONF
    start nginx ip netns exec "$(host b)" nginx -p "$DIR/nginx" -e "$DIR/nginx/log" -c "$DIR/nginx/nginx.conf"
    wait_for_port b 8080
}

// net/http before PostgreSQL with a pool of five, Redis and a service behind. Settings come by environment. What a request leads to
// is asked by its handler, or (KIND) by goroutines that it makes at once (fan-out), or by one of eight workers behind a channel with
// room (pool) or without (pool-direct); or its handler makes a goroutine for which it does not wait (fired). Or it is one of the services of streams.go.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
)

func main() {
	env := os.Getenv
	if streams(env("KIND")) {
		return
	}
	db, err := sql.Open("pgx", "postgres://postgres@127.0.0.1:"+env("PG")+"/postgres?sslmode=disable")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(5)
	db.SetMaxIdleConns(5)
	cache := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + env("REDIS")})
	log, err := os.OpenFile(env("LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	query := func(ctx context.Context, rid string) error {
		_, err := db.ExecContext(ctx, "/* rid="+rid+" */ SELECT pg_sleep(0.001)")
		return err
	}
	down := func(_ context.Context, rid string) error {
		reply, err := http.Get("http://127.0.0.1:" + env("DOWN") + "/down?rid=" + rid)
		if err == nil {
			io.Copy(io.Discard, reply.Body)
			reply.Body.Close()
		}
		return nil
	}
	ask := asks(env("KIND"), query, down)
	handle := func(status int, everything bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			rid := r.URL.Query().Get("rid")
			if err := cache.Incr(r.Context(), "rid:"+rid).Err(); err != nil {
				status = 503
			}
			if everything && ask(r.Context(), rid) != nil {
				status = 503
			}
			fmt.Fprintf(log, "rid=%s %d\n", rid, status)
			w.Header().Set("Content-Length", strconv.Itoa(len(rid)))
			w.WriteHeader(status)
			io.WriteString(w, rid)
		}
	}
	http.HandleFunc("/x", handle(200, true))
	http.HandleFunc("/miss", handle(404, false))
	http.HandleFunc("/fail", handle(500, false))
	panic(http.ListenAndServe("127.0.0.1:"+env("PORT"), nil))
}

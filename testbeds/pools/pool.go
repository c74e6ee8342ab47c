// A server on goroutines, which move between threads, with a pool of connections to the service behind it.
//
// Run: go run pool.go PORT UPSTREAM_PORT CONNECTIONS. `GET /in-turn/N?rid=R` makes N calls one after the other,
// `GET /at-once/N?rid=R` makes them together; each is `GET /up?rid=R`. The ids are the ground truth, for the scorer
// only. Listens on loopback; PORT 0 takes a free one.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: pool PORT UPSTREAM_PORT CONNECTIONS")
	}
	upstream := "http://127.0.0.1:" + os.Args[2] + "/up?"
	connections, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	pool := &http.Client{Transport: &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections,
	}}
	call := func(query string) error {
		reply, err := pool.Get(upstream + query)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		_, err = io.Copy(io.Discard, reply.Body)
		return err
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		kind, number, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
		calls, err := strconv.Atoi(number)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		failed := make(chan error, calls)
		var all sync.WaitGroup
		for range calls {
			if kind != "at-once" {
				failed <- call(r.URL.RawQuery)
				continue
			}
			all.Go(func() { failed <- call(r.URL.RawQuery) })
		}
		all.Wait()
		close(failed)
		for err := range failed {
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
		fmt.Fprintln(w, "done")
	})
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, nil))
}

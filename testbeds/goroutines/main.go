// A service whose handlers call another one: `goroutines down`, or `goroutines KIND DOWN`. Prints its port. GET /x/NAME leads
// to GET /down/NAME, by a connection of the handler's own (raw), by net/http's client (client), by two goroutines that the handler
// makes and one of which makes a third (made), by workers that the first requests start (workers), or by a pool whose workers begin
// with the item of who made them, go on with others' and end when there is nothing to do (burst).
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	handle := map[string]http.HandlerFunc{"down": down, "raw": raw, "client": client, "made": made,
		"workers": workers, "burst": burst}[os.Args[1]]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, handle))
}

func name(r *http.Request) string { return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] }

func down(w http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Millisecond)
	io.WriteString(w, name(r))
}

func raw(w http.ResponseWriter, r *http.Request) { askRaw(w, name(r)) }

func askRaw(w io.Writer, name string) {
	conn, err := net.Dial("tcp", "127.0.0.1:"+os.Args[2])
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /down/%s HTTP/1.1\r\nHost: down\r\n\r\n", name)
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		panic(err)
	}
	io.Copy(w, reply.Body)
}

func client(w http.ResponseWriter, r *http.Request) { askClient(w, name(r)) }

func askClient(w io.Writer, name string) {
	reply, err := http.Get("http://127.0.0.1:" + os.Args[2] + "/down/" + name)
	if err != nil {
		panic(err)
	}
	defer reply.Body.Close()
	io.Copy(w, reply.Body)
}

func made(w http.ResponseWriter, r *http.Request) {
	var all sync.WaitGroup
	start := func(do func(io.Writer, string)) {
		all.Add(1)
		go func() {
			defer all.Done()
			do(io.Discard, name(r))
		}()
	}
	start(askRaw)
	start(func(w io.Writer, name string) {
		start(askClient)
		time.Sleep(time.Millisecond)
	})
	all.Wait()
	io.WriteString(w, name(r))
}

type item struct {
	name string
	done chan string
}

func (i item) work() {
	askClient(io.Discard, i.name)
	i.done <- i.name
}

var (
	items   = make(chan item, 64)
	started sync.Map
)

func workers(w http.ResponseWriter, r *http.Request) {
	// each of the first requests finds that there are too few
	for i := 0; i < 4; i++ {
		if _, is := started.LoadOrStore(i, true); !is {
			go func() {
				for i := range items {
					i.work()
				}
			}()
			break
		}
	}
	i := item{name(r), make(chan string)}
	items <- i
	io.WriteString(w, <-i.done)
}

func burst(w http.ResponseWriter, r *http.Request) {
	i := item{name(r), make(chan string)}
	items <- i
	go func() {
		for {
			select {
			case i := <-items:
				i.work()
			case <-time.After(5 * time.Millisecond):
				return
			}
		}
	}()
	io.WriteString(w, <-i.done)
}

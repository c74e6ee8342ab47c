// A service whose handlers call another one: `goroutines down`, or `goroutines KIND DOWN`. Prints its port. GET /x/NAME leads
// to GET /down/NAME, by a connection of the handler's own (raw), by net/http's client (client), by two goroutines that the handler
// makes and one of which makes a third (made), by workers that the first requests start (workers), or by a pool whose workers begin
// with the item of who made them, go on with others' and end when there is nothing to do (burst). The other pools have four workers:
// behind a channel without room (direct), whose items are plain numbers (ints), behind a goroutine that passes on what it gets
// (passed), whose outcomes one goroutine gives to who waits for them (collected), and such that take two items and call once (batch).
// All speak HTTP/2, too, and one asks by it (http2): from Go 1.24 on.
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
	"sync/atomic"
	"time"
)

func main() {
	handle := map[string]http.HandlerFunc{"down": down, "raw": raw, "client": client, "made": made,
		"workers": workers, "burst": burst, "direct": pool(direct), "ints": ints(), "passed": pool(passed),
		"collected": pool(collected), "batch": pool(batch), "http2": http2}[os.Args[1]]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(server(handle).Serve(listener))
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

func askClient(w io.Writer, name string) { ask(http.DefaultClient, w, name) }

func ask(client *http.Client, w io.Writer, name string) {
	reply, err := client.Get("http://127.0.0.1:" + os.Args[2] + "/down/" + name)
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

// pool gives handlers that hand an item to a pool and wait for what comes of it.
func pool(start func() chan<- item) http.HandlerFunc {
	var once sync.Once
	var items chan<- item
	return func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { items = start() })
		i := item{name(r), make(chan string, 1)}
		items <- i
		io.WriteString(w, <-i.done)
	}
}

func four(work func()) {
	for i := 0; i < 4; i++ {
		go work()
	}
}

func direct() chan<- item {
	items := make(chan item)
	four(func() {
		for i := range items {
			i.work()
		}
	})
	return items
}

func passed() chan<- item {
	first, items := make(chan item), direct()
	go func() {
		for i := range first {
			items <- i
		}
	}()
	return first
}

func collected() chan<- item {
	items, outcomes := make(chan item, 8), make(chan item)
	four(func() {
		for i := range items {
			askClient(io.Discard, i.name)
			outcomes <- item{i.name + " ", i.done}
		}
	})
	go func() {
		for i := range outcomes {
			i.done <- strings.TrimSpace(i.name)
		}
	}()
	return items
}

func batch() chan<- item {
	items := make(chan item, 8)
	four(func() {
		for first := range items {
			select {
			case second := <-items:
				askClient(io.Discard, first.name+"+"+second.name)
				first.done <- first.name
				second.done <- second.name
			case <-time.After(5 * time.Millisecond):
				first.work()
			}
		}
	})
	return items
}

// ints hands over the number of an item, which lies in memory that all share.
func ints() http.HandlerFunc {
	type job struct {
		name string
		done chan int
	}
	var jobs sync.Map
	var last atomic.Int64
	var once sync.Once
	numbers := make(chan int, 8)
	work := func() {
		for n := range numbers {
			j, _ := jobs.LoadAndDelete(n)
			askClient(io.Discard, j.(job).name)
			j.(job).done <- n
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { four(work) })
		j := job{name(r), make(chan int)}
		n := int(last.Add(1))
		jobs.Store(n, j)
		numbers <- n
		<-j.done
		io.WriteString(w, j.name)
	}
}

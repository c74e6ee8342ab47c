// A web service in Go that some requests hold up: `stalls` prints its port, `stalls DOWN` calls a service at that port for each
// request. GET /work?cause=mutex waits for a mutex that another goroutine holds for 50 ms, ?cause=rwmutex for a read-write lock, ?cause=channel
// for room in a channel, ?cause=receive for an item, ?cause=select for one of two channels, ?cause=after for a time-out, ?cause=condition for a condition, ?cause=group for
// two goroutines, ?cause=sleep sleeps so long; everything else is answered at once. GET /hog computes for 50 ms.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const held = 50 * time.Millisecond

var (
	lock  sync.Mutex
	guard sync.RWMutex
	items = make(chan int)
)

func hold() {
	lock.Lock()
	go func() {
		time.Sleep(held)
		lock.Unlock()
	}()
}

// Gives an item of a channel when so long has passed.
func after() chan int {
	item := make(chan int)
	go func() {
		time.Sleep(held)
		item <- 1
	}()
	return item
}

func hog() int {
	n := 0
	for until := time.Now().Add(held); time.Now().Before(until); n++ {
	}
	return n
}

func call() {
	conn, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /down HTTP/1.1\r\nHost: down\r\n\r\n")
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, reply.Body)
}

func serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hog" {
		hog()
	} else {
		switch r.URL.Query().Get("cause") {
		case "mutex":
			hold()
			lock.Lock()
			lock.Unlock()
		case "channel":
			// whoever takes items is idle now, or has one: behind this one it has
			items <- 1
			items <- 1
		case "rwmutex":
			guard.Lock()
			go func() {
				time.Sleep(held)
				guard.Unlock()
			}()
			guard.RLock()
			guard.RUnlock()
		case "receive":
			<-after()
		case "select":
			select {
			case <-after():
			case <-r.Context().Done():
			}
		case "after":
			select {
			case <-time.After(held):
			case <-r.Context().Done():
			}
		case "condition":
			var mutex sync.Mutex
			done := sync.NewCond(&mutex)
			go func() {
				time.Sleep(held)
				done.Signal()
			}()
			mutex.Lock()
			done.Wait()
			mutex.Unlock()
		case "group":
			var group sync.WaitGroup
			group.Add(2)
			for i := 0; i < 2; i++ {
				go func() {
					time.Sleep(held)
					group.Done()
				}()
			}
			group.Wait()
		case "sleep":
			time.Sleep(held)
		}
		if len(os.Args) > 1 {
			call()
		}
	}
	io.WriteString(w, "ok")
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for range items {
			time.Sleep(held)
		}
	}()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, http.HandlerFunc(serve)))
}

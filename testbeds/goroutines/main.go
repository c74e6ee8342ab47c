// A service whose handlers call another one: `goroutines down`, or `goroutines raw|client DOWN`. Prints its port. GET /x/NAME leads
// to GET /down/NAME, by a connection of the handler's own (raw) or by net/http's client.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	handle := map[string]http.HandlerFunc{"down": down, "raw": raw, "client": client}[os.Args[1]]
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

func raw(w http.ResponseWriter, r *http.Request) {
	conn, err := net.Dial("tcp", "127.0.0.1:"+os.Args[2])
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /down/%s HTTP/1.1\r\nHost: down\r\n\r\n", name(r))
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		panic(err)
	}
	io.Copy(w, reply.Body)
}

func client(w http.ResponseWriter, r *http.Request) {
	reply, err := http.Get("http://127.0.0.1:" + os.Args[2] + "/down/" + name(r))
	if err != nil {
		panic(err)
	}
	defer reply.Body.Close()
	io.Copy(w, reply.Body)
}

// An HTTPS server and clients in one process, by HTTP/1 (`http1`, or with TLS 1.2 `tls12`) or by HTTP/2 (`http2`). Begins when a line
// comes on its standard input, stops early at the next, and says how many requests failed. With `-kept` behind it, a client asks on one
// connection until then. usage: tls http1|tls12|http2 FOLDER ROUNDS
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const secret = "hunter2-QxKvBzJwMp"

// What is asked on each connection, and the bytes of request and reply.
var asked = []struct {
	method, path string
	sent, status int
	length       int
}{
	{"GET", "/items", 0, 200, 12},
	{"GET", "/big", 0, 200, 10_000},
	{"POST", "/orders", 40_000, 201, 2},
	{"GET", "/missing", 0, 404, 9},
	{"GET", "/huge", 0, 200, 300_000},
	{"PUT", "/small", 16_384, 200, 16_384},
}

func answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	for _, a := range asked {
		if a.path == r.URL.Path {
			w.Header().Set("Content-Length", strconv.Itoa(a.length))
			w.WriteHeader(a.status)
			io.WriteString(w, strings.Repeat("x", a.length))
		}
	}
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}
}

// Serves on a port, which it gives.
func serve(isHTTP2 bool) string {
	config := &tls.Config{Certificates: []tls.Certificate{certificate()}}
	server := &http.Server{Handler: http.HandlerFunc(answer), TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0)}
	if !isHTTP2 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.ServeTLS(listener, "", "")
	return listener.Addr().String()
}

func ask(address, mode string, failed *atomic.Int64, isLast func() bool) {
	config := &tls.Config{InsecureSkipVerify: true}
	if mode == "tls12" {
		config.MaxVersion = tls.VersionTLS12
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: mode == "http2"}
	defer transport.CloseIdleConnections()
	for i := 0; i < len(asked) || !isLast(); i++ {
		a := asked[i%len(asked)]
		body := strings.Repeat(secret, a.sent/len(secret)+1)[:a.sent]
		request, err := http.NewRequest(a.method, "https://"+address+a.path+"?key="+secret, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+secret)
		reply, err := transport.RoundTrip(request)
		if err != nil {
			failed.Add(1)
			continue
		}
		got, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != a.status || len(got) != a.length {
			failed.Add(1)
		}
	}
}

func main() {
	mode, isKept := strings.CutSuffix(os.Args[1], "-kept")
	rounds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	address, input := serve(mode == "http2"), bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	input.ReadString('\n')
	var failed atomic.Int64
	var isStopped atomic.Bool
	stop := make(chan struct{})
	go func() {
		input.ReadString('\n')
		isStopped.Store(true)
		close(stop)
	}()
	for round := 0; round < rounds && !isStopped.Load(); round++ {
		var clients sync.WaitGroup
		for range [2]int{} {
			clients.Add(1)
			go func() {
				defer clients.Done()
				ask(address, mode, &failed, func() bool { return !isKept || isStopped.Load() })
			}()
		}
		clients.Wait()
	}
	fmt.Println(failed.Load(), "failed")
	<-stop
}

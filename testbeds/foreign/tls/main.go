// net/http before another of its kind (BACK), by TLS (CERT, KEY) or without, and by HTTP/1.1 or HTTP/2 (PROTOCOL), on both sides. Each writes what it
// was asked to ASKED; settings come by environment.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// header has the id of a request, where a query would be compressed: these letters at its end take more room when they are.
const header = "x-rid"

func marked(rid string) string { return "rid=" + rid + " " + strings.Repeat(`\`, 32) }

func appending(path string) *os.File {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	return file
}

func main() {
	env := os.Getenv
	var protocols http.Protocols
	scheme, isTLS := "http", env("CERT") != ""
	switch {
	case env("PROTOCOL") == "http1":
		protocols.SetHTTP1(true)
	case isTLS:
		protocols.SetHTTP2(true)
	default:
		protocols.SetUnencryptedHTTP2(true)
	}
	if isTLS {
		scheme = "https"
	}
	asked, log := appending(env("ASKED")), appending(env("LOG"))
	client := http.Client{Transport: &http.Transport{
		Protocols: &protocols, MaxIdleConnsPerHost: 100, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	// half of them read, half of them order with a body of more than a record
	ask := func(rid string) (int, error) {
		method, path, body := "GET", "/items", ""
		if strings.ContainsAny(rid[len(rid)-1:], "02468") {
			method, path, body = "POST", "/orders", strings.Repeat("o", 20_000)
		}
		request, err := http.NewRequest(method, scheme+"://127.0.0.1:"+env("BACK")+path, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		request.Header.Set(header, marked(rid))
		reply, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		defer reply.Body.Close()
		_, err = io.Copy(io.Discard, reply.Body)
		return reply.StatusCode, err
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(asked, "%s %s\n", r.Method, r.URL.Path)
		io.Copy(io.Discard, r.Body)
		if env("BACK") == "" {
			io.WriteString(w, strings.Repeat("i", 10_000))
			return
		}
		rid, status := r.URL.Query().Get("rid"), 200
		if got, err := ask(rid); err != nil || got != 200 {
			status = 503
		}
		fmt.Fprintf(log, "rid=%s %d\n", rid, status)
		w.WriteHeader(status)
		io.WriteString(w, rid)
	}
	server := &http.Server{Addr: "127.0.0.1:" + env("PORT"), Handler: http.HandlerFunc(handle), Protocols: &protocols}
	if isTLS {
		panic(server.ListenAndServeTLS(env("CERT"), env("KEY")))
	}
	panic(server.ListenAndServe())
}

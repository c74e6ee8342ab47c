//go:build go1.24

package main

import "net/http"

func server(handle http.Handler) *http.Server {
	return &http.Server{Handler: handle, Protocols: protocols(true)}
}

func protocols(http1 bool) *http.Protocols {
	var all http.Protocols
	all.SetHTTP1(http1)
	all.SetUnencryptedHTTP2(true)
	return &all
}

var clientOfHTTP2 = http.Client{Transport: &http.Transport{Protocols: protocols(false)}}

func http2(w http.ResponseWriter, r *http.Request) { ask(&clientOfHTTP2, w, name(r)) }

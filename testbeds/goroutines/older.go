//go:build !go1.24

package main

import "net/http"

func server(handle http.Handler) *http.Server { return &http.Server{Handler: handle} }

var http2 http.HandlerFunc

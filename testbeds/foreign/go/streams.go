package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
)

// header has the id of a request.
const header = "x-rid"

// streams runs one of two services: the first (http2, grpc) takes HTTP/1.1 and asks the other by streams of one connection, the
// other (http2-back, grpc-back) asks a third by HTTP/1.1. With -large behind it, one in five requests is sent and answered with a long
// body, and gRPC answers each in twenty messages. False where the kind is none of these.
func streams(kind string) bool {
	env := os.Getenv
	kind, isLarge := strings.CutSuffix(kind, "-large")
	body := func(rid string, long int) []byte {
		if !isLarge || !strings.ContainsAny(rid[len(rid)-1:], "05") {
			long = 2
		}
		return bytes.Repeat([]byte{0, 0, 8, 1, 5, 0, 0}, long/7+1)[:long]
	}
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:"+env("PORT"))
		if err != nil {
			panic(err)
		}
		return listener
	}
	down := func(rid string) {
		reply, err := http.Get("http://127.0.0.1:" + env("DOWN") + "/down?rid=" + rid)
		if err == nil {
			io.Copy(io.Discard, reply.Body)
			reply.Body.Close()
		}
	}
	// the id stands in the head as it is: these letters at its end take more room when they are compressed
	marked := func(rid string) string { return "rid=" + rid + " " + strings.Repeat(`\`, 32) }
	of := func(value string) string { return strings.TrimPrefix(strings.Fields(value)[0], "rid=") }
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	switch kind {
	case "http2-back":
		handle := func(w http.ResponseWriter, r *http.Request) {
			rid := of(r.Header.Get(header))
			io.Copy(io.Discard, r.Body)
			down(rid)
			w.Write(body(rid, 1<<20))
		}
		panic((&http.Server{Handler: http.HandlerFunc(handle), Protocols: &protocols}).Serve(listen()))
	case "grpc-back":
		answer := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var asked []byte
			if err := decode(&asked); err != nil {
				return nil, err
			}
			down(of(metadata.ValueFromIncomingContext(ctx, header)[0]))
			return &asked, nil
		}
		many := func(_ any, stream grpc.ServerStream) error {
			var asked []byte
			if err := stream.RecvMsg(&asked); err != nil {
				return err
			}
			rid := of(metadata.ValueFromIncomingContext(stream.Context(), header)[0])
			down(rid)
			for range 20 {
				reply := body(rid, 100_000)
				if err := stream.SendMsg(&reply); err != nil {
					return err
				}
			}
			return nil
		}
		encoding.RegisterCodec(bytesAlone{})
		server := grpc.NewServer()
		server.RegisterService(&grpc.ServiceDesc{ServiceName: "s.S", HandlerType: (*any)(nil),
			Methods: []grpc.MethodDesc{{MethodName: "Up", Handler: answer}},
			Streams: []grpc.StreamDesc{{StreamName: "Many", Handler: many, ServerStreams: true}}}, nil)
		panic(server.Serve(listen()))
	case "http2", "grpc":
	default:
		return false
	}
	client := http.Client{Transport: &http.Transport{Protocols: &protocols}}
	ask := func(_ context.Context, rid string) error {
		asked, err := http.NewRequest("POST", "http://127.0.0.1:"+env("BACK")+"/up", bytes.NewReader(body(rid, 1<<20)))
		if err != nil {
			return err
		}
		asked.Header.Set(header, marked(rid))
		reply, err := client.Do(asked)
		if err == nil {
			io.Copy(io.Discard, reply.Body)
			reply.Body.Close()
		}
		return err
	}
	if kind == "grpc" {
		encoding.RegisterCodec(bytesAlone{})
		channel, err := grpc.NewClient("127.0.0.1:"+env("BACK"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			panic(err)
		}
		ask = func(ctx context.Context, rid string) error {
			asked, reply := body(rid, 100_000), []byte{}
			ctx = metadata.AppendToOutgoingContext(ctx, header, marked(rid))
			if !isLarge {
				return channel.Invoke(ctx, "/s.S/Up", &asked, &reply)
			}
			stream, err := channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/s.S/Many")
			if err == nil {
				err = stream.SendMsg(&asked)
			}
			if err == nil {
				err = stream.CloseSend()
			}
			for err == nil {
				err = stream.RecvMsg(&reply)
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
	log, err := os.OpenFile(env("LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		rid, status := r.URL.Query().Get("rid"), 200
		if ask(r.Context(), rid) != nil {
			status = 503
		}
		fmt.Fprintf(log, "rid=%s %d\n", rid, status)
		w.WriteHeader(status)
		io.WriteString(w, rid)
	}
	panic((&http.Server{Handler: http.HandlerFunc(handle)}).Serve(listen()))
}

// bytesAlone takes messages as they are.
type bytesAlone struct{}

func (bytesAlone) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesAlone) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}
func (bytesAlone) Name() string { return "proto" }

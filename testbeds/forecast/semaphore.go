// Go's HTTP server with a number of places inside: a request takes one, sleeps and computes, and gives it back. Goroutines wait
// for a place at a channel, which no kernel sees. Without places (0) it only computes: /slow eight times as long as /fast.
// Arguments: PORT PLACES.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

func compute(rounds int) int {
	sum := 0
	for i := 0; i < rounds*100_000; i++ {
		sum += i * i
	}
	return sum
}

func main() {
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	places := make(chan struct{}, count)
	http.HandleFunc("/held", func(w http.ResponseWriter, r *http.Request) {
		places <- struct{}{}
		time.Sleep(6 * time.Millisecond)
		sum := compute(5)
		<-places
		fmt.Fprintln(w, sum)
	})
	http.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, compute(40)) })
	http.HandleFunc("/fast", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, compute(5)) })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}

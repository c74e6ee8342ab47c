// Go's HTTP server with a pool of connections to PostgreSQL. Each request takes one, asks twice, and gives it back.
// Arguments: PORT CONNECTIONS DSN.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	_ "github.com/lib/pq"
)

func main() {
	size, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("postgres", os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		conn, err := db.Conn(r.Context())
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		defer conn.Close()
		var count int
		if _, err = conn.ExecContext(r.Context(), "SELECT pg_sleep(0.008)"); err == nil {
			err = conn.QueryRowContext(r.Context(), "SELECT count(*) FROM generate_series(1, 2000)").Scan(&count)
		}
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		fmt.Fprintln(w, count)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}

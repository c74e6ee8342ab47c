module goroutines

go 1.24

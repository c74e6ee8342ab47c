module stalls

go 1.21

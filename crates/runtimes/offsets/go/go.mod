module offsets

go 1.18

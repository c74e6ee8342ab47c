module wakepath/tls

go 1.21

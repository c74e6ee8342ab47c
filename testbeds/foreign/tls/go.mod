module wakepath-testbed-tls

go 1.24

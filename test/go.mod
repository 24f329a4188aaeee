module github.com/slidegate/slidegate/test

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/slidegate/slidegate v0.0.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

replace github.com/slidegate/slidegate => ../

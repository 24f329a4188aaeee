// Command slidegate limits HTTP requests by sliding windows: in front of a service, or on a log.
package main

import (
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/console"
)

func main() { os.Exit(console.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Command caddy is Caddy with its standard modules and slidegate.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/slidegate/slidegate/caddygate"
)

func main() { caddycmd.Main() }

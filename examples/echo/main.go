// Program echo has a limit before every route of Echo and another before one.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/echogate"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	reports := slidegate.MustNew(memstore.New(), slidegate.PerHour(2).Named("reports"))

	e := echo.New()
	e.Use(echogate.PerIP(slidegate.PerMinute(100)))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })
	e.GET("/report", func(c *echo.Context) error {
		d, _ := echogate.FromContext(c)
		return c.String(http.StatusOK, fmt.Sprintf("a report, %d left\n", d.Remaining()))
	}, echogate.MustNew(reports))
	log.Fatal(http.ListenAndServe(*listen, e))
}

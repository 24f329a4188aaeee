// Program fiber has a limit before every route of Fiber and another before one.
package main

import (
	"flag"
	"fmt"
	"log"

	"github.com/gofiber/fiber/v3"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/fibergate"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	reports := slidegate.MustNew(memstore.New(), slidegate.PerHour(2).Named("reports"))

	app := fiber.New()
	app.Use(fibergate.PerIP(slidegate.PerMinute(100)))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello\n") })
	app.Get("/report", fibergate.MustNew(reports), func(c fiber.Ctx) error {
		d, _ := fibergate.FromContext(c)
		return c.SendString(fmt.Sprintf("a report, %d left\n", d.Remaining()))
	})
	log.Fatal(app.Listen(*listen, fiber.ListenConfig{DisableStartupMessage: true}))
}

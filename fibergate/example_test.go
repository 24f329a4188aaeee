package fibergate_test

import (
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/fibergate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func Example() {
	login := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))

	app := fiber.New()
	app.Use(fibergate.PerIP(slidegate.PerMinute(100)))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
	app.Post("/login", fibergate.MustNew(login), func(c fiber.Ctx) error { return c.SendString("welcome") })

	fmt.Println(ask(app, "GET", "/"))
	fmt.Println(ask(app, "POST", "/login"))
	fmt.Println(ask(app, "POST", "/login"))
	fmt.Println(ask(app, "GET", "/"))
	// Output:
	// 200 hello
	// 200 welcome
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["1/1m"]}
	// 200 hello
}

func ExampleContext() {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	byItem := httpgate.By(func(r *http.Request) (string, error) {
		c := fibergate.Context(r)
		return httpgate.Join(c.Route().Path, c.Params("id")), nil
	})
	app := fiber.New()
	app.Get("/items/:id", fibergate.MustNew(limiter, byItem), func(c fiber.Ctx) error {
		d, _ := fibergate.FromContext(c)
		return c.SendString(fmt.Sprintf("item %s, %d left", c.Params("id"), d.Remaining()))
	})
	fmt.Println(ask(app, "GET", "/items/1"))
	fmt.Println(ask(app, "GET", "/items/1"))
	fmt.Println(ask(app, "GET", "/items/2"))
	// Output:
	// 200 item 1, 1 left
	// 200 item 1, 0 left
	// 200 item 2, 1 left
}

func ExampleOnDeny() {
	app := fiber.New()
	app.Use(fibergate.PerIP(slidegate.PerMinute(1), fibergate.OnDeny(func(c fiber.Ctx) error {
		d, _ := fibergate.FromContext(c)
		return c.JSON(fiber.Map{"limit": d.Binding().Limit.String()})
	})))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })

	fmt.Println(ask(app, "GET", "/"))
	fmt.Println(ask(app, "GET", "/"))
	// Output:
	// 200 hello
	// 429 {"limit":"1/1m"}
}

package echogate_test

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/echogate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func Example() {
	login := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))

	e := echo.New()
	e.Use(echogate.PerIP(slidegate.PerMinute(100)))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello") })
	e.POST("/login", func(c *echo.Context) error { return c.String(http.StatusOK, "welcome") }, echogate.MustNew(login))

	fmt.Println(ask(e, "GET", "/"))
	fmt.Println(ask(e, "POST", "/login"))
	fmt.Println(ask(e, "POST", "/login"))
	fmt.Println(ask(e, "GET", "/"))
	// Output:
	// 200 hello
	// 200 welcome
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["1/1m"]}
	// 200 hello
}

func ExampleContext() {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	byItem := httpgate.By(func(r *http.Request) (string, error) {
		c := echogate.Context(r)
		return httpgate.Join(c.Path(), c.Param("id")), nil
	})
	e := echo.New()
	e.GET("/items/:id", func(c *echo.Context) error {
		d, _ := echogate.FromContext(c)
		return c.String(http.StatusOK, fmt.Sprintf("item %s, %d left", c.Param("id"), d.Remaining()))
	}, echogate.MustNew(limiter, byItem))
	fmt.Println(ask(e, "GET", "/items/1"))
	fmt.Println(ask(e, "GET", "/items/1"))
	fmt.Println(ask(e, "GET", "/items/2"))
	// Output:
	// 200 item 1, 1 left
	// 200 item 1, 0 left
	// 200 item 2, 1 left
}

func ExampleOnDeny() {
	e := echo.New()
	e.Use(echogate.PerIP(slidegate.PerMinute(1), echogate.OnDeny(func(*echo.Context) error {
		return echo.ErrTooManyRequests // the server's HTTPErrorHandler answers, as for every error
	})))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello") })

	fmt.Println(ask(e, "GET", "/"))
	fmt.Println(ask(e, "GET", "/"))
	// Output:
	// 200 hello
	// 429 {"message":"Too Many Requests"}
}

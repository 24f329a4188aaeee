package echov4gate_test

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/echov4gate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func Example() {
	login := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))

	e := echo.New()
	e.Use(echov4gate.PerIP(slidegate.PerMinute(100)))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })
	e.POST("/login", func(c echo.Context) error { return c.String(http.StatusOK, "welcome") }, echov4gate.MustNew(login))

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
		c := echov4gate.Context(r)
		return httpgate.Join(c.Path(), c.Param("id")), nil
	})
	e := echo.New()
	e.GET("/items/:id", func(c echo.Context) error {
		d, _ := echov4gate.FromContext(c)
		return c.String(http.StatusOK, fmt.Sprintf("item %s, %d left", c.Param("id"), d.Remaining()))
	}, echov4gate.MustNew(limiter, byItem))
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
	e.Use(echov4gate.PerIP(slidegate.PerMinute(1), echov4gate.OnDeny(func(echo.Context) error {
		return echo.ErrTooManyRequests // the server's HTTPErrorHandler answers, as for every error
	})))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })

	fmt.Println(ask(e, "GET", "/"))
	fmt.Println(ask(e, "GET", "/"))
	// Output:
	// 200 hello
	// 429 {"message":"Too Many Requests"}
}

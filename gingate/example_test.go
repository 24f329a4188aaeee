package gingate_test

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gingate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func Example() {
	login := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))

	router := gin.New()
	router.Use(gingate.PerIP(slidegate.PerMinute(100)))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })
	router.POST("/login", gingate.MustNew(login), func(c *gin.Context) { c.String(http.StatusOK, "welcome") })

	fmt.Println(ask(router, "GET", "/"))
	fmt.Println(ask(router, "POST", "/login"))
	fmt.Println(ask(router, "POST", "/login"))
	fmt.Println(ask(router, "GET", "/"))
	// Output:
	// 200 hello
	// 200 welcome
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["1/1m"]}
	// 200 hello
}

func ExampleContext() {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	byItem := httpgate.By(func(r *http.Request) (string, error) {
		c := gingate.Context(r)
		return httpgate.Join(c.FullPath(), c.Param("id")), nil
	})
	router := gin.New()
	router.GET("/items/:id", gingate.MustNew(limiter, byItem), func(c *gin.Context) {
		d, _ := gingate.FromContext(c)
		c.String(http.StatusOK, "item %s, %d left", c.Param("id"), d.Remaining())
	})
	fmt.Println(ask(router, "GET", "/items/1"))
	fmt.Println(ask(router, "GET", "/items/1"))
	fmt.Println(ask(router, "GET", "/items/2"))
	// Output:
	// 200 item 1, 1 left
	// 200 item 1, 0 left
	// 200 item 2, 1 left
}

func ExampleOnDeny() {
	router := gin.New()
	router.Use(gingate.PerIP(slidegate.PerMinute(1), gingate.OnDeny(func(c *gin.Context) {
		d, _ := gingate.FromContext(c)
		c.JSON(http.StatusTooManyRequests, gin.H{"limit": d.Binding().Limit.String()})
	})))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })

	fmt.Println(ask(router, "GET", "/"))
	fmt.Println(ask(router, "GET", "/"))
	// Output:
	// 200 hello
	// 429 {"limit":"1/1m"}
}

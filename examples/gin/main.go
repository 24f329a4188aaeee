// Program gin has a limit before every route of gin and another before one.
package main

import (
	"flag"
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gingate"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	gin.SetMode(gin.ReleaseMode)
	reports := slidegate.MustNew(memstore.New(), slidegate.PerHour(2).Named("reports"))

	router := gin.New()
	router.Use(gingate.PerIP(slidegate.PerMinute(100)))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello\n") })
	router.GET("/report", gingate.MustNew(reports), func(c *gin.Context) {
		d, _ := gingate.FromContext(c)
		c.String(http.StatusOK, "a report, %d left\n", d.Remaining())
	})
	log.Fatal(router.Run(*listen))
}

// The program of somebody who has nothing but the modules that were released.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gingate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
)

func main() {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerHour(2))
	for range 3 {
		fmt.Println(limiter.Allow(context.Background(), "user:42"))
	}

	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gingate.PerIP(slidegate.PerHour(1)))
	router.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })
	for range 2 {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code)
	}

	client := rueidisstore.Lazy(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, DisableCache: true}) // where nobody listens
	defer client.Close()
	store := redisstore.New(client, redisstore.WithTimeout(10*time.Second))
	_, err := slidegate.MustNew(store, slidegate.PerHour(2)).Take(context.Background(), "user:42")
	fmt.Println(err)
}

module github.com/slidegate/slidegate/test

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/coder/websocket v1.8.15
	github.com/go-chi/chi/v5 v5.5.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/slidegate/slidegate v0.0.0
	github.com/slidegate/slidegate/redisstore/goredis v0.0.0
	github.com/slidegate/slidegate/redisstore/rueidis v0.0.0
	github.com/valkey-io/valkey-go v1.0.79
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.48.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

replace github.com/slidegate/slidegate => ../

replace github.com/slidegate/slidegate/redisstore/goredis => ../redisstore/goredis

replace github.com/slidegate/slidegate/redisstore/rueidis => ../redisstore/rueidis

package fibergate_test

import (
	"net"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/fibergate"
)

// BenchmarkGate is a request through an app, without a gate, admitted and refused.
func BenchmarkGate(b *testing.B) {
	for _, c := range []struct {
		name string
		gate fiber.Handler
	}{
		{"without", func(c fiber.Ctx) error { return c.Next() }},
		{"admitted", fibergate.PerIP(slidegate.PerDay(slidegate.MaxQuota).Counter())},
		{"refused", fibergate.PerIP(slidegate.PerDay(1))},
	} {
		b.Run(c.name, func(b *testing.B) {
			app := fiber.New()
			app.Get("/", c.gate, text("hello"))
			handler := app.Handler()
			ctx := &fasthttp.RequestCtx{}
			ctx.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 51234}, nil)
			ctx.Request.SetRequestURI("/")
			for _, field := range [][2]string{{"Host", "example.com"}, {"Accept", "*/*"}, {"User-Agent", "curl/8"}, {"X-API-Key", "0123456789abcdef"}} {
				ctx.Request.Header.Set(field[0], field[1])
			}
			b.ReportAllocs()
			for b.Loop() {
				ctx.Response.Reset()
				ctx.ResetUserValues()
				handler(ctx)
			}
		})
	}
}

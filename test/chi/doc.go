// Package chi shows package httpgate in front of a chi router. A chi middleware is that of net/http,
// so the gate needs no adapter; the laws of every gate hold there as well.
package chi

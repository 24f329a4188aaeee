package recipes_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"

	"github.com/coder/websocket"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// chat connects to a server of handler, once for each number, sends as many messages, and prints how many were
// answered and how each connection ended.
func chat(handler http.Handler, messages ...int) {
	server := httptest.NewServer(handler)
	defer server.Close()
	var all []string
	for _, n := range messages {
		all = append(all, connect(server.URL, n))
	}
	fmt.Println(together(all))
}

func connect(url string, messages int) string {
	ctx := context.Background()
	conn, resp, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return read(resp)
	}
	defer conn.CloseNow()
	for i := range messages {
		if err = conn.Write(ctx, websocket.MessageText, []byte("hello")); err == nil {
			_, _, err = conn.Read(ctx)
		}
		if err != nil {
			return fmt.Sprint(i, " answered, then closed")
		}
	}
	return fmt.Sprint(messages, " answered")
}

// accept makes a connection of a request, and returns it with the messages that come.
func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, iter.Seq[[]byte]) {
	conn, err := websocket.Accept(w, r, nil) // an error has been answered
	return conn, func(yield func([]byte) bool) {
		for err == nil {
			var message []byte
			if _, message, err = conn.Read(r.Context()); err == nil && !yield(message) {
				return
			}
		}
	}
}

func Example_webSocket() {
	_, store := standing()
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(10).Named("connections")))
	messages := slidegate.MustNew(store, slidegate.PerSecond(10).Named("messages"))
	handler := gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := gate.KeyOf(r) // who, not which connection
		conn, received := accept(w, r)
		for message := range received {
			if ok, err := messages.Allow(r.Context(), key); err == nil && !ok {
				conn.Close(websocket.StatusPolicyViolation, "more than 10 messages a second")
				return
			}
			conn.Write(r.Context(), websocket.MessageText, message)
		}
	}))
	chat(handler, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	// Output:
	// 8 answered; 2 answered, then closed; 8 × 0 answered; 429 connections, again in 60 s
}

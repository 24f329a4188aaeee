// Program websocket echoes messages, and limits who connects and how many messages somebody sends, over all connections together.
// With -connect it is a client of such a server.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/coder/websocket"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// echo answers every message with itself, until its sender has sent too many.
func echo(gate *httpgate.Gate, messages *slidegate.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, err := gate.KeyOf(r) // who, not which connection
		if err != nil {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // has been answered
		}
		defer conn.CloseNow()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if ok, err := messages.Allow(r.Context(), key); err == nil && !ok {
				conn.Close(websocket.StatusPolicyViolation, "too many messages")
				return
			}
			if conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}
}

// send sends n messages, and says what became of each.
func send(url string, n int) error {
	ctx := context.Background()
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	for i := range n {
		if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "message %d", i+1)); err != nil {
			return err
		}
		_, message, err := conn.Read(ctx)
		if code := websocket.CloseStatus(err); code >= 0 {
			fmt.Println("closed:", code)
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", message)
	}
	return nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	url := flag.String("connect", "", "be a client of this server instead")
	flag.Parse()
	if *url != "" {
		if err := send(*url, 4); err != nil {
			log.Fatal(err)
		}
		return
	}

	store := memstore.New()
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(10).Named("connections")))
	messages := slidegate.MustNew(store, slidegate.PerHour(5).Named("messages"))
	log.Fatal(http.ListenAndServe(*listen, gate.Wrap(echo(gate, messages))))
}

// Program worker takes jobs from a queue and does them no faster than it may: it waits for its turn instead of being refused, and
// gives a job back that could not be done in time.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// A job is a message to a customer, who gets no more than three in half a second.
type job struct {
	customer string
	text     string
	patience time.Duration // for how long it is worth sending
}

// send does a job when its customer has room for it.
func send(ctx context.Context, limiter *slidegate.Limiter, j job) error {
	ctx, cancel := context.WithTimeout(ctx, j.patience)
	defer cancel()
	if _, err := limiter.Wait(ctx, j.customer); err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", j.customer, j.text)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	limiter := slidegate.MustNew(memstore.New(), slidegate.Per(500*time.Millisecond, 3).Named("messages"), slidegate.PerHour(6).Named("hourly"))

	queue := make(chan job, 8)
	for n := range 7 {
		queue <- job{"ann", fmt.Sprintf("message %d", n+1), 10 * time.Second}
	}
	queue <- job{"bob", "message 1", 10 * time.Second}
	close(queue)

	for j := range queue {
		var wait *slidegate.WaitError
		switch err := send(ctx, limiter, j); {
		case errors.As(err, &wait):
			// It is known at once that the turn comes too late, so nobody waits in vain: back into the queue with it.
			fmt.Printf("%s: %s has to wait for %s\n", j.customer, j.text, wait.Need.Round(time.Hour))
		case err != nil:
			fmt.Println(err)
			return
		}
	}
}

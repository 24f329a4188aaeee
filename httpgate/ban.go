package httpgate

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
)

// Ban refuses a key for a length of its own once it was refused too often; by default a key is
// admitted again as soon as its limits have room. strikes says how often is too often:
//
//	httpgate.Ban(slidegate.PerMinute(5), time.Hour)
//
// bans a key for an hour at its fifth refusal within a minute. Four are answered as refusals; the fifth is
// answered as the ban already, and so is every request of the hour that follows. A refusal for want of room
// is a strike; one of a cost that can never fit, or by [slidegate.Blocked], is none. When a ban begins, the
// strikes are forgotten.
//
// A banned request is answered as a refused one, with the problem type abnormal-usage-detected, no
// RateLimit fields, and in Retry-After what is left of the ban. It is charged to no limit and is no
// strike, so nothing that the banned do makes a ban longer. [Gate.Unban] ends one. Observers are told of a
// ban when it begins, once, and of every request that it refuses: see [Event].
//
// Strikes and bans are limits in the store of the gate's own limiter, under the gate's key and
// the names "strikes:" and "ban:" with the name of strikes behind, so all processes over that store share
// them, and gates that are to share them need but equal strikes and lengths. It costs one call of the store more a request, to look for a ban, one
// more a refusal, and three more when a ban begins. If the store cannot be asked for a ban, the request could
// not be decided; if a strike cannot be recorded, the refusal stands and the logger and the observers are told. Requests whose
// plan is Unlimited are not looked at.
//
// A ban is 1 ms to 3650 days long, in whole milliseconds, and the name of strikes has at most 56 characters.
func Ban(strikes slidegate.Limit, length time.Duration) Option {
	return func(g *Gate) { g.ban = &ban{rule: strikes, length: length} }
}

// A ban is two plain limits: a log of strikes, and a log of bans that holds one and is as long as a ban.
type ban struct {
	rule   slidegate.Limit
	length time.Duration

	strikes, bans *slidegate.Limiter
	plate         *plate
}

// bind makes the limits, over the store of limiter.
func (b *ban) bind(limiter *slidegate.Limiter) (err error) {
	name := b.rule.Name
	if name == "" {
		name = b.rule.String()
	}
	b.strikes, err = limiter.With(b.rule.Named("strikes:" + name))
	if err == nil {
		b.bans, err = limiter.With(slidegate.Per(b.length, 1).Named("ban:" + name))
	}
	if err != nil {
		return invalidf("Ban: %s", strings.TrimPrefix(err.Error(), slidegate.ErrInvalidLimit.Error()+": "))
	}
	b.plate = newPlate(policiesOf(b.bans.Limits()))
	b.plate.ban = true
	return nil
}

// takeUnlessBanned asks the limiter if the key is not banned, and counts a refusal as a strike. It returns
// the plate of whoever refused.
func (g *Gate) takeUnlessBanned(r *http.Request, p *passage, plate *plate, key string, reason Reason, cost int64) (*plate, error) {
	b := g.ban
	banned, err := b.bans.Peek(p.Context, key)
	if err != nil {
		return plate, err
	}
	if !banned.Allowed {
		p.limiter, p.decision, p.banned = b.bans, banned, true
		return b.plate, nil
	}
	err = g.take(r, p, plate, key, reason, cost)
	if err != nil || !refusesItsKey(&p.decision) {
		return plate, err
	}
	ctx, cancel := afterwards(p.Context) // who hangs up is not spared the strike
	defer cancel()
	banned, p.banBegan, err = b.strike(ctx, key)
	if err != nil {
		g.unsettled(key, err)
	}
	if !banned.Allowed && banned.Len() > 0 {
		p.limiter, p.decision, p.banned = b.bans, banned, true
		return b.plate, nil
	}
	return plate, nil
}

// refusesItsKey tells of a refusal by a limit that counts the gate's own key. What others have used up is nobody's strike.
func refusesItsKey(d *slidegate.Decision) bool {
	for i := range d.Len() {
		if d.Refuses(i) && d.KeyOf(i) == d.Key() {
			return true
		}
	}
	return false
}

// strike records a strike and bans the key if there are too many. It returns the refusal of a ban, and
// whether the ban has begun with this strike: of those who strike at once one alone is told so.
func (b *ban) strike(ctx context.Context, key string) (banned slidegate.Decision, began bool, err error) {
	d, err := b.strikes.Take(ctx, key)
	if err != nil || d.Allowed && d.Remaining() > 0 {
		return banned, false, err
	}
	if banned, err = b.bans.Take(ctx, key); err != nil || !banned.Allowed {
		return banned, false, err
	}
	forgotten := b.strikes.Reset(ctx, key)
	banned, err = b.bans.Peek(ctx, key)
	return banned, true, errors.Join(forgotten, err)
}

// Unban ends the ban of a key and forgets its strikes. The key is as observers are told it, such as
// "ip:203.0.113.7". The error wraps [slidegate.ErrUnavailable] if the store could not be asked, and
// [slidegate.ErrInvalidLimit] if the gate has no [Ban].
func (g *Gate) Unban(ctx context.Context, key string) error {
	if g.ban == nil {
		return invalidf("Unban: the gate has no Ban")
	}
	return errors.Join(g.ban.bans.Reset(ctx, key), g.ban.strikes.Reset(ctx, key))
}

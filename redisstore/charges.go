package redisstore

import (
	"context"

	"github.com/slidegate/slidegate"
)

var _ slidegate.ChargesPlan = (*plan)(nil)

// Charges implements [slidegate.ChargesPlan]. Redis reads all that it holds of the key in one act: a log of a million
// entries keeps it busy for some tenths of a second, as no decision does.
func (p *plan) Charges(ctx context.Context, key string, most int) ([][]slidegate.Charge, error) {
	c := p.call(p.charges, key)
	c.args = append(c.args, decimal(int64(most)))
	for i := range p.limits {
		c.args = append(c.args, p.args[i*argsPerLimit], p.args[i*argsPerLimit+2])
	}
	_, reply, err := p.charges.ask(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case reply[0] < 0:
		return nil, p.store.newer()
	}
	all, ok := p.decodeCharges(reply[1:])
	if !ok {
		return nil, p.store.failed(errReply)
	}
	return all, nil
}

// decodeCharges reads the reply of the script; ok is false where it is another's.
func (p *plan) decodeCharges(reply []int64) (all [][]slidegate.Charge, ok bool) {
	all = make([][]slidegate.Charge, len(p.limits))
	for i := range all {
		if len(reply) == 0 || reply[0] < 0 || reply[0] > int64(len(reply)-1)/2 {
			return nil, false
		}
		n := int(reply[0])
		for j := range n {
			all[i] = append(all[i], slidegate.Charge{At: reply[1+2*j], Units: reply[2+2*j]})
		}
		reply = reply[1+2*n:]
	}
	return all, len(reply) == 0
}

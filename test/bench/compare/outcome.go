package main

import "fmt"

// An outcome is what became of a target.
type outcome struct {
	part, contender string
	figure          string  // of a load, else empty
	value, bound    float64 // in times what it is held against, or a count
	more            bool    // is better

	rival  string  // who is best at the figure of a load
	ofBest float64 // the same ratio of the best rounds

	floor   float64 // what is reached by who does only what nobody can leave out
	floorIs string  // empty where there is no floor
}

func (o *outcome) reaches(value float64) bool {
	if o.more {
		return value >= o.bound
	}
	return value <= o.bound
}

func (o *outcome) isMet() bool { return o.reaches(o.value) }

// isForbidden tells that not even the floor reaches the target, in the same rounds. What does less than the contender and
// took longer is no floor: those rounds tell nothing of what is possible.
func (o *outcome) isForbidden() bool {
	isFloor := o.floor <= o.value
	if o.more {
		isFloor = o.floor >= o.value
	}
	return !o.isMet() && o.floorIs != "" && isFloor && !o.reaches(o.floor)
}

func (o *outcome) isMissed() bool { return !o.isMet() && !o.isForbidden() }

func (o *outcome) sign() string {
	if o.more {
		return "≥"
	}
	return "≤"
}

// cell is the verdict in a table.
func (o *outcome) cell() string {
	switch {
	case o.isMet():
		return "met"
	case o.isForbidden():
		return fmt.Sprintf("forbidden: the floor has %.3g", o.floor)
	}
	return "**missed**"
}

// line is the verdict by itself.
func (o *outcome) line() string {
	name := o.part + "/" + o.contender
	if o.figure != "" {
		name += " " + o.figure
	}
	figures := fmt.Sprintf("%s: %.3g (%s %.4g)", name, o.value, o.sign(), o.bound)
	switch {
	case o.isMet():
		return "ok " + figures
	case o.isForbidden():
		return fmt.Sprintf("FORBIDDEN %s %s has %.3g", figures, o.floorIs, o.floor)
	}
	return "MISSED " + figures
}

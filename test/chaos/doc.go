// Package chaos breaks what a limiter stands on while people are asking, and looks at what they get.
//
// Each row of one table is a fault: how to break something and how to mend it, what may be undecided meanwhile, and
// what is forgotten. For each, real processes of the command and limiters in a program share one budget in a real
// Redis, and all are asked all the time. Whatever the fault is, nobody waits for longer than the deadline, everybody gets what the stated
// policy says, no window holds more than the bound, decisions are made again without anybody's help, and nothing is left
// behind. The table is also that of docs/chaos.md.
package chaos

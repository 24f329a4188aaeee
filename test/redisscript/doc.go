// Package redisscript tests the Lua scripts of the Redis store by themselves, against real servers: that they
// answer as the oracle does, that what they store is small, understood or replaced, and gone in time, and
// that they are quick next to a sorted set.
package redisscript

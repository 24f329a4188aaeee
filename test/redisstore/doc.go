// Package redisstore tests the Redis store on real servers: the suite of gatetest through each client
// and topology, and what happens when Redis, or the network before it, does what they do.
package redisstore

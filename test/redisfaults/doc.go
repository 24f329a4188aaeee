// Package redisfaults tests what the Redis store does when Redis fails, is slow, moves or is far away:
// on real servers, through each client.
//
// The promises are the same whatever happens. An answer or an error comes within the timeout of the
// store. An error wraps slidegate.ErrUnavailable and its cause, and is never the error of a context
// that the caller did not end. Nothing is charged twice. A store that is back is used within two
// seconds. And it is logged once that Redis is gone, and once that it is back.
package redisfaults

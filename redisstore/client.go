package redisstore

import "context"

// A Client runs scripts on Redis. It is all that a [Store] asks of a Redis library, so any library
// will do: packages goredis and rueidis adapt two, and the example of Client shows how little
// another takes. A Client is safe for concurrent use.
//
// Run sends EVALSHA with the script's hash, the number of keys, the keys and the arguments, and
// returns the reply, a flat array of integers. If Redis answers NOSCRIPT it sends EVAL with the source
// instead: the server says that it ran nothing. It sends nothing twice on any other error. A request
// whose answer is lost may have been charged, and a client that repeats it charges twice; most
// libraries repeat by default.
//
// All keys are in one hash slot of a cluster. Run may send the request again where a node says MOVED
// or ASK, for that node ran nothing either. It should return when ctx ends, but the store does not
// rely on it. It keeps neither slice after it has returned; the strings it may keep.
type Client interface {
	Run(ctx context.Context, s *Script, keys, args []string) ([]int64, error)
}

// A ClusterClient is a [Client] that knows whether it speaks to a cluster. In front of a cluster the
// store folds only decisions whose keys are in one hash slot. A client without this method is taken
// to speak to a single server. Clustered is asked with every call.
type ClusterClient interface {
	Client
	Clustered() bool
}

// A PromptClient is a [Client] that knows whether Run returns by the deadline of its context, also
// when it has to connect, and when nothing comes back. Run is then called in the goroutine of a caller
// whose own context cannot end, while Redis answers. Otherwise, and for a client without this method, it
// is called in a goroutine of its own, which costs some microseconds. Prompt is asked with every call.
type PromptClient interface {
	Client
	Prompt() bool
}

// A CheckedClient is a [Client] that knows whether it can serve at all. An error of Check is reported
// by [slidegate.New], as an option that cannot be built is.
type CheckedClient interface {
	Client
	Check() error
}

// A ConnectingClient is a [Client] that knows how the last attempt to connect went. Some libraries try again
// for longer than a call may take, and then the call ends without a word of why. ConnectError returns what the last
// attempt failed with, nil where it succeeded; the error of a call that was not answered in time then wraps it too.
type ConnectingClient interface {
	Client
	ConnectError() error
}

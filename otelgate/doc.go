// Package otelgate measures a slidegate store with OpenTelemetry: a function for wrap.Observe that adds to
// instruments of a meter.
//
//	meter := otel.Meter("github.com/slidegate/slidegate")
//	observe, err := otelgate.New(meter)
//	store := wrap.Observe(redis, observe)
//
// # Instruments
//
//	slidegate.decisions            counter, {decision}   slidegate.policy, slidegate.result
//	slidegate.decision.duration    histogram, s          slidegate.policy
//	slidegate.store.errors         counter, {error}      slidegate.operation
//
// The policy is the names of the limits that were asked, separated by commas. The result is "allowed" or "denied"; "error" where
// the store could not be asked, and "canceled" where the caller gave up before. The operation is "take", "peek", "refund"
// or "reset". A decision is a take; peeks, refunds and resets only count when they fail. There is no attribute of
// a key, and none can be added here: keys are people, and there are as many as there are.
//
// There are no semantic conventions for rate limiting, so the names are our own.
package otelgate
